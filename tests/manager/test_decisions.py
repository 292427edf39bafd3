"""The decisions of a store, without files: verdicts of directories, placement, registration, tasks."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tidelog.manager.background.scheduler import BackgroundThread, TaskQueue
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.metadata.registration import FEATURES, Place, Registration, bootstrap, changes
from tidelog.manager.store.directories import Found, Verdict, judge
from tidelog.manager.store.placement import place
from tidelog.protocol.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    UnknownRecord,
)
from tidelog.storage.names import parse_partition_directory

A, B, OTHER = (uuid.UUID(int=number << 100 | 5) for number in (1, 2, 3))
ROOT, SECOND = (uuid.UUID(int=number << 100 | 9) for number in (4, 5))
NODE = 1


def known(*topics: Registration) -> MetadataImage:
    return MetadataImage.of(changes(MetadataImage(), topics, node_id=NODE))


def topic(name: str = "t", topic_id: uuid.UUID = A, **facts: Any) -> Registration:
    return Registration(name, topic_id, **({"partitions": {0: Place(ROOT)}} | facts))


# ---- verdicts


def verdicts(
    image: MetadataImage, *found: tuple[str, uuid.UUID | None, uuid.UUID], adopt: bool = False
) -> list[Verdict]:
    listed = [Found(root, name, parse_partition_directory(name), topic_id) for name, topic_id, root in found]
    return [one.verdict for one in judge(listed, image, adopt=adopt)]


def test_directories_meet_their_fates() -> None:
    image = known(topic())
    assert verdicts(
        image,
        ("t-0", A, ROOT),
        ("t-1", A, ROOT),
        ("u-0", B, ROOT),
        ("__cluster_metadata-0", OTHER, ROOT),
        ("t-0.00-delete", None, ROOT),
        ("t-0.00-stray", None, ROOT),
        ("t-0.00-future", None, SECOND),
        ("u-0.00-future", None, SECOND),
    ) == [
        Verdict.LOAD,
        Verdict.STRAY,
        Verdict.STRAY,
        Verdict.LEAVE,
        Verdict.DELETE,
        Verdict.LEAVE,
        Verdict.LEAVE,
        Verdict.STRAY,
    ]
    assert verdicts(image, ("u-0.00-future", None, SECOND), adopt=True) == [Verdict.LEAVE]
    assert verdicts(image, ("t-0", None, ROOT)) == [Verdict.LOAD]
    assert verdicts(image, ("t-0", OTHER, ROOT)) == [Verdict.STRAY]


def test_adopted_partitions_agree_on_their_topic() -> None:
    found = (("u-0", B, ROOT), ("u-1", None, ROOT), ("u-2", OTHER, ROOT))
    assert verdicts(known(topic()), *found, adopt=True) == [Verdict.ADOPT, Verdict.ADOPT, Verdict.STRAY]
    assert verdicts(known(topic()), ("t-1", A, ROOT), ("t-2", OTHER, ROOT), adopt=True) == [
        Verdict.ADOPT,
        Verdict.STRAY,
    ]


def test_of_two_directories_the_registered_one_counts() -> None:
    twins = (("t-0", A, ROOT), ("t-0", A, SECOND))
    assert verdicts(known(topic()), *twins) == [Verdict.LOAD, Verdict.STRAY]
    assert verdicts(known(topic(partitions={0: Place(SECOND)})), *twins) == [Verdict.STRAY, Verdict.LOAD]
    assert verdicts(known(topic(partitions={0: Place(OTHER)})), *twins) == [Verdict.CONFLICT] * 2
    assert verdicts(MetadataImage(), *twins, adopt=True) == [Verdict.CONFLICT] * 2


def test_new_partitions_go_where_there_are_fewest() -> None:
    assert place(range(4), ["a", "b", "c"], {"a": 2, "b": 0}) == {0: "b", 1: "c", 2: "b", 3: "c"}
    assert place(range(2), ["a"], {}) == {0: "a", 1: "a"}


# ---- registration


def test_a_new_topic_is_told_whole() -> None:
    wanted = topic(config={"segment.ms": "9", "retention.ms": "-1"}, partitions={0: Place(ROOT, 7)})
    records = changes(MetadataImage(), [wanted], node_id=NODE)
    assert records == [
        TopicRecord("t", A),
        ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "-1"),
        ConfigRecord(ResourceType.TOPIC, "t", "segment.ms", "9"),
        PartitionRecord(0, A, (NODE,), (NODE,), NODE, 7, 0, (ROOT,)),
    ]
    assert changes(MetadataImage.of(records), [wanted], node_id=NODE) == []


def test_only_what_changed_is_told() -> None:
    image = known(topic(config={"a": "1", "b": "2"}))
    assert changes(image, [topic(config={"a": "1", "c": "3"})], node_id=NODE) == [
        ConfigRecord(ResourceType.TOPIC, "t", "b", None),
        ConfigRecord(ResourceType.TOPIC, "t", "c", "3"),
    ]
    same = {"config": {"a": "1", "b": "2"}}
    moved = topic(partitions={0: Place(SECOND)}, **same)
    assert changes(image, [moved], node_id=NODE) == [PartitionChangeRecord(0, A, directories=(SECOND,))]
    (newer,) = changes(image, [topic(partitions={0: Place(ROOT, 3)}, **same)], node_id=NODE)
    assert isinstance(newer, PartitionRecord)
    assert (newer.leader_epoch, newer.partition_epoch) == (3, 1)
    assert changes(image, [], node_id=NODE) == [], "not to be seen is not removed"
    assert changes(image, [], node_id=NODE, removed=[A]) == [RemoveTopicRecord(A)]
    again = changes(image, [topic(topic_id=B)], node_id=NODE)
    assert again[:2] == [RemoveTopicRecord(A), TopicRecord("t", B)]


def test_producer_ids_in_use_are_not_given_away_again() -> None:
    image = MetadataImage.of([ProducerIdsRecord(NODE, -1, 1000)])
    assert changes(image, [], node_id=NODE, largest_producer_id=999) == []
    assert changes(image, [], node_id=NODE, largest_producer_id=1000) == [ProducerIdsRecord(NODE, -1, 2000)]


def test_the_largest_producer_id_leaves_none_and_that_is_said_once() -> None:
    image = MetadataImage()
    (record,) = changes(image, [], node_id=NODE, largest_producer_id=2**63 - 1)
    assert record == ProducerIdsRecord(NODE, -1, 2**63 - 1)
    image.replay(record)
    assert changes(image, [], node_id=NODE, largest_producer_id=2**63 - 1) == []


def test_bootstrap_keeps_what_is_not_about_topics() -> None:
    kept: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 30),
        UnknownRecord(11, 0, b"scram"),
        ConfigRecord(ResourceType.BROKER, "", "k", "v"),
    ]
    first = bootstrap(kept, changes(MetadataImage(), [topic()], node_id=NODE), node_id=NODE)
    assert first[:3] == kept
    assert [type(one) for one in first[3:]] == [TopicRecord, PartitionRecord]
    assert bootstrap(first, [RemoveTopicRecord(A)], node_id=NODE) == kept
    new = bootstrap([], [], node_id=NODE)
    assert {one.name: one.feature_level for one in new if isinstance(one, FeatureLevelRecord)} == FEATURES


# ---- background tasks


def test_tasks_run_when_they_are_due() -> None:
    now, ran, failed = [0], [], []
    queue = TaskQueue(lambda: now[0], lambda name, error: failed.append((name, str(error))))
    queue.schedule_once("late", lambda: ran.append("late"), 50)
    queue.schedule_once("early", lambda: ran.append("early"), 10)
    queue.schedule("often", lambda: ran.append("often"), period_ms=20, delay_ms=5)

    def fail() -> None:
        raise ValueError("no")

    queue.schedule("broken", fail, period_ms=100)
    assert queue.run_due() == 1
    now[0] = 12
    assert queue.run_due() == 2
    assert ran == ["often", "early"]
    now[0] = 60
    queue.run_due()
    assert ran == ["often", "early", "often", "late"]
    assert failed == [("broken", "no")]
    queue.schedule_once("after", lambda: ran.append("after"), 10**6)
    queue.drain()
    assert ran[-1] == "after"
    now[0] = 10**9
    assert queue.run_due() == 0


def test_the_thread_runs_tasks_and_stops() -> None:
    queue = TaskQueue(lambda: 0)
    thread = BackgroundThread(queue, "worker")
    done = threading.Event()
    queue.schedule_once("one", done.set)
    assert done.wait(PATIENCE_S)
    thread.stop()
    queue.schedule_once("never", lambda: pytest.fail("ran after stop"))
    assert not any(one.name == "worker" for one in threading.enumerate())
