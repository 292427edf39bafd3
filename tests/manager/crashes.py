"""A store that lives through power cuts: a random life from a seed, and what must be true after a cut.

The life is made of appends (some synced), rolls, flushes, checkpoints, retention, compaction, deleted
records, moves between roots, topics made and deleted, and orderly restarts, on a file system in memory. Of
each append it is noted at which step it was acknowledged; of each deletion, at which step it began. After a
cut at any step:

1. the store opens, and no partition is offline;
2. what was acknowledged with sync before the cut, and whose deletion had not begun, is there, byte for byte;
   once compaction has begun, a record may give way to a later one of its key that is there;
3. every record that can be read is one that was appended at that offset;
4. moves that were cut short can be finished, and leave 2. and 3. true;
5. the store can be appended to, closed and opened again.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import tidelog
from tidelog.errors import LogOfflineError
from tidelog.manager import BrokerConfig, Partition, Store
from tidelog.records import Record, decode_records
from tidelog.testing.crash import CrashFileSystem

__all__ = ["CONFIG", "ROOTS", "Life", "check", "live"]

ROOTS = ("/a", "/b")
NOW = 1_700_000_000_000

CONFIG = BrokerConfig.from_properties(
    {
        "log.index.size.max.bytes": "600",
        "log.index.interval.bytes": "100",
        "log.retention.ms": "-1",
        "log.segment.delete.delay.ms": "0",
        "num.recovery.threads.per.data.dir": "1",
        "log.cleaner.enable": "false",  # it is done when it is noted
        "log.cleaner.dedupe.buffer.size": str(1 << 20),
    }
)

Name = tuple[uuid.UUID, int]
"""A partition, by its topic's id: a topic of the same name may come again."""


@dataclass
class Acknowledged:
    """Up to `end` everything is on the disk, from `step` on."""

    step: int
    end: int


@dataclass
class History:
    """What happened to a partition."""

    values: dict[int, bytes] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)
    synced: list[Acknowledged] = field(default_factory=list)
    starts: list[Acknowledged] = field(default_factory=list)
    """From `step` on, what lies below `end` may be gone."""
    registered: int = 0
    """The step at which the topic was there for sure."""
    deleted: int | None = None
    """The step at which its deletion began."""
    cleaned: int | None = None
    """The step at which it was compacted first."""

    def must_have(self, step: int) -> tuple[int, int]:
        """The offsets that must be there after a cut at `step`: from, to."""
        start = max((one.end for one in self.starts if one.step <= step), default=0)
        end = max((one.end for one in self.synced if one.step <= step), default=0)
        return start, end

    def missing(self, step: int, found: Collection[int]) -> list[int]:
        """The offsets that must be there after a cut at `step` and are not among those that are."""
        if self.deleted is not None and self.deleted <= step:
            return []
        newest: dict[bytes, int] = {}
        if self.cleaned is not None and self.cleaned <= step:
            newest = {self.keys[offset]: offset for offset in sorted(found) if offset in self.keys}
        start, end = self.must_have(step)
        lost = (offset for offset in range(start, end) if offset not in found)
        return [offset for offset in lost if newest.get(self.keys[offset], -1) < offset]


@dataclass
class Life:
    """A file system with a past, and what is known of it."""

    fs: CrashFileSystem
    histories: dict[Name, History]
    opened: int = 0
    """The step at which the store was there for sure."""


