"""Offsets without sockets: commits, fetches, transactions, deletion, expiry, restarts."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.members import settled
from tests.broker.world import Topics, World
from tidelog.broker.effects import CONSUMER_OFFSETS, Partition, TopicsDeleted
from tidelog.broker.groups.classic_group import ClassicGroup
from tidelog.manager.coordinators.partitioning import java_hash, partition_for

DAY = 24 * 3_600_000
RETENTION = 7 * DAY


def topics_of(at: World, version: int, offsets: dict[Partition, Any]) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), offset in offsets.items():
        said = {"partition_index": number, "committed_offset": offset, "committed_metadata": f"m{offset}"}
        found.setdefault(topic, []).append(said)
    if version < 10:
        return [{"name": name, "partitions": parts} for name, parts in found.items()]
    return [{"topic_id": at.topics.topic_id(name), "partitions": parts} for name, parts in found.items()]


def commit(
    at: World, offsets: dict[Partition, int], version: int = 8, group: str = "simple", **more: Any
) -> dict[Partition, str]:
    said = {"group_id": group, "member_id": "", "generation_id_or_member_epoch": -1, "retention_time": -1}
    answer = at.ask("offset_commit", version, topics=topics_of(at, version, offsets), **(said | more))
    return {
        (at.topics.topic_name(topic.topic_id) if version >= 10 else topic.name, part.partition_index): (
            part.error_code.name
        )
        for topic in answer.topics
        for part in topic.partitions
    }


def fetch(
    at: World, *parts: Partition, version: int = 8, group: str = "simple", **more: Any
) -> dict[Partition, Any]:
    """What is committed: an offset, or the name of an error."""
    wanted: list[dict[str, Any]] | None = None
    if parts:
        names = dict.fromkeys(name for name, _ in parts)
        wanted = [
            {
                "name": name,
                "topic_id": at.topics.topic_id(name),
                "partition_indexes": [number for each, number in parts if each == name],
            }
            for name in names
        ]
    if version >= 8:
        stable = more.pop("require_stable", False)
        answer = at.ask(
            "offset_fetch",
            version,
            groups=[{"group_id": group, "topics": wanted, **more}],
            require_stable=stable,
        ).groups[0]
    else:
        answer = at.ask("offset_fetch", version, group_id=group, topics=wanted, **more)
    assert getattr(answer, "error_code", 0) == 0, answer.error_code
    return {
        (at.topics.topic_name(topic.topic_id) if version >= 10 else topic.name, part.partition_index): (
            part.committed_offset if part.error_code == 0 else part.error_code.name
        )
        for topic in answer.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits_and_every_version_fetches(version: int) -> None:
    at = World()
    assert commit(at, {("t", 0): 7, ("u", 1): 9}, version) == {("t", 0): "none", ("u", 1): "none"}
    for other in range(1, 11):
        assert fetch(at, ("t", 0), ("t", 1), ("u", 1), version=other) == {
            ("t", 0): 7,
            ("t", 1): -1,
            ("u", 1): 9,
        }
        if other >= 2:
            assert fetch(at, version=other) == {("t", 0): 7, ("u", 1): 9}
    at.restart()
    assert fetch(at) == {("t", 0): 7, ("u", 1): 9}


def test_the_empty_group_id_has_offsets_too() -> None:
    at = World()
    assert commit(at, {("t", 0): 7}, group="") == {("t", 0): "none"}
    at.restart()
    assert fetch(at, group="") == {("t", 0): 7}
    assert at.ask("delete_groups", 2, groups_names=[""]).results[0].error_code == 0
    assert fetch(at, group="") == {}


def test_a_later_commit_counts_and_metadata_comes_back() -> None:
    at = World()
    for offset in (3, 5, 4):
        commit(at, {("t", 0): offset})
    answer = at.ask("offset_fetch", 7, group_id="simple", topics=[{"name": "t", "partition_indexes": [0]}])
    (part,) = answer.topics[0].partitions
    assert (part.committed_offset, part.metadata, part.committed_leader_epoch) == (4, "m4", -1)


def test_commits_that_are_refused() -> None:
    at, (first, _) = settled()
    unknown = {
        ("t", 0): "none",
        ("t", 3): "unknown_topic_or_partition",
        ("x", 0): "unknown_topic_or_partition",
    }
    assert commit(at, {("t", 0): 1, ("t", 3): 1, ("x", 0): 1}) == unknown
    assert first.commit() == "none"
    for change, code in [
        ({"generation_id_or_member_epoch": 0}, "illegal_generation"),
        ({"generation_id_or_member_epoch": 2}, "illegal_generation"),
        ({"member_id": "stranger"}, "unknown_member_id"),
        ({"member_id": "", "generation_id_or_member_epoch": -1}, "unknown_member_id"),
        ({"group_instance_id": "i"}, "unknown_member_id"),
        ({"group_id": "none"}, "illegal_generation"),
    ]:
        assert first.commit(**change) == code
    assert first.commit(version=9, group_id="none") == "group_id_not_found"
    big = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 4_097}
    answer = at.ask(
        "offset_commit",
        8,
        group_id="simple",
        member_id="",
        topics=[{"name": "t", "partitions": [big, {**big, "partition_index": 1, "committed_metadata": "x"}]}],
    )
    assert [part.error_code.name for part in answer.topics[0].partitions] == [
        "offset_metadata_too_large",
        "none",
    ]


def test_a_commit_that_cannot_be_written_does_not_count() -> None:
    at = World()
    commit(at, {("t", 0): 1})
    at.failing[CONSUMER_OFFSETS] = ErrorCode.not_enough_replicas
    assert commit(at, {("t", 0): 2}) == {("t", 0): "coordinator_not_available"}
    assert fetch(at, ("t", 0)) == {("t", 0): 1}


def test_groups_are_fetched_together() -> None:
    at = World()
    commit(at, {("t", 0): 1}, group="a")
    commit(at, {("t", 0): 2}, group="b")
    groups = [{"group_id": name, "topics": None} for name in ("a", "b", "c")]
    answer = at.ask("offset_fetch", 9, groups=groups)
    assert [each.group_id for each in answer.groups] == ["a", "b", "c"]
    assert [each.topics[0].partitions[0].committed_offset for each in answer.groups[:2]] == [1, 2]
    assert answer.groups[2].topics == ()


def test_offsets_of_a_topic_that_was_made_anew_do_not_count() -> None:
    at = World()
    commit(at, {("t", 0): 7})
    at.topics.ids["t"] = uuid.uuid4()
    assert fetch(at, ("t", 0)) == {("t", 0): -1}


def test_a_topic_id_that_nobody_knows() -> None:
    at = World()
    part = {"partition_index": 0, "committed_offset": 1}
    topics = [{"topic_id": uuid.uuid4(), "partitions": [part]}]
    answer = at.ask("offset_commit", 10, group_id="g", member_id="", topics=topics)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.unknown_topic_id
    wanted = [{"topic_id": uuid.uuid4(), "partition_indexes": [0]}]
    answer = at.ask("offset_fetch", 10, groups=[{"group_id": "g", "topics": wanted}])
    assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.unknown_topic_id


# ---- transactions


def begin(at: World) -> Any:
    return at.ask("init_producer_id", 5, transactional_id="tx", transaction_timeout=60_000)


def commit_in(
    at: World, producer: Any, offsets: dict[Partition, int], version: int = 5, **more: Any
) -> dict[Partition, str]:
    answer = at.ask(
        "txn_offset_commit",
        version,
        **{
            "transactional_id": "tx",
            "group_id": "simple",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "topics": topics_of(at, 5, offsets),
            **more,
        },
    )
    return {
        (topic.name, part.partition_index): part.error_code.name
        for topic in answer.topics
        for part in topic.partitions
    }


def end(at: World, producer: Any, commit: bool = True, version: int = 5) -> Any:
    answer = at.ask(
        "end_txn",
        version,
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    assert answer.error_code == 0
    return answer


def with_offsets() -> World:
    return World(topics=Topics(t=3, u=2, **{CONSUMER_OFFSETS: 50}))


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_offsets_in_a_transaction_count_with_its_marker(commits: bool, restarts: int) -> None:
    at = with_offsets()
    commit(at, {("t", 0): 1, ("t", 1): 1})
    producer = begin(at)
    assert commit_in(at, producer, {("t", 0): 5, ("u", 0): 6}) == {("t", 0): "none", ("u", 0): "none"}
    if restarts > 0:
        at.restart()
    assert fetch(at, ("t", 0), ("t", 1)) == {("t", 0): 1, ("t", 1): 1}
    unstable = {("t", 0): "unstable_offset_commit", ("t", 1): 1, ("u", 0): "unstable_offset_commit"}
    assert fetch(at, ("t", 0), ("t", 1), ("u", 0), require_stable=True) == unstable
    assert fetch(at, version=7, require_stable=True)[("t", 0)] == "unstable_offset_commit"
    end(at, producer, commits)
    if restarts > 1:
        at.restart()
    expected = (
        {("t", 0): 5, ("t", 1): 1, ("u", 0): 6} if commits else {("t", 0): 1, ("t", 1): 1, ("u", 0): -1}
    )
    assert fetch(at, ("t", 0), ("t", 1), ("u", 0), require_stable=True) == expected


def test_a_plain_commit_after_one_in_a_transaction_wins_over_its_marker() -> None:
    at = with_offsets()
    producer = begin(at)
    commit_in(at, producer, {("t", 0): 5})
    commit(at, {("t", 0): 9})
    end(at, producer)
    assert fetch(at, ("t", 0)) == {("t", 0): 9}
    at.restart()
    assert fetch(at, ("t", 0)) == {("t", 0): 9}


def test_a_marker_counts_for_the_groups_of_its_partition_only() -> None:
    at = with_offsets()
    homes = {name: at.coordinators.groups.partition_for(name) for name in ("simple", "another")}
    assert homes["simple"] != homes["another"]
    producer = begin(at)
    for group in homes:
        commit_in(at, producer, {("t", 0): 5}, group_id=group)
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "transaction_result": True,
        "coordinator_epoch": 9,
    }
    topics = [
        {"name": CONSUMER_OFFSETS, "partition_indexes": [homes["another"]]},
        {"name": "t", "partition_indexes": [0]},
    ]
    for _ in range(2):
        assert fetch(at, ("t", 0), require_stable=True) == {("t", 0): "unstable_offset_commit"}
        at.ask("write_txn_markers", 1, markers=[{**marker, "topics": topics}])
        at.restart()
        assert fetch(at, ("t", 0), group="another", require_stable=True) == {("t", 0): 5}
    assert fetch(at, ("t", 0)) == {("t", 0): -1}


def test_an_open_transaction_is_left_open_by_older_markers_of_other_partitions() -> None:
    at = with_offsets()
    producer = begin(at)
    for number, group in enumerate(["simple", "another", "simple"]):
        commit_in(at, producer, {("t", 0): number}, group_id=group)
        if number < 2:
            producer = end(at, producer)
    at.restart()
    assert fetch(at, ("t", 0), require_stable=True) == {("t", 0): "unstable_offset_commit"}
    assert fetch(at, ("t", 0)) == {("t", 0): 0}


def test_offsets_whose_marker_cannot_be_written_wait_for_it() -> None:
    at = with_offsets()
    producer = begin(at)
    commit_in(at, producer, {("t", 0): 5})
    home = (CONSUMER_OFFSETS, at.coordinators.groups.partition_for("simple"))
    at.marker_errors[home] = ErrorCode.kafka_storage_error
    end(at, producer)
    assert fetch(at, ("t", 0), require_stable=True) == {("t", 0): "unstable_offset_commit"}
    at.marker_errors.clear()
    at.pass_time(1_000)
    assert fetch(at, ("t", 0), require_stable=True) == {("t", 0): 5}


def test_older_clients_add_the_group_to_the_transaction_themselves() -> None:
    at = with_offsets()
    producer = begin(at)
    assert commit_in(at, producer, {("t", 0): 5}, version=3) == {("t", 0): "invalid_txn_state"}
    assert commit_in(at, producer, {("t", 0): 5}, version=4) == {("t", 0): "transaction_abortable"}
    said = {"transactional_id": "tx", "producer_id": producer.producer_id, "group_id": "simple"}
    answer = at.ask("add_offsets_to_txn", 3, producer_epoch=producer.producer_epoch, **said)
    assert answer.error_code == 0
    for version in range(4):
        assert commit_in(at, producer, {("t", 0): 5}, version=version) == {("t", 0): "none"}
    end(at, producer, version=4)
    assert fetch(at, ("t", 0)) == {("t", 0): 5}
    for version, code in [(1, "invalid_producer_epoch"), (3, "producer_fenced")]:
        answer = at.ask("add_offsets_to_txn", version, producer_epoch=9, **said)
        assert answer.error_code.name == code


def test_commits_in_transactions_that_are_refused() -> None:
    at, (first, _) = settled()
    at.topics.counts[CONSUMER_OFFSETS] = 50
    producer = begin(at)
    for change, code in [
        ({"group_id": ""}, "invalid_group_id"),
        ({"group_id": "none", "generation_id": 3}, "illegal_generation"),
        ({"group_id": "g", "generation_id": 3, "member_id": first.id}, "illegal_generation"),
        ({"group_id": "g", "generation_id": 1, "member_id": "x"}, "unknown_member_id"),
        ({"group_id": "g", "generation_id": 1, "member_id": first.id}, "none"),
        ({"group_id": "g"}, "none"),
        ({"producer_epoch": 7}, "invalid_producer_epoch"),
        ({"producer_id": 7}, "invalid_producer_id_mapping"),
    ]:
        assert commit_in(at, producer, {("t", 0): 1}, **change) == {("t", 0): code}, change


# ---- offsets that go


def test_offsets_are_deleted() -> None:
    at, (first, _) = settled()
    first.commit(3)
    commit(at, {("t", 0): 1, ("t", 1): 2})

    def delete(group: str, *parts: Partition) -> Any:
        topics = [{"name": name, "partitions": [{"partition_index": number}]} for name, number in parts]
        answer = at.ask("offset_delete", 0, group_id=group, topics=topics)
        if answer.error_code != 0:
            return answer.error_code.name
        return [topic.partitions[0].error_code.name for topic in answer.topics]

    assert delete("none", ("t", 0)) == "group_id_not_found"
    assert delete("", ("t", 0)) == "invalid_group_id"
    assert delete("g", ("t", 0)) == ["group_subscribed_to_topic"]
    assert delete("g", ("u", 0)) == ["none"]
    assert delete("simple", ("t", 0), ("x", 0)) == ["none", "unknown_topic_or_partition"]
    assert fetch(at) == {("t", 1): 2}
    at.restart()
    assert fetch(at) == {("t", 1): 2}


def test_offsets_go_with_their_topic() -> None:
    at = World()
    commit(at, {("t", 0): 1, ("u", 0): 2})
    del at.topics.counts["t"]
    at.do(at.coordinators.step(TopicsDeleted(("t",)), at.now_ms))
    assert fetch(at) == {("u", 0): 2}
    at.restart()
    assert fetch(at) == {("u", 0): 2}


def test_offsets_of_a_simple_consumer_expire_after_their_commit() -> None:
    at = World()
    commit(at, {("t", 0): 1})
    at.pass_time(3 * DAY)
    commit(at, {("t", 1): 1})
    at.pass_time(RETENTION - 3 * DAY - 600_000)
    assert fetch(at) == {("t", 0): 1, ("t", 1): 1}
    at.pass_time(1_200_000)
    assert fetch(at) == {("t", 1): 1}
    at.pass_time(RETENTION)
    assert "simple" not in at.coordinators.groups.table.groups
    at.restart()
    assert "simple" not in at.coordinators.groups.table.groups


def test_offsets_of_a_group_expire_after_its_last_member_left() -> None:
    at, (first,) = settled(1)
    first.commit(3)
    first.leave()
    at.pass_time(RETENTION - 1)
    assert fetch(at, group="g") == {("t", 0): 3}
    at.pass_time(700_000)
    assert "g" not in at.coordinators.groups.table.groups


def test_offsets_of_a_topic_that_a_living_group_reads_stay_and_others_expire() -> None:
    at, (first,) = settled(1, max_session_timeout_ms=2**40)
    group = at.coordinators.groups.table.groups["g"]
    assert isinstance(group, ClassicGroup)
    group.members[first.id].session_timeout_ms = 2**40
    assert first.beat() == "none"
    first.commit(3)
    said = {"member_id": first.id, "generation_id_or_member_epoch": first.generation}
    commit(at, {("u", 0): 4}, group="g", **said)
    at.pass_time(RETENTION + 1_200_000)
    assert fetch(at, group="g") == {("t", 0): 3}
    assert first.beat() == "none"


def test_a_retention_of_the_clients_own_counts() -> None:
    at = World()
    commit(at, {("t", 0): 1}, version=4, retention_time=1_000)
    at.restart()
    at.pass_time(599_000)
    assert fetch(at) == {("t", 0): 1}
    at.pass_time(2_000)
    assert fetch(at) == {}


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("hello", 99162322, 22),
        ("polygenelubricants", -(1 << 31), 0),
        ("\N{GRINNING FACE}", 1772899, 49),
    ],
)
def test_hashes_are_javas(text: str, hashed: int, partition: int) -> None:
    assert java_hash(text) == hashed
    assert partition_for(text, 50) == partition
