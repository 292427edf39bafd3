"""Publishing staged writes as it should be: in the tasks' order, once, whole segments linked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tests.cli.command import run
from tests.manager.publishing import (
    NOW,
    ROOT,
    SEGMENT,
    Values,
    added,
    contents,
    joined,
    open_root,
    prepare,
    publish_values,
    some,
    stage,
    steps_of_a_commit,
    tasks,
)
from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.manager.metadata.registration import Registration
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.publishing.committing import Write, publish
from tidelog.manager.publishing.mark import begin_staging
from tidelog.manager.publishing.staging import LARGE, ONLY_FULL, PieceFacts, TaskStaging
from tidelog.records.builder import encode_batches
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import (
    read_journal,
)
from tidelog.testing.faults import Call, Fault, FaultyFileSystem
from tidelog.types import TopicPartition


def test_what_tasks_staged_is_appended_in_their_order(tmp_path: Path) -> None:
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging" / "w")
    before = prepare(LOCAL, root)
    with open_root(root) as store:
        published = publish_values(store, LOCAL, staging, tasks())
        assert published.records == 47
        assert published.ranges[TopicPartition("t", 0)] == range(4, 39)
        assert contents(store) == joined(before, added(tasks()))
        assert all(partition.log.recovery_point == partition.log_end_offset for partition in store.partitions)
    assert not Path(staging).exists()
    assert Path(root, ".kafka_cleanshutdown").exists()
    assert read_journal(LOCAL, root).pending is None
    with open_root(root) as store:
        assert contents(store) == joined(before, added(tasks()))


def test_a_batch_that_comes_again_adds_nothing(tmp_path: Path) -> None:
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging")
    with open_root(root) as store:
        found = [
            publish_values(store, LOCAL, staging, tasks(), query="q", batch=batch).is_replay
            for batch in (0, 1, 1, 0, 2)
        ]
        assert found == [False, False, True, True, False]
        assert publish_values(store, LOCAL, staging, tasks(), query="other", batch=0).records == 47
        assert (
            len(contents(store)[TopicPartition("u", 1)]) == 4 * 9
        )  # three batches of the one, one of the other


def test_an_attempt_that_comes_too_late_is_not_in_the_way_and_leaves_nothing(tmp_path: Path) -> None:
    """One begins while the commit removes what was staged, one is at it, one begins when all is over."""
    staging = tmp_path / "staging" / "w"
    late = []

    def rule(call: Call) -> Fault | None:
        if call.operation == "rename" and call.path == str(staging):
            late.append(TaskStaging(str(staging), "late"))
        return None

    fs = FaultyFileSystem(LOCAL, rule)
    with open_root(str(tmp_path / "root"), fs) as store:
        staging.mkdir(parents=True)
        early = TaskStaging(str(staging), "early")
        assert publish_values(store, fs, str(staging), tasks(), query="q").records == 47
        for attempt in (early, *late):
            with pytest.raises(FileNotFoundError):
                attempt.finish()
            attempt.discard()
        with pytest.raises(FileNotFoundError):
            TaskStaging(str(staging), "last")
    assert len(late) == 1
    assert not list((tmp_path / "staging").iterdir())


def test_many_small_writes_leave_no_more_segments_than_a_large_one(tmp_path: Path) -> None:
    values = some("t", 0, 600, "x")
    counts = []
    for name, size in (("many", 6), ("one", 600)):
        with open_root(str(tmp_path / name)) as store:
            store.create_topic("t", 2, SEGMENT)
            for batch, start in enumerate(range(0, 600, size)):
                part: list[Values] = [{("t", 0): values[start : start + size]}]
                publish_values(store, LOCAL, str(tmp_path / "s"), part, query="q", batch=batch)
            counts.append(len(store.partition("t").log.segments))
            assert contents(store)[TopicPartition("t", 0)] == values
    many, one = counts
    assert one > 10
    assert many <= one


def test_overwriting_raises_log_starts_and_keeps_offsets(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    only: list[Values] = [{("t", 0): some("t", 0, 2, "new")}]
    for again in (False, True):
        if not again:
            with open_root(root) as store:
                publish_values(store, LOCAL, str(tmp_path / "s"), only, overwrite=True)
        with open_root(root) as store:
            found = contents(store)
            assert found[TopicPartition("t", 0)] == some("t", 0, 2, "new")
            assert found[TopicPartition("t", 1)] == []
            assert store.partition("t", 0).log_start_offset == 4
            assert store.partition("t", 1).log_start_offset == 5
            assert found[TopicPartition("u", 0)] == before[TopicPartition("u", 0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max.message.bytes": "100"}, "topic t, partition 0.*max.message.bytes is 100"),
        (
            {"message.timestamp.after.max.ms": "0", "message.timestamp.before.max.ms": "0"},
            "topic t, partition",
        ),
    ],
)
def test_what_a_topic_would_refuse_changes_nothing(tmp_path: Path, change: Any, words: str) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    with open_root(root) as store:
        store.alter_config("t", change)
        journal = read_journal(LOCAL, root)
        with pytest.raises(InvalidInputError, match=words):
            publish_values(store, LOCAL, str(tmp_path / "s"), [{**tasks()[0], ("new", 0): [b"v"]}])
        assert contents(store) == before
        assert "new" not in store.topics
        assert read_journal(LOCAL, root) == journal


def test_a_topic_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    stage(LOCAL, str(tmp_path / "s"), "task", tasks()[0], {"t": 2})
    with open_root(root) as store:
        store.create_partitions("t", 3)
        with pytest.raises(InvalidInputError, match="'t' was taken to have 2 partitions and has 3"):
            publish(store, Write(str(tmp_path / "s"), ("task",)))
        assert contents(store) == {**before, TopicPartition("t", 2): []}


@pytest.mark.parametrize("batch_bytes", [30_000, 200_000])
def test_a_linked_segment_is_the_one_that_appending_makes(tmp_path: Path, batch_bytes: int) -> None:
    """Byte for byte, with small batches and with large ones, which are stamped in another way."""
    config = LogConfig.from_properties({"segment.bytes": 1 << 20})
    values = {("t", 0): [bytes([mark]) * 9_000 for mark in range(250)]}
    for name, staged_for in (("linked", config), ("appended", None)):
        with open_root(str(tmp_path / name)) as store:
            store.create_topic("t", 1, {"segment.bytes": 1 << 20})
            store.partition("t").leader_epoch = 5
            staging = str(tmp_path / "staging")
            stage(LOCAL, staging, "task", values, {"t": 1}, staged_for, batch_bytes)
            inodes = {path.stat().st_ino for path in Path(staging).rglob("*.log")}
            publish(store, Write(staging, ("task",)))
            names = list((tmp_path / name / "t-0").glob("*.log"))
            assert any(path.stat().st_ino in inodes for path in names) == (name == "linked")
    assert len(names) > 2
    for path in names:
        assert path.read_bytes() == (tmp_path / "linked" / "t-0" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("megabytes", "segment_bytes", "only_full", "linked"),
    [
        ([17, 18, 17, 16.5], 1 << 30, False, 4),
        ([17, 17, 17], 1 << 30, False, 0),  # a write that is not large leaves no small segments
        ([17, 2, 17, 5, 17, 0.1, 17], 1 << 30, False, 1),  # nor one whose segments are not in a row
        ([17, 18, 17, 16.5], 1 << 30, True, 0),  # nor does a stream
        ([25], 40 << 20, False, 1),  # more than half a segment
    ],
)
def test_large_segments_of_a_large_write_are_linked(
    tmp_path: Path, megabytes: list[float], segment_bytes: int, only_full: bool, linked: int
) -> None:
    """In the order of the tasks, whatever lies between them; the log is sound after a crash, too."""
    root, staging = tmp_path / "root", tmp_path / "staging"
    begin_staging(LOCAL, str(staging))
    numbers = iter(range(10**6))
    config = LogConfig.from_properties({"segment.bytes": segment_bytes})
    with open_root(str(root)) as store:
        store.create_topic("t", 1, {"segment.bytes": segment_bytes})
        for task, size in enumerate(megabytes):
            written = TaskStaging(str(staging), f"task-{task}", large=ONLY_FULL if only_full else LARGE)
            written.expect("t", 1)
            for _ in range(round(size * 10)):
                values = [b"%06d" % next(numbers) + bytes(52_400)] * 2
                encoded = encode_batches(pa.table({"value": pa.array(values, pa.binary())}), now_ms=NOW)
                written.add(TopicPartition("t", 0), encoded, PieceFacts(NOW, 0), config)
            written.finish()
        inodes = {path.stat().st_ino for path in staging.rglob("*.log")}
        publish(store, Write(str(staging), tuple(f"task-{n}" for n in range(len(megabytes)))))
        found = [path for path in (root / "t-0").glob("*.log") if path.stat().st_ino in inodes]
        assert len(found) == linked
        values = contents(store)[TopicPartition("t", 0)]
        assert [int(value[:6]) for value in values[::2]] == list(range(next(numbers)))
        for segment in store.partition("t").log.segments:
            assert segment.index_fault() is None
    (root / ".kafka_cleanshutdown").unlink()
    with open_root(str(root)) as store:
        assert contents(store)[TopicPartition("t", 0)] == values


def test_full_segments_are_linked_and_the_rest_is_appended(tmp_path: Path) -> None:
    """Into an empty log, a log with little in it (where it takes several), and one segment at a time."""
    root, staging = tmp_path / "root", str(tmp_path / "staging")
    values = some("t", 0, 400, "x")
    config = LogConfig.from_properties(SEGMENT)
    two: list[Values] = [{("t", 0): values[:200]}, {("t", 0): values[200:]}]
    with open_root(str(root)) as store:
        store.create_topic("t", 2, SEGMENT)
        log = store.partition("t").log
        names = tuple(stage(LOCAL, staging, f"task-{n}", v, {"t": 2}, config) for n, v in enumerate(two))
        inodes = {path.stat().st_ino for path in Path(staging).rglob("*.log")}
        publish(store, Write(staging, names))
        linked = [path for path in (root / "t-0").glob("*.log") if path.stat().st_ino in inodes]
        assert len(linked) > 10
        assert contents(store)[TopicPartition("t", 0)] == values
        small = len(log.segments)
        publish_values(store, LOCAL, staging, [{("t", 0): values[:40]}], log_config=config)
        publish_values(store, LOCAL, staging, [{("t", 0): values[:400]}], log_config=config)
        assert len(log.segments) > small + 10
        found = contents(store)[TopicPartition("t", 0)]
        assert found[-400:] == values
        assert found[-440:-400] == values[:40]
        for segment in log.segments:
            assert segment.index_fault() is None
    for clean in (True, False):
        if not clean:
            (root / ".kafka_cleanshutdown").unlink()
        with open_root(str(root)) as store:
            assert contents(store)[TopicPartition("t", 0)] == found
            first = store.partition("t").offset_for_timestamp(NOW)
            assert first is not None
            assert first.offset == 0
    assert run("verify", root, "--deep").code == 0


def test_who_reads_without_opening_sees_all_of_a_write_or_nothing(tmp_path: Path) -> None:
    """At every step of a commit that goes on no further, before anybody has opened the root."""
    for overwrite in (False, True):
        fs, start, before = steps_of_a_commit(overwrite)
        whole = added(tasks()) if overwrite else joined(before, added(tasks()))
        outcomes = []
        for step in range(start, fs.steps + 1, 5):
            target = tmp_path / f"{overwrite}-{step}"
            fs.crash(step, kept="all").copy_to(LOCAL, ROOT, target)
            found: dict[TopicPartition, list[bytes]] = {name: [] for name in before}
            for batch in tidelog.scan(target, columns=["topic", "partition", "value"]):
                for row in batch.to_pylist():
                    found[TopicPartition(row["topic"], row["partition"])].append(row["value"])
            is_whole = found == {name: whole.get(name, []) for name in before}
            assert is_whole or found == before
            outcomes.append(is_whole)
        assert not outcomes[0]
        assert outcomes[-1]


def test_many_new_topics_are_registered_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each registration writes all of the metadata: one a topic would cost quadratically."""
    registered: list[int] = []
    register = Registry.register

    def counting(self: Registry, topics: Iterable[Registration] = (), **more: Any) -> bool:
        given = list(topics)
        registered.append(len(given))
        return register(self, given, **more)

    names = [f"t{n:03}" for n in range(40)]
    values: Values = {(name, number): [b"%d" % number] for name in names for number in range(2)}
    with open_root(str(tmp_path / "root")) as store:
        monkeypatch.setattr(Registry, "register", counting)
        publish_values(store, LOCAL, str(tmp_path / "staging"), [values])
        assert registered == [40]
        assert sorted(store.topics) == names
    with open_root(str(tmp_path / "root")) as store:
        assert contents(store) == {TopicPartition(*name): list(some) for name, some in values.items()}
