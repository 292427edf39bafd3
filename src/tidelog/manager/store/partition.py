"""One partition of a store: the log it has now, wherever that is.

A partition has one replica, so the high watermark follows the log end. When the partition moves to another
root, its log is replaced: a read that meets the old log is repeated, and an append waits for the new one.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, Unpack

import pyarrow as pa

from tidelog.errors import (
    InvalidInputError,
    LogClosedError,
    LogOfflineError,
    ReplicatedTopicError,
    TidelogError,
)
from tidelog.kernels.appender import short_way_in_first
from tidelog.kernels.shared import PartitionFields
from tidelog.layout.roots import Checkpoint, Root
from tidelog.lazy import LazyModule
from tidelog.log import AppendOrigin, AppendResult, FetchData, Log
from tidelog.log.append.incoming import AppendOptions, Incoming
from tidelog.log.producers.sequences import TV_UNKNOWN
from tidelog.log.read.fetching import to_arrow
from tidelog.log.read.reader import DEFAULT_READ_BYTES
from tidelog.manager.upkeep.times import to_timestamp
from tidelog.records.record import STORED_COLUMNS, StoredRecord, from_arrow
from tidelog.records.schema import Projection
from tidelog.storage.forks import watch
from tidelog.types import FetchIsolation, IsolationLevel, TimestampOffset, TopicPartition

__all__ = ["FlushTimes", "Partition", "close_all", "close_in_order", "refuse_replicated"]

_pictures = LazyModule("tidelog.manager.store.pictures")  # for notebooks only
_T = TypeVar("_T")
_EVERYTHING = Projection.of(STORED_COLUMNS)
_PLACE_COLUMNS = frozenset({"topic", "partition", "offset", "timestampType"})


@dataclass(slots=True)
class FlushTimes:
    """How often something was flushed, and how long that took."""

    count: int = 0
    total_ms: float = 0.0
    longest_ms: float = 0.0

    def add(self, took_ms: float) -> None:
        """One more."""
        self.count += 1
        self.total_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)


class Partition(PartitionFields):
    """A partition to append to and read from."""

    _log: Log | None
    _listeners: tuple[Callable[[Partition], None], ...]

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        leader_epoch: int,
        others: tuple[int, ...] = (),
    ) -> None:
        super().__init__()  # with the `gate`: held by whoever appends to the log or puts another in its place
        self.topic_partition = topic_partition
        self.others = others
        """The other brokers that hold a replica, as the metadata says."""
        self.force = False
        """Whether it may be appended to although others hold it too."""
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        """The epoch that appends are written in."""
        self.flushes = FlushTimes()
        self.moving = threading.Lock()
        """Held while it moves to another root: one move at a time. Taken before any other lock."""
        self.was_online = False
        """Whether it has had a log since the store was opened."""
        self._root: Root | None = None
        self._is_parked = False
        self._attached_end = 0
        watch(self)

    def __repr__(self) -> str:
        """With its name and place."""
        where = "offline" if self._log is None else self._log.path
        return f"Partition({self.topic_partition}, {where})"

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        drawn: str = _pictures.draw_partition(self)
        return drawn

    # Its log

    @property
    def path(self) -> str:
        """Its directory; LogOfflineError if it has none."""
        return str(self.log.path)

    @property
    def log(self) -> Log:
        """The current log. Keep the partition rather than the log: the partition may move."""
        log = self._log
        if log is None or self._offline is not None:
            raise LogOfflineError(f"partition {self.topic_partition} is offline: {self.offline_reason}")
        return log

    @property
    def root(self) -> Root | None:
        """The root that holds the log; None if that is not known."""
        return self._root

    @property
    def is_online(self) -> bool:
        """Whether it can be read and written."""
        return self.offline_reason is None

    @property
    def offline_reason(self) -> str | None:
        """Why it cannot be used, or None."""
        if self._offline is not None:
            return str(self._offline)
        if self._log is None:
            return "it was not loaded"
        return "its disk failed" if self._log.is_offline else None

    @property
    def has_failed(self) -> bool:
        """Whether it was taken offline."""
        return self._offline is not None

    @property
    def has_grown(self) -> bool:
        """Whether it was appended to or cut since the store was opened, here or where it moved from."""
        return self._log is not None and self._log.log_end_offset != self._attached_end

    @property
    def is_parked(self) -> bool:
        """Whether its log was closed cleanly already: nothing is done to it until the next opening."""
        return self._is_parked

    @property
    def producers(self) -> Collection[int]:
        """The ids of the producers that its log knows."""
        return () if self._log is None else self._log.active_producers

    def assign(self, root: Root) -> None:
        """Set where its log will be."""
        self._root = root

    def attach(self, log: Log, root: Root) -> None:
        """Give it a log, all of it replicated if this is the only replica, or the one that counts."""
        with self.gate:
            self._attached_end = -1 if self.has_grown else log.log_end_offset
            log.update_high_watermark(self._replicated_end(log, root))
            self._log, self._root = log, root
            self.was_online = True
            self.leader_epoch = max(self.leader_epoch, log.latest_epoch or 0)

    def _replicated_end(self, log: Log, root: Root) -> int:
        """The high watermark of a log that is attached: what is above it, other brokers may cut off.

        Without a checkpoint, the log end, as for who only reads.
        """
        if not self.others or self.force:
            return log.log_end_offset
        if self._log is not None:  # which moves
            return self._log.high_watermark
        return root.checkpoints[Checkpoint.HIGH_WATERMARKS].get(self.topic_partition, log.log_end_offset)

    def go_offline(self, why: BaseException, root: Root | None = None) -> None:
        """Stop using its log; the files stay as they are."""
        with self.gate:
            self._offline = self._offline or why
            self._root = self._root or root
            log, self._log = self._log, None
            if log is not None:
                log.close_handlers()

    def park(self, why: BaseException) -> None:
        """Close its log in order, and use it no more until the store is opened again."""
        with self.gate:
            self._is_parked = close_in_order(self)
            self._offline = self._offline or why

    def detach(self) -> Log:
        """Remove its log for good."""
        with self.gate:
            log = self.log
            self._log = None
            self._offline = LogClosedError(f"{self.topic_partition} was closed or deleted")
            return log

    # Writing

    @short_way_in_first
    def append(
        self,
        records: Incoming,
        *,
        sync: bool = False,
        force: bool = False,
        leader_epoch: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = TV_UNKNOWN,
        **options: Unpack[AppendOptions],
    ) -> AppendResult:
        """Append records, Arrow columns or ready batches; see `Log.append_as_leader`.

        A reader of record batches, such as `tidelog.scan` returns, is appended batch by batch; its columns
        topic, partition and offset are ignored. With `sync`, the records are on the disk when the call
        returns (`flush.messages=1` does this always). If other brokers hold replicas, the append is refused
        without `force`: as their follower, this replica would truncate the records. A coordinator's markers
        need their `transaction_version`.
        """
        if self.others and not force:
            self.check_single()
        if type(records) is not bytes and isinstance(records, pa.RecordBatchReader):
            return self._append_reader(records, sync, force, leader_epoch, origin, options)
        with self.gate:
            log = self._log
            if log is None or self._offline is not None:
                log = self.log  # which says why not
            epoch = self.leader_epoch if leader_epoch is None else leader_epoch
            result = log.append_as_only_replica(records, epoch, origin, transaction_version, options)
            if epoch > self.leader_epoch:
                self.leader_epoch = epoch
        self._tell_listeners()
        if sync:
            self.flush()
        return result

    def _tell_listeners(self) -> None:
        """Tell of an append."""
        for listener in self._listeners:
            listener(self)

    def _append_reader(
        self,
        reader: pa.RecordBatchReader,
        sync: bool,
        force: bool,
        leader_epoch: int | None,
        origin: AppendOrigin,
        options: AppendOptions,
    ) -> AppendResult:
        """Append what a reader yields, without holding more than a batch of it."""
        wanted = [name for name in reader.schema.names if name not in _PLACE_COLUMNS]
        first: AppendResult | None = None
        last: AppendResult | None = None
        for batch in reader:
            if batch.num_rows:
                rows = batch.select(wanted)
                last = self.append(rows, force=force, leader_epoch=leader_epoch, origin=origin, **options)
                first = first or last
        if first is None or last is None:
            raise InvalidInputError("the reader holds no records: nothing was appended")
        if sync:
            self.flush()
        return last._replace(first_offset=first.first_offset)

    def check_single(self) -> None:
        """Refuse a partition that other brokers hold too, unless `force` is set."""
        if self.others and not self.force:
            raise refuse_replicated(self.topic_partition, self.others)

    def flush(self) -> None:
        """Wait until everything is on the disk."""
        begin = time.monotonic()
        self._on_log(lambda log: log.flush())
        self.flushes.add((time.monotonic() - begin) * 1000)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start to an offset, at most the high watermark. Returns the new log start."""
        with self.gate:
            self.log.maybe_increment_log_start_offset(before_offset)
            return self.log.log_start_offset

    # Waiting

    def listen(self, listener: Callable[[Partition], None]) -> Callable[[], None]:
        """Call a function after each append, on the thread that appends. Returns a function that ends this.

        It must be quick and must not raise. An event loop can be woken this way.
        """
        with self.gate:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self.gate:
                self._listeners = tuple(one for one in self._listeners if one is not listener)

        return end

    def wait(self, offset: int, timeout: float | None = None) -> bool:
        """Wait until there is a record to read at `offset` or later, or after `timeout` seconds.

        Returns whether there is one. A timeout of None waits forever.
        """
        grown = threading.Event()
        end = self.listen(lambda _: grown.set())
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
            while True:
                grown.clear()
                if self.log.high_watermark > offset:
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                grown.wait(left)
        finally:
            end()

    # Reading

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.log_end_offset

    def read(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: IsolationLevel | FetchIsolation = "read_uncommitted",
        min_one_message: bool = True,
    ) -> FetchData:
        """Batches from an offset on, as they are on disk; see `Log.read`."""
        level = FetchIsolation(isolation)
        return self._on_log(lambda log: log.read(start_offset, max_length, level, min_one_message))

    def read_arrow(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: IsolationLevel | FetchIsolation = "read_uncommitted",
        columns: Iterable[str] | None = None,
        min_one_message: bool = True,
    ) -> pa.RecordBatch:
        """Records from an offset on as Arrow; see `Log.read_arrow`."""
        wanted = None if columns is None else tuple(columns)
        level = FetchIsolation(isolation)
        return self._on_log(
            lambda log: log.read_arrow(start_offset, max_length, level, wanted, min_one_message)
        )

    def read_record(self, offset: int) -> StoredRecord | None:
        """The record at exactly this offset; None if there is none."""
        return self._on_log(lambda log: log.read_record(offset))

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """What a broker answers a consumer that looks up a timestamp; see `Log.offset_for_timestamp`."""
        return self._on_log(lambda log: log.offset_for_timestamp(timestamp))

    def offset_for(self, when: datetime | int) -> int:
        """The offset of the first record at or after a time; the log end if there is none.

        `when` is a datetime with a time zone, or milliseconds since 1970.
        """
        timestamp = to_timestamp(when)
        if timestamp < 0:
            return self.log_start_offset
        found = self._on_log(lambda log: log.first_offset_at(timestamp))
        return self.log_end_offset if found is None else found.offset

    def __iter__(self) -> Iterator[StoredRecord]:
        """All records, from the log start to where it ends now."""
        return self.records()

    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        isolation: IsolationLevel | FetchIsolation = "read_uncommitted",
    ) -> Iterator[StoredRecord]:
        """The records from offset `start` to before `end`, one by one, without markers of transactions.

        For many records, Arrow columns (`read_arrow`, `tidelog.scan`) are much faster.
        """
        at = self.log_start_offset if start is None else start
        stop = self.log_end_offset if end is None else min(end, self.log_end_offset)
        while at < stop:
            fetched = self.read(at, isolation=isolation)
            batches = fetched.batches()
            if not len(batches):
                return
            for record in from_arrow(to_arrow(fetched, at, self.topic_partition, _EVERYTHING)):
                if record.offset >= stop:
                    return
                if not record.control:
                    yield record
            at = int(batches.last_offset[-1]) + 1

    def _on_log(self, ask: Callable[[Log], _T]) -> _T:
        """Ask the log; the next one, if this one was replaced in the meantime."""
        while True:
            log = self.log
            try:
                return ask(log)
            except LogClosedError:
                with self.gate:  # whoever replaces it has finished then
                    if self._log is log:
                        raise


