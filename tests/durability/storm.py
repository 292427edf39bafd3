"""Sixteen threads that use one store in every way at once, and a model of what they may find.

Every record tells who it is. Of each append and truncation the times are kept at which it was called and had
returned: what came before and what after is known where these do not overlap, and only that is judged.

- A record is only ever found at the offset that its append was given.
- It is not found if a truncation below it was called after its append had returned.
- It is not missing, unless a truncation below it returned after its append was called, the log starts above
  it, or (in a compacted topic) a later record has its key.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tidelog
from tidelog.errors import LogClosedError, OffsetOutOfRangeError
from tidelog.manager import BrokerConfig, Partition, Store
from tidelog.manager.verification import verify_root
from tidelog.manager.verification.findings import Kind
from tidelog.records import Record, decode_records
from tidelog.storage import LOCAL
from tidelog.types import FetchIsolation, TopicPartition

__all__ = ["Storm"]

CONFIG = BrokerConfig.from_properties(
    {
        "log.index.size.max.bytes": "20000",
        "log.index.interval.bytes": "500",
        "log.retention.ms": "-1",
        "log.segment.delete.delay.ms": "20",
        "log.flush.offset.checkpoint.interval.ms": "50",
        "log.flush.start.offset.checkpoint.interval.ms": "70",
        "log.initial.task.delay.ms": "10",
        "log.cleaner.dedupe.buffer.size": str(1 << 20),
        "log.cleaner.backoff.ms": "50",
    }
)
TOPICS = {
    "kept": {"internal.segment.bytes": 30_000},
    "short": {"internal.segment.bytes": 20_000, "retention.bytes": 100_000},
    "keyed": {
        "internal.segment.bytes": 20_000,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0.01,
    },
}
PARTITIONS = 2
MAX_BATCH = 5
KEYS = 50
MAX_RECORDS = 40_000
"""Appenders pause where a partition holds more: what is checked at the end has to be read at the end."""


@dataclass(frozen=True, slots=True)
class Append:
    """A record that was appended."""

    offset: int
    key: bytes
    called: int
    returned: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A truncation."""

    offset: int
    called: int
    returned: int


@dataclass
class Memory:
    """What was done to a partition."""

    appends: dict[bytes, Append] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)


