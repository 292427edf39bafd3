"""A store's random life from a seed, on a file system that can be cut from power at any step of it.

The life is made of appends (some synced), transactions, flushes, rolls, checkpoints, retention, compaction,
deleted records, truncations, moves between roots, topics made, deleted and made again, and orderly restarts.
Background tasks (a roll's delayed flush, the removal of files) run when the dice say so. Some calls are
interrupted: at one of their steps another thread appends, flushes, reads, truncates or writes checkpoints.

Some lives meet a failing disk: a sync that fails and drops its pages, a full disk, an I/O error. What was
raised was not acknowledged; `model` has what follows from that.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.durability.interrupting import interrupted
from tests.durability.model import NEVER, Entry, History, Name
from tests.durability.stores import CONFIG, NOW, ROOTS, read_all, recovered
from tidelog.errors import OffsetOutOfRangeError, OutOfOrderSequenceError, TidelogError
from tidelog.log import AppendOrigin
from tidelog.manager import Partition, Store
from tidelog.protocol.control_records import EndTxnMarker
from tidelog.records import Record
from tidelog.records.control_batches import encode_end_txn_marker
from tidelog.records.record import encode_records
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import Call, Fault, FaultyFileSystem

__all__ = ["FAULTS", "Life", "live"]

FAULTS = ("sync", "full", "error")

_ACTIONS = {
    "append": 14,
    "transact": 5,
    "end_transaction": 3,
    "flush": 3,
    "flush_store": 1,
    "roll": 2,
    "tasks": 3,
    "checkpoint": 2,
    "retention": 1,
    "clean": 3,
    "trim": 1,
    "truncate": 2,
    "move": 1.5,
    "create": 0.8,
    "delete": 0.4,
    "recreate": 0.4,
    "restart": 0.8,
    "killed": 0.6,
}
_LONG = ("checkpoint", "clean", "truncate", "move", "retention", "roll", "tasks", "flush")
"""What is interrupted."""
_INTERRUPTIONS = ("append", "flush", "read", "checkpoint", "roll", "truncate", "trim")


@dataclass
class Life:
    """A file system with a past, and what is known of it."""

    seed: int
    fs: CrashFileSystem
    histories: dict[Name, History] = field(default_factory=dict)
    opened: int = 0
    """The step at which the store was there for sure."""
    faults: str = ""
    """What failed, if anything did."""
    names: dict[Name, str] = field(default_factory=dict)


@dataclass
class _Producer:
    """A transactional producer of one partition."""

    number: int
    sequence: int = 0


class Liver:
    """Whoever leads the life."""

    def __init__(self, seed: int, faults: str = "") -> None:
        self.dice = random.Random(f"{seed} {faults}")
        self.clock = NOW
        self.crashing = CrashFileSystem(clock=lambda: self.clock)
        self.fs = FaultyFileSystem(self.crashing, lambda call: None)
        self.life = Life(seed, self.crashing, faults=faults)
        self.topics = 0
        self.counter = 0
        self.producers: dict[Name, _Producer] = {}
        self.target: Partition | None = None
        """What the interrupted call is at work on."""

    @property
    def step(self) -> int:
        return self.crashing.steps

    def open(self) -> Store:
        return recovered(ROOTS, config=CONFIG, fs=self.fs, now_ms=lambda: self.clock, background=False)

    def run(self, actions: int) -> Life:
        store = self.open()
        self.life.opened = self.step
        self.create(store)
        if self.life.faults:
            self.fs.rule = self.failing(self.dice.randrange(20, 600))
        names, weights = zip(*_ACTIONS.items(), strict=True)
        for _ in range(actions):
            self.clock += self.dice.randrange(1, 500)
            action = self.dice.choices(names, weights)[0]
            if action == "restart":
                restarted = self.restart(store)
                if restarted is None:
                    break
                store = restarted
            elif action == "killed":
                store = self.kill(store)
            elif action in _LONG and self.dice.random() < 0.25:
                self.interrupted(store, action, self.dice.choice(_INTERRUPTIONS))
            else:
                with self.tolerated():
                    getattr(self, action)(store)
        if self.dice.random() < 0.5:
            with self.tolerated():
                self.close(store)
        return self.life

    # ---- failing disks, and threads that come between

    def failing(self, first: int) -> Callable[[Call], Fault | None]:
        """A rule by which something fails once, or for a while, from the `first` such call on."""
        kind, count = self.life.faults, 0
        syncs = ("sync", "flush")
        growing = ("pwrite", "allocate", "reserve", "create", "make_directory", "rename", "sync", "flush")
        lasting = self.dice.choice((1, 1, 5, 10_000)) if kind == "full" else 1
        first = first // 8 if kind == "sync" else first

        def rule(call: Call) -> Fault | None:
            nonlocal count
            if kind == "sync" and call.operation not in syncs:
                return None
            if kind == "full" and call.operation not in growing:
                return None
            count += 1
            if not first <= count < first + lasting:
                return None
            part = call.size // 2 if call.operation == "pwrite" else 0
            return Fault(errno.ENOSPC if kind == "full" else errno.EIO, part)

        return rule

    @contextmanager
    def tolerated(self) -> Iterator[None]:
        """Errors are for lives with a failing disk."""
        try:
            yield
        except (OSError, TidelogError):
            if not self.life.faults:
                raise

    def interrupted(self, store: Store, action: str, other: str) -> None:
        """Do something, and at one of its steps something else in another thread."""
        self.target = None

        def come_between() -> None:
            with self.tolerated():
                getattr(self, other)(store)

        try:
            with interrupted(self.fs, self.dice.randrange(1, 25), come_between), self.tolerated():
                getattr(self, action)(store)
        finally:
            self.target = None

    def some(self, store: Store, *, others: bool = False) -> Partition | None:
        """A partition to work on; with `others`, none that an interrupted call is at work on."""
        partitions = [one for one in self.known(store) if not (others and one is self.target)]
        return self.dice.choice(partitions) if partitions else None

    def known(self, store: Store) -> list[Partition]:
        """The partitions that can be used; a topic whose making failed half-way is none of ours."""
        return [one for one in store.partitions if one.is_online and self.name(one) in self.life.histories]

    def name(self, partition: Partition) -> Name:
        return partition.topic_id, partition.topic_partition.partition

    def history(self, partition: Partition) -> History:
        return self.life.histories[self.name(partition)]

    # ---- topics

    def create(self, store: Store) -> None:
        if len(store.topics) >= 3:
            return
        self.topics = self.topics % 3 + 1
        if f"t{self.topics}" not in store.topics:
            self.make(store, f"t{self.topics}")

    def make(self, store: Store, name: str) -> None:
        config = {
            "internal.segment.bytes": self.dice.choice([500, 1500]),
            "retention.bytes": 3000,
            "cleanup.policy": self.dice.choice(["compact", "delete"]),
        }
        topic = store.create_topic(name, self.dice.randint(1, 2), config)
        for partition in topic:
            found = self.life.histories[self.name(partition)] = History(registered=self.step)
            self.life.names[self.name(partition)] = f"{name}-{partition.topic_partition.partition}"
            assert found.registered

    def delete(self, store: Store) -> None:
        names = sorted({one.topic_partition.topic for one in self.known(store)})
        if len(names) > 1:
            self.remove(store, self.dice.choice(names))

    def remove(self, store: Store, name: str) -> None:
        histories = [self.history(one) for one in store.topic(name) if self.name(one) in self.life.histories]
        for history in histories:
            history.deleting = self.step
        store.delete_topic(name)
        for history in histories:
            history.deleted = self.step

    def recreate(self, store: Store) -> None:
        names = sorted({one.topic_partition.topic for one in self.known(store)})
        if names:
            name = self.dice.choice(names)
            self.remove(store, name)
            self.make(store, name)

    # ---- records

    def _values(self, partition: Partition, count: int) -> list[Record]:
        made = []
        for _ in range(count):
            self.counter += 1
            value = f"{partition.topic_partition} {self.counter} ".encode()
            value += self.dice.randbytes(self.dice.randrange(60))
            made.append(Record(value, b"k%d" % self.dice.randrange(4), timestamp=self.clock))
        return made

    def append(self, store: Store) -> None:
        partition = self.some(store, others=True)
        if partition is None:
            return
        records = self._values(partition, self.dice.randint(1, 6))
        self._append(partition, records, sync=self.dice.random() < 0.3)

    def _append(self, partition: Partition, records: list[Record], *, sync: bool) -> None:
        began, first = self.step, partition.log_end_offset
        returned = False
        try:
            first = partition.append(records, sync=sync).first_offset
            returned = True
        finally:
            going = NEVER if returned else began  # what failed may be there, and need not
            self.history(partition).add(
                Entry(first + index, record.value, record.key, began, going=going, batch=first)
                for index, record in enumerate(records)
            )
        if returned and sync:
            self.history(partition).acknowledge(self.step, first + len(records))

    def transact(self, store: Store) -> None:
        partition = self.some(store, others=True)
        if partition is None:
            return
        producer = self.producers.get(self.name(partition)) or self.new_producer(partition)
        records = self._values(partition, self.dice.randint(1, 3))
        data = encode_records(
            records,
            producer_id=producer.number,
            producer_epoch=0,
            base_sequence=producer.sequence,
            transactional=True,
        )
        began, first, returned = self.step, partition.log_end_offset, False
        try:
            first = partition.append(data).first_offset
            producer.sequence += len(records)
            returned = True
        except OutOfOrderSequenceError:  # what it sent before is gone: trimmed, or lost with a restart
            self.new_producer(partition)
            return
        except (OSError, TidelogError):
            self.new_producer(partition)
            raise
        finally:
            going, number = NEVER if returned else began, producer.number
            self.history(partition).add(
                Entry(
                    first + index, record.value, record.key, began, going=going, producer=number, batch=first
                )
                for index, record in enumerate(records)
            )

    def new_producer(self, partition: Partition) -> _Producer:
        self.counter += 1
        made = self.producers[self.name(partition)] = _Producer(self.counter)
        return made

    def end_transaction(self, store: Store) -> None:
        partition = self.some(store, others=True)
        producer = None if partition is None else self.producers.get(self.name(partition))
        if partition is None or producer is None or not producer.sequence:
            return
        commits = self.dice.random() < 0.5
        marker = encode_end_txn_marker(
            EndTxnMarker(committed=commits, coordinator_epoch=7),
            producer_id=producer.number,
            producer_epoch=0,
            timestamp=self.clock,
        )
        began, first, returned = self.step, partition.log_end_offset, False
        try:
            with partition.gate:
                log = partition.log
                info = log.append_as_leader(
                    marker,
                    leader_epoch=partition.leader_epoch,
                    origin=AppendOrigin.COORDINATOR,
                    transaction_version=0,
                )
                first = info.first_offset
                log.maybe_increment_high_watermark(log.log_end_offset)
            returned = True
        finally:
            going = NEVER if returned else began
            ended = Entry(first, None, None, began, going=going, producer=producer.number, commits=commits)
            self.history(partition).add([ended])

    def flush(self, store: Store) -> None:
        partition = self.some(store)
        if partition is not None:
            end = partition.log_end_offset
            partition.flush()
            self.acknowledge(partition, end)

    def acknowledge(self, partition: Partition, end: int) -> None:
        self.history(partition).acknowledge(self.step, end)

    def flush_store(self, store: Store) -> None:
        ends = {one: one.log_end_offset for one in self.known(store)}
        store.flush()
        for partition, end in ends.items():
            self.acknowledge(partition, end)

    def read(self, store: Store) -> None:
        """Somebody reads meanwhile, and sees whole records."""
        partition = self.some(store)
        if partition is not None:
            with suppress(OffsetOutOfRangeError):  # who is interrupted may cut the log
                held = partition.read(partition.log_start_offset, 1 << 20)
                before = bytes(held.data)
                read_all(partition)
                assert bytes(held.data) == before

    # ---- upkeep

    def roll(self, store: Store) -> None:
        partition = self.some(store, others=True)
        if partition is not None and partition.log.segments.last.size:
            partition.log.roll()

    def tasks(self, store: Store) -> None:
        store.run_due_tasks()

    def checkpoint(self, store: Store) -> None:
        starts = {one: one.log_start_offset for one in self.known(store)}
        store.checkpoint()
        for partition, start in starts.items():
            if partition.is_online and partition.root is not None and partition.root.offline is None:
                self.history(partition).leave(0, start, NEVER - 1, self.step)

    def retention(self, store: Store) -> None:
        before = self.step
        partitions = self.known(store)
        ends = {partition: partition.log_end_offset for partition in partitions}
        try:
            store.apply_retention()
        finally:
            for partition in partitions:
                # How far it goes is not known before; what it has left is known after.
                start = partition.log_start_offset if partition.is_online else ends[partition]
                self.history(partition).leave(0, start, before)

    def clean(self, store: Store) -> None:
        compacted = [one for one in self.known(store) if one.log.config.compact]
        if not compacted:
            return
        partition = self.target = self.dice.choice(compacted)
        if partition.log.segments.last.size and self.dice.random() < 0.7:
            partition.log.roll()
        history = self.history(partition)
        history.cleaned = min(history.cleaned, self.step)
        reading = partition.read(partition.log_start_offset, 1 << 20)
        before = bytes(reading.data)
        store.clean(partition.topic_partition)
        assert bytes(reading.data) == before, "a reader keeps what it has"
        assert self.life.faults or not store.metrics().cleaning.uncleanable

    def trim(self, store: Store) -> None:
        partition = self.some(store, others=True)
        if partition is not None:
            offset = self.dice.randint(partition.log_start_offset, partition.log_end_offset)
            going = self.step
            self.history(partition).leave(0, offset, going)
            partition.delete_records(offset)

    def truncate(self, store: Store) -> None:
        partition = self.some(store, others=True)
        if partition is None:
            return
        self.target = self.target or partition
        start, end = partition.log_start_offset, partition.log_end_offset
        offset = self.dice.choice((self.dice.randint(start, end), max(end - self.dice.randint(0, 4), start)))
        going, history = self.step, self.history(partition)
        topic, number = partition.topic_partition.topic, partition.topic_partition.partition
        returned = False
        try:
            store.truncate_partition(topic, number, offset)
            returned = True
        finally:
            history.cut_off(offset, going, self.step if returned else NEVER)
        self.new_producer(partition)  # one whose batches were cut off begins anew

    def move(self, store: Store) -> None:
        partition = self.some(store, others=True)
        if partition is None or partition.root is None:
            return
        there = [root for root in ROOTS if root != partition.root.path and root not in store.offline_roots]
        if not there:
            return
        end, name = partition.log_end_offset, partition.topic_partition
        store.move_partition(name.topic, name.partition, self.dice.choice(there))
        self.acknowledge(partition, end)

    # ---- the end

    def restart(self, store: Store) -> Store | None:
        try:
            self.close(store)
        except (OSError, TidelogError):
            if not self.life.faults:
                raise
        if self.life.faults:
            self.fs.rule = lambda call: None
        return self.open()

    def kill(self, store: Store) -> Store:
        """The process is killed: nothing is closed, and what it wrote is in the system's memory only."""
        if self.life.faults not in ("", "sync"):
            return store
        for partition in store.partitions:
            if partition.is_online:
                partition.go_offline(RuntimeError("killed"))
        return self.open()

    def close(self, store: Store) -> None:
        ends = {one: one.log_end_offset for one in self.known(store)}
        starts = {partition: partition.log_start_offset for partition in ends}
        roots = {partition: partition.root for partition in ends}
        before = {
            root.path for root in store.roots if self.crashing.exists(root.file(".kafka_cleanshutdown"))
        }
        assert not before, "the clean mark is there while the store is open"
        store.close()
        for partition, end in ends.items():
            root = roots[partition]
            if root is not None and self.crashing.exists(root.file(".kafka_cleanshutdown")):
                self.acknowledge(partition, end)
                self.history(partition).leave(0, starts[partition], NEVER - 1, self.step)


def live(seed: int, actions: int = 40, faults: str = "") -> Life:
    """A life."""
    return Liver(seed, faults).run(actions)