def close_in_order(partition: Partition) -> bool:
    """Close a partition's log. Returns whether that succeeded, so that the log needs no recovery at the
    next start. One that could not be loaded is as it was found.
    """
    if not partition.is_online:
        return partition.is_parked or not partition.was_online
    try:
        with partition.gate:
            partition.log.close()
        return True
    except (OSError, TidelogError) as error:
        partition.go_offline(error)
        return False


def close_all(partitions: Sequence[Partition], roots: Sequence[Root], threads_per_root: int) -> set[Root]:
    """Close the logs of all roots side by side; the roots where all went well."""
    mine = {root: [one for one in partitions if one.root is root] for root in roots}
    threads = max(1, len(roots) * threads_per_root)
    with ThreadPoolExecutor(threads, thread_name_prefix="tidelog-close") as pool:
        in_order = {root: pool.map(close_in_order, those) for root, those in mine.items()}
        return {root for root, answers in in_order.items() if all(list(answers))}


def refuse_replicated(partition: TopicPartition, others: Iterable[int]) -> ReplicatedTopicError:
    """The error that says that other brokers hold a partition too."""
    return ReplicatedTopicError(
        f"brokers {', '.join(map(str, others))} hold {partition} too: records that are appended to this disk "
        "alone are cut off when its broker follows another. Produce through the cluster, or pass force=True "
        "(--force) if this replica is the one that counts"
    )
