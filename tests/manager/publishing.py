"""Staging and publishing without Spark: what tasks and the commit do, in a few lines; for several tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tidelog
from tests.manager.stores import SIMULATED
from tidelog.config import LogConfig
from tidelog.manager import BrokerConfig, Store
from tidelog.manager.publishing.committing import Published, Write, publish
from tidelog.manager.publishing.mark import begin_staging
from tidelog.manager.publishing.staging import LARGE, PieceFacts, TaskStaging
from tidelog.records import Record
from tidelog.records.builder import encode_batches
from tidelog.records.record import to_arrow
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.write_journal import read_journal
from tidelog.testing.crash import CrashFileSystem
from tidelog.types import TopicPartition

__all__ = [
    "CONFIG",
    "NOW",
    "ROOT",
    "SEGMENT",
    "Values",
    "added",
    "check_state",
    "contents",
    "joined",
    "open_root",
    "prepare",
    "publish_values",
    "some",
    "stage",
    "steps_of_a_commit",
    "steps_with_intent",
    "tasks",
]

NOW = 1_700_000_000_000

CONFIG = BrokerConfig.from_properties(SIMULATED)

SEGMENT = {"internal.segment.bytes": 1500}
ROOT = "/store"
"""Where the root is in a simulated file system."""

Values = Mapping[tuple[str, int], Sequence[bytes]]
"""By topic and partition."""


def open_root(root: str, fs: FileSystem = LOCAL, **options: Any) -> Store:
    return tidelog.open(
        root, config=CONFIG, fs=fs, now_ms=lambda: NOW, background=False, **({"recover": True} | options)
    )


def stage(
    fs: FileSystem,
    directory: str,
    name: str,
    values: Values,
    partitions: Mapping[str, int],
    config: LogConfig | None = None,
    batch_bytes: int = 200,
    large: int = LARGE,
) -> str:
    """What a task does; the name of its manifest."""
    begin_staging(fs, directory)
    task = TaskStaging(directory, name, fs, large=large)
    for topic, count in partitions.items():
        task.expect(topic, count)
    for (topic, number), some in values.items():
        columns = to_arrow([Record(value, b"k", timestamp=NOW) for value in some])
        encoded = encode_batches(columns, max_batch_bytes=batch_bytes, now_ms=NOW)
        task.add(TopicPartition(topic, number), encoded, PieceFacts(NOW, 0), config or LogConfig())
    task.finish()
    return name


def publish_values(
    store: Store, fs: FileSystem, staging: str, tasks: Sequence[Values], **options: Any
) -> Published:
    """Stage and publish what several tasks have, into topics of two partitions."""
    config, large = options.pop("log_config", None), options.pop("large", LARGE)
    topics = {topic: 2 for values in tasks for topic, _ in values}
    names = tuple(
        stage(fs, staging, f"task-{number}", values, topics, config, large=large)
        for number, values in enumerate(tasks)
    )
    return publish(store, Write(staging, names, **options), fs)


def contents(store: Store) -> dict[TopicPartition, list[bytes]]:
    """All values, by partition; offsets must be dense."""
    found = {}
    for partition in store.partitions:
        offset, values = partition.log_start_offset, []
        while offset < partition.log_end_offset:
            batch = partition.read_arrow(offset, 1 << 20, columns=("offset", "value"))
            assert batch.num_rows, f"{partition}: nothing at {offset}"
            assert batch.column(0).to_pylist() == list(range(offset, offset + batch.num_rows))
            values += batch.column(1).to_pylist()
            offset += batch.num_rows
        found[partition.topic_partition] = values
    return found


def some(topic: str, number: int, count: int, mark: str) -> list[bytes]:
    return [f"{topic}-{number} {mark} {i:03} ".encode() + bytes(30) for i in range(count)]


def tasks(mark: str = "new") -> list[Values]:
    """What two tasks write; more than a segment into one partition."""
    return [
        {("t", 0): some("t", 0, 30, f"{mark} a"), ("t", 1): some("t", 1, 3, f"{mark} a")},
        {("t", 0): some("t", 0, 5, f"{mark} b"), ("u", 1): some("u", 1, 9, f"{mark} b")},
    ]


def added(which: list[Values]) -> dict[TopicPartition, list[bytes]]:
    found: dict[TopicPartition, list[bytes]] = {}
    for values in which:
        for (topic, number), some_values in values.items():
            found.setdefault(TopicPartition(topic, number), []).extend(some_values)
    return found


def prepare(fs: FileSystem, root: str) -> dict[TopicPartition, list[bytes]]:
    """A root with two topics and a few records; what is in it."""
    with open_root(root, fs) as store:
        for topic in ("t", "u"):
            store.create_topic(topic, 2, SEGMENT)
            for partition in store.topic(topic):
                number = partition.topic_partition.partition
                values = some(topic, number, 4 + number, "old")
                partition.append([Record(value, timestamp=NOW) for value in values])
        return contents(store)


def joined(
    one: dict[TopicPartition, list[bytes]], two: dict[TopicPartition, list[bytes]]
) -> dict[TopicPartition, list[bytes]]:
    return {name: one.get(name, []) + two.get(name, []) for name in {**one, **two}}


def steps_of_a_commit(
    overwrite: bool, links: bool = False
) -> tuple[CrashFileSystem, int, dict[TopicPartition, list[bytes]]]:
    fs = CrashFileSystem()
    before = prepare(fs, ROOT)
    start = fs.steps
    with open_root(ROOT, fs) as store:
        config = LogConfig.from_properties({"internal.segment.bytes": 500}) if links else None
        publish_values(
            store, fs, "/staging/w", tasks(), query="q", batch=3, overwrite=overwrite, log_config=config
        )
    return fs, start, before


def steps_with_intent(fs: CrashFileSystem, start: int) -> Iterator[int]:
    """The steps of a commit after which a process that is killed leaves a write to be carried out."""
    for step in range(start, fs.steps):
        if read_journal(fs.crash(step, kept="all"), ROOT).pending is not None:
            yield step


def check_state(after: CrashFileSystem, before: dict[TopicPartition, list[bytes]], overwrite: bool) -> bool:
    """All of it or nothing, known as such; written again it is there once. Whether it was there."""
    new = added(tasks())
    whole = {
        name: new.get(name, []) if overwrite else old + new.get(name, []) for name, old in before.items()
    }
    with open_root(ROOT, after) as store:
        assert not store.offline_partitions
        is_there = read_journal(after, ROOT).has("q", 3)
        expect(contents(store), whole if is_there else before)
        again = publish_values(
            store, after, "/staging/again", tasks(), query="q", batch=3, overwrite=overwrite
        )
        assert again.is_replay == is_there
        expect(contents(store), whole)
    with open_root(ROOT, after) as store:
        expect(contents(store), whole)
    return is_there


def expect(found: dict[TopicPartition, list[bytes]], wanted: dict[TopicPartition, list[bytes]]) -> None:
    """Every value once, in the order of the tasks and of their rows."""
    assert found == wanted