class _Liver:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = NOW
        self.fs = CrashFileSystem(clock=self.now)
        self.life = Life(self.fs, {})
        self.names = 0

    def now(self) -> int:
        return self.clock

    def open(self) -> Store:
        return tidelog.open(ROOTS, config=CONFIG, fs=self.fs, now_ms=self.now, background=False, recover=True)

    def run(self, actions: int) -> Life:
        store = self.open()
        self.life.opened = self.fs.steps
        self.create(store)
        for _ in range(actions):
            self.clock += self.dice.randrange(1, 500)
            action = self.dice.choices(
                [
                    "append",
                    "flush",
                    "roll",
                    "checkpoint",
                    "retention",
                    "clean",
                    "trim",
                    "move",
                    "create",
                    "delete",
                    "restart",
                ],
                [14, 3, 2, 2, 1, 3, 1, 1, 0.7, 0.4, 0.7],
            )[0]
            if action == "restart":
                store.close()
                store = self.open()
            else:
                getattr(self, action)(store)
        if self.dice.random() < 0.5:
            store.close()
        return self.life

    def some(self, store: Store) -> Partition | None:
        partitions = list(store)
        return self.dice.choice(partitions) if partitions else None

    def history(self, partition: Partition) -> History:
        name = (partition.topic_id, partition.topic_partition.partition)
        return self.life.histories[name]

    def create(self, store: Store) -> None:
        if len(store.topics) >= 3:
            return
        self.names = self.names % 3 + 1
        name = f"t{self.names}"
        if name in store.topics:
            return
        config = {
            "internal.segment.bytes": self.dice.choice([500, 1500]),
            "retention.bytes": 3000,
            "cleanup.policy": self.dice.choice(["compact", "delete"]),
        }
        topic = store.create_topic(name, self.dice.randint(1, 2), config)
        for partition in topic:
            found = self.life.histories[topic.topic_id, partition.topic_partition.partition] = History()
            found.registered = self.fs.steps

    def append(self, store: Store) -> None:
        partition = self.some(store)
        if partition is None:
            return
        history = self.history(partition)
        first = partition.log_end_offset
        count = self.dice.randint(1, 6)
        values = [
            f"{partition.topic_partition} {first + i} ".encode()
            + self.dice.randbytes(self.dice.randrange(60))
            for i in range(count)
        ]
        sync = self.dice.random() < 0.3
        keys = [b"k%d" % self.dice.randrange(4) for _ in values]
        for i, value in enumerate(values):
            history.values[first + i] = value
            history.keys[first + i] = keys[i]
        records = zip(values, keys, strict=True)
        partition.append([Record(value, key, timestamp=self.clock) for value, key in records], sync=sync)
        if sync:
            self.acknowledge(partition)

    def acknowledge(self, partition: Partition) -> None:
        found = Acknowledged(self.fs.steps, partition.log_end_offset)
        self.history(partition).synced.append(found)

    def flush(self, store: Store) -> None:
        partition = self.some(store)
        if partition is not None:
            partition.flush()
            self.acknowledge(partition)

    def roll(self, store: Store) -> None:
        partition = self.some(store)
        if partition is not None and partition.log.size:
            partition.log.roll()

    def checkpoint(self, store: Store) -> None:
        store.checkpoint()
        store.run_due_tasks()

    def retention(self, store: Store) -> None:
        for partition in store:
            # How far it will go is not known before; what it leaves is known after.
            self.history(partition).starts.append(Acknowledged(self.fs.steps, partition.log_end_offset))
        began = {partition: self.history(partition).starts[-1] for partition in store}
        store.apply_retention()
        for partition, start in began.items():
            start.end = partition.log_start_offset
        store.run_due_tasks()

    def clean(self, store: Store) -> None:
        compacted = [partition for partition in store if partition.log.config.compact]
        if compacted:
            partition = self.dice.choice(compacted)
            if partition.log.segments.last.size and self.dice.random() < 0.7:
                partition.log.roll()
            history = self.history(partition)
            history.cleaned = self.fs.steps if history.cleaned is None else history.cleaned
            store.clean(partition.topic_partition)
            store.run_due_tasks()
            assert not store.metrics().cleaning.uncleanable

    def trim(self, store: Store) -> None:
        partition = self.some(store)
        if partition is not None:
            offset = self.dice.randint(partition.log_start_offset, partition.log_end_offset)
            self.history(partition).starts.append(Acknowledged(self.fs.steps, offset))
            partition.delete_records(offset)

    def move(self, store: Store) -> None:
        partition = self.some(store)
        if partition is not None and partition.root is not None:
            target = ROOTS[1] if partition.root.path == ROOTS[0] else ROOTS[0]
            number = partition.topic_partition.partition
            store.move_partition(partition.topic_partition.topic, number, target)
            self.acknowledge(partition)
            store.run_due_tasks()

    def delete(self, store: Store) -> None:
        names = sorted(store.topics)
        if len(names) > 1:
            topic = store.topic(self.dice.choice(names))
            for partition in topic:
                self.history(partition).deleted = self.fs.steps
            store.delete_topic(topic.name)
            store.run_due_tasks()


def live(seed: int, actions: int = 40) -> Life:
    """A life."""
    return _Liver(seed).run(actions)


def _records(partition: Partition) -> Iterator[tuple[int, bytes | None]]:
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        fetched = partition.read(offset, 1 << 20)
        batches = fetched.batches()
        if not len(batches):
            return  # a segment survived whose predecessor's unsynced end did not
        for record in decode_records(fetched.data[: batches.end]):
            if record.offset >= offset:
                yield record.offset, record.value
        offset = int(batches.last_offset[-1]) + 1


def check(life: Life, step: int, fs: CrashFileSystem, *, again: bool = False) -> None:
    """What must be true of `fs`, which a cut of `life` at `step` has left."""
    clock = NOW + 10**9
    store = tidelog.open(
        ROOTS, config=CONFIG, fs=fs, now_ms=lambda: clock, background=False, create=True, recover=True
    )
    assert not store.offline_partitions
    assert not store.offline_roots
    there = {(p.topic_id, p.topic_partition.partition): p for p in store}
    for name, history in life.histories.items():
        if name not in there:
            gone = history.deleted is not None and history.deleted <= step
            assert gone or step < history.registered, f"{name} is lost"
            continue
        _check_partition(there[name], history, step)
    if store.unfinished_moves:
        store.resume_moves()
        assert not store.unfinished_moves
        for name in life.histories.keys() & there.keys():
            _check_partition(there[name], life.histories[name], step)
    for partition in there.values():
        end = partition.log_end_offset
        partition.append([Record(b"after", b"after")], sync=True)
        assert _value_at(partition, end) == b"after"
    store.close()
    if again:
        with tidelog.open(
            ROOTS, config=CONFIG, fs=fs, now_ms=lambda: clock, background=False, recover=True
        ) as store:
            for partition in store:
                try:
                    assert _value_at(partition, partition.log_end_offset - 1) == b"after"
                except LogOfflineError as error:
                    raise AssertionError(f"{partition} does not open again") from error


def _check_partition(partition: Partition, history: History, step: int) -> None:
    _, end = history.must_have(step)
    found = dict(_records(partition))
    for offset, value in found.items():
        assert history.values.get(offset) == value, f"{partition}: offset {offset} has other bytes"
    if history.deleted is not None and history.deleted <= step:
        return
    missing = history.missing(step, found.keys())
    assert not missing, f"{partition}: {missing} were acknowledged and are lost, cut at {step}"
    assert partition.log_end_offset >= end, f"{partition} ends at {partition.log_end_offset}, not at {end}"


def _value_at(partition: Partition, offset: int) -> bytes | None:
    record = partition.read_record(offset)
    assert record is not None
    return record.value