class Storm:
    """Threads, and what they remember."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.roots = [root / "a", root / "b"]
        self.seed = seed
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self.done: dict[str, int] = defaultdict(int)
        self.heard = 0
        self.memory: dict[TopicPartition, Memory] = defaultdict(Memory)
        self._ids = itertools.count()
        self.store = self.open(on_event=self.hear)
        for name, config in TOPICS.items():
            self.store.create_topic(name, PARTITIONS, config)

    def open(self, **options: Any) -> Store:
        return tidelog.open(self.roots, config=CONFIG, **({"background": True} | options))

    def hear(self, event: object) -> None:
        """A listener asks the store whatever it likes."""
        self.heard += 1
        store = getattr(self, "store", None)
        if store is not None and not self.stop.is_set():
            store.metrics()
            assert len(store.topics) <= len(TOPICS)
            for partition in store.partitions:
                assert partition.log_end_offset >= 0

    # ---- what the threads do

    def append(self, dice: random.Random) -> None:
        partition = self.some(dice)
        if partition.log_end_offset - partition.log_start_offset > MAX_RECORDS:
            time.sleep(0.01)
            return
        self.append_to(partition, dice)

    def append_to(self, partition: Partition, dice: random.Random) -> None:
        name = partition.topic_partition
        records = [
            Record(
                f"{name} {next(self._ids)} ".encode() + dice.randbytes(dice.randrange(100)),
                b"k%d" % dice.randrange(KEYS),
            )
            for _ in range(dice.randint(1, MAX_BATCH))
        ]
        called = time.monotonic_ns()
        info = partition.append(records, sync=dice.random() < 0.1)
        returned = time.monotonic_ns()
        for index, record in enumerate(records):
            assert record.value is not None
            assert record.key is not None
            self.memory[name].appends[record.value] = Append(
                info.first_offset + index, record.key, called, returned
            )
        assert info.last_offset == info.first_offset + len(records) - 1

    def sync(self, dice: random.Random) -> None:
        if dice.random() < 0.2:
            self.store.flush()
        else:
            self.some(dice).flush()
        time.sleep(0.001)  # or it does little else than finding that there is nothing to do

    def read(self, dice: random.Random) -> None:
        partition = self.some(dice)
        start, end = partition.log_start_offset, partition.log_end_offset
        at = dice.randint(start, max(start, end))
        for _ in range(20):
            fetched = partition.read(at, 1 << 16)
            batches = fetched.batches()
            if not len(batches):
                return
            self.check_read(partition, fetched.data[: batches.end])
            at = int(batches.last_offset[-1]) + 1

    def check_read(self, partition: Partition, data: memoryview) -> None:
        known, last = self.memory[partition.topic_partition].appends, -1
        for record in decode_records(data):
            assert record.offset > last
            last = record.offset
            assert record.value is not None
            assert record.value.startswith(f"{partition.topic_partition} ".encode()), "another log's record"
            found = known.get(record.value)
            assert found is None or found.offset == record.offset, f"{record} is not at {found}"

    def look_up(self, dice: random.Random) -> None:
        partition = self.some(dice)
        end = partition.log_end_offset
        if end:
            offset = dice.randrange(end)
            record = partition.read_record(offset)
            assert record is None or record.offset == offset
        now = time.time_ns() // 1_000_000
        found = partition.offset_for_timestamp(now - dice.randrange(1000))
        assert found is None or found.offset >= 0

    def roll(self, dice: random.Random) -> None:
        partition = self.some(dice)
        with partition.gate:
            if partition.log.segments.last.size:
                partition.log.roll()
        time.sleep(0.005)

    def truncate(self, dice: random.Random) -> None:
        partition = self.some(dice)
        start, end = partition.log_start_offset, partition.log_end_offset
        offset = max(start, end - dice.randrange(1, 200))
        name = partition.topic_partition
        called = time.monotonic_ns()
        self.store.truncate_partition(name.topic, name.partition, offset)
        self.memory[name].cuts.append(Cut(offset, called, time.monotonic_ns()))
        time.sleep(0.02)

    def delete_records(self, dice: random.Random) -> None:
        partition = self.some(dice)
        start, end = partition.log_start_offset, partition.log_end_offset
        partition.delete_records(min(start + dice.randrange(100), end))
        if dice.random() < 0.02:
            self.forget(partition)
        time.sleep(0.01)

    def forget(self, partition: Partition) -> None:
        """Remember no more of what lies below the log start; there is no end to it otherwise."""
        start, appends = partition.log_start_offset, self.memory[partition.topic_partition].appends
        for value, append in appends.copy().items():  # a list of them lets others in while it is made
            if append.offset < start:
                appends.pop(value, None)

    def retain(self, dice: random.Random) -> None:
        self.store.apply_retention()
        time.sleep(0.05)

    def clean(self, dice: random.Random) -> None:
        self.store.clean(TopicPartition("keyed", dice.randrange(PARTITIONS)))
        time.sleep(0.02)

    def move(self, dice: random.Random) -> None:
        partition = self.some(dice)
        name = partition.topic_partition
        self.store.move_partition(name.topic, name.partition, dice.choice(self.roots))
        time.sleep(0.05)

    def checkpoint(self, dice: random.Random) -> None:
        self.store.checkpoint()
        time.sleep(0.005)

    def some(self, dice: random.Random) -> Partition:
        return self.store.partition(dice.choice(sorted(TOPICS)), dice.randrange(PARTITIONS))

    # ---- the storm

    def rage(self, seconds: float) -> None:
        """Let it rage for so long; raises what a thread has raised."""
        works = [self.append] * 4 + [self.sync] + [self.read] * 3
        works += [self.look_up, self.roll, self.truncate, self.delete_records]
        works += [self.retain, self.clean, self.move, self.checkpoint]
        assert len(works) == 16
        threads = [
            threading.Thread(target=self._work, args=(work, number), daemon=True, name=work.__name__)
            for number, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        self.stop.wait(seconds)
        self.stop.set()
        for thread in threads:
            thread.join(60)
        stuck = [thread.name for thread in threads if thread.is_alive()]
        if self.errors:
            raise self.errors[0]
        assert not stuck, f"waiting for ever: {stuck}"
        assert not self.store.offline_roots
        assert not self.store.offline_partitions
        assert all(self.done[work.__name__] for work in works), dict(self.done)

    def _work(self, work: Callable[[random.Random], None], number: int) -> None:
        dice = random.Random(f"{self.seed} {number}")
        while not self.stop.is_set():
            try:
                work(dice)
                self.done[work.__name__] += 1
            except OffsetOutOfRangeError:
                continue  # it was deleted or truncated since we looked
            except LogClosedError:
                continue  # the partition has moved since we looked
            except BaseException as error:
                error.add_note(f"in the thread that does {work.__name__}")
                self.errors.append(error)
                self.stop.set()

    # ---- afterwards

    def contents(self, store: Store) -> dict[TopicPartition, dict[int, tuple[bytes, bytes]]]:
        """Every record, by partition and offset."""
        found: dict[TopicPartition, dict[int, tuple[bytes, bytes]]] = {}
        for partition in store.partitions:
            here = found[partition.topic_partition] = {}
            at = partition.log_start_offset
            while at < partition.log_end_offset:
                fetched = partition.read(at, 1 << 20, FetchIsolation.LOG_END)
                batches = fetched.batches()
                for record in decode_records(fetched.data[: batches.end]):
                    if record.offset >= at:
                        assert record.offset not in here
                        here[record.offset] = (record.value or b"", record.key or b"")
                at = int(batches.last_offset[-1]) + 1
        return found

    def check(self) -> None:
        """Compare what is there with the model, then close, verify, and compare what is found again.

        A truncation to the middle of a batch takes the whole batch and leaves the log end, as in Kafka; only
        the next append writes that end down. So each log ends with one.
        """
        for partition in self.store.partitions:
            self.append_to(partition, random.Random(self.seed))
        found = self.contents(self.store)
        for partition in self.store.partitions:
            self.check_partition(partition, found[partition.topic_partition])
        bounds = {
            one.topic_partition: (one.log_start_offset, one.log_end_offset) for one in self.store.partitions
        }
        self.store.close()
        for root in self.roots:
            bad = [one for one in verify_root(LOCAL, str(root), deep=True) if one.kind is not Kind.NOTE]
            assert not bad, bad
        with self.open(background=False) as again:
            later = self.contents(again)
            for partition in again.partitions:
                here = later[partition.topic_partition]
                assert here.items() <= found[partition.topic_partition].items()
                # A cleaning may have run until the store was closed.
                assert partition.log.config.compact or here == found[partition.topic_partition]
                self.check_partition(partition, here)
            assert bounds == {
                one.topic_partition: (one.log_start_offset, one.log_end_offset) for one in again.partitions
            }

    def check_partition(self, partition: Partition, found: dict[int, tuple[bytes, bytes]]) -> None:
        name, memory = partition.topic_partition, self.memory[partition.topic_partition]
        for offset, (value, _) in found.items():
            append = memory.appends.get(value)
            assert append is not None, f"{name}: {value!r} was never appended"
            assert append.offset == offset, f"{name}: {value!r} is at {offset}, not at {append.offset}"
            cut = [one for one in memory.cuts if one.offset <= offset and one.called > append.returned]
            assert not cut, f"{name}: {value!r} was cut off by {cut[0]} and is there"
        newest: dict[bytes, int] = {}
        for offset, (_, key) in found.items():
            newest[key] = max(newest.get(key, -1), offset)
        ever: dict[bytes, int] = defaultdict(int)
        for append in memory.appends.values():
            ever[append.key] = max(ever[append.key], append.offset)
        compacted = partition.log.config.compact
        for value, append in memory.appends.items():
            if append.offset < partition.log_start_offset or found.get(append.offset, (b"",))[0] == value:
                continue
            if compacted and newest.get(append.key, -1) > append.offset:
                continue
            # A batch that holds the offset of a truncation goes whole.
            cut = [
                one
                for one in memory.cuts
                if one.offset - MAX_BATCH < append.offset and one.returned > append.called
            ]
            gave_way = compacted and ever[append.key] > append.offset
            assert cut or gave_way, f"{name}: {value!r} at {append.offset} is lost"
