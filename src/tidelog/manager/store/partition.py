"""One partition of a store: the log it has now, wherever that is.

A partition has one replica, so what is appended is replicated: the high watermark follows the log end. Its
log is replaced when the partition moves to another root; a question that meets the old one is asked again,
an append waits for the new one.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
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
from tidelog.layout.roots import Root
from tidelog.log import AppendOrigin, FetchData, Log, LogAppendInfo
from tidelog.log.append.incoming import AppendOptions, Incoming
from tidelog.log.read.reader import DEFAULT_READ_BYTES
from tidelog.log.read.reading import to_arrow
from tidelog.records.record import STORED_COLUMNS, StoredRecord, from_arrow
from tidelog.records.schema import Projection
from tidelog.storage.forks import watch
from tidelog.types import FetchIsolation, TimestampOffset, TopicPartition

__all__ = ["FlushTimes", "Partition", "close_in_order", "refuse_replicated"]

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


class Partition:
    """A partition: append to it, read from it."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        leader_epoch: int,
        others: tuple[int, ...] = (),
    ) -> None:
        self.topic_partition = topic_partition
        self.others = others
        """The other brokers that hold a replica, as the metadata says."""
        self.force = False
        """Whether it may be appended to although others hold it too."""
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        """The epoch that appends are written in."""
        self.flushes = FlushTimes()
        self.gate = threading.RLock()
        """Held by whoever appends to the log or puts another in its place."""
        self.moving = threading.Lock()
        """Held while it moves to another root: one move at a time. Taken before any other lock."""
        self.was_online = False
        """Whether it has had a log since the store was opened."""
        self._log: Log | None = None
        self._root: Root | None = None
        self._offline: BaseException | None = None
        self._attached_end = 0
        watch(self)

    def __repr__(self) -> str:
        """With its name and place."""
        where = "offline" if self._log is None else self._log.path
        return f"Partition({self.topic_partition}, {where})"

    # Its log

    @property
    def log(self) -> Log:
        """The log it has now. Hold on to the partition rather than to this: it may move."""
        log = self._log
        if log is None or self._offline is not None:
            raise LogOfflineError(f"partition {self.topic_partition} is offline: {self.offline_reason}")
        return log

    @property
    def root(self) -> Root | None:
        """Where the log is; None where that is not known."""
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
    def has_grown(self) -> bool:
        """Whether it was appended to or cut since it got its log."""
        return self._log is not None and self._log.log_end_offset != self._attached_end

    def assign(self, root: Root) -> None:
        """Say where its log will be."""
        self._root = root

    def attach(self, log: Log, root: Root) -> None:
        """Give it a log. All of the log is replicated: there is one replica."""
        log.update_high_watermark(log.log_end_offset)
        with self.gate:
            self._log, self._root = log, root
            self.was_online = True
            self._attached_end = log.log_end_offset
            self.leader_epoch = max(self.leader_epoch, log.latest_epoch or 0)

    def go_offline(self, why: BaseException, root: Root | None = None) -> None:
        """Use its log no more; the files stay as they are."""
        with self.gate:
            self._offline = self._offline or why
            self._root = self._root or root
            log, self._log = self._log, None
            if log is not None:
                log.close_handlers()

    def detach(self) -> Log:
        """Take its log away, for good."""
        with self.gate:
            log = self.log
            self._log = None
            self._offline = LogClosedError(f"{self.topic_partition} was closed or deleted")
            return log

    # Writing

    def append(
        self,
        records: Incoming,
        *,
        sync: bool = False,
        force: bool = False,
        leader_epoch: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        **options: Unpack[AppendOptions],
    ) -> LogAppendInfo:
        """Append records, Arrow columns or ready batches; see `Log.append_as_leader`.

        A reader of record batches, such as `tidelog.scan` returns, is appended batch by batch; columns that
        say where a record was are left out. With `sync` the records are on the disk when it returns
        (`flush.messages=1` makes that so always). A partition that other brokers hold too is refused without
        `force`: a follower of theirs that this replica became would cut the records off.
        """
        if self.others and not force:
            self.check_single()
        if isinstance(records, pa.RecordBatchReader):
            return self._append_reader(records, sync, force, leader_epoch, origin, options)
        with self.gate:
            log = self.log
            epoch = self.leader_epoch if leader_epoch is None else leader_epoch
            info = log.append_as_leader(records, leader_epoch=epoch, origin=origin, **options)
            self.leader_epoch = max(self.leader_epoch, epoch)
            log.maybe_increment_high_watermark(log.offsets.log_end)  # with its place: nothing is looked up
        if sync:
            self.flush()
        return info

    def _append_reader(
        self,
        reader: pa.RecordBatchReader,
        sync: bool,
        force: bool,
        leader_epoch: int | None,
        origin: AppendOrigin,
        options: AppendOptions,
    ) -> LogAppendInfo:
        """Append what a reader yields, without holding more than a batch of it."""
        wanted = [name for name in reader.schema.names if name not in _PLACE_COLUMNS]
        first: LogAppendInfo | None = None
        last: LogAppendInfo | None = None
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
        """Refuse a partition that other brokers hold too, unless that is known and wanted."""
        if self.others and not self.force:
            raise refuse_replicated(self.topic_partition, self.others)

    def flush(self) -> None:
        """Return when everything is on the disk."""
        begin = time.monotonic()
        self._on_log(lambda log: log.flush())
        self.flushes.add((time.monotonic() - begin) * 1000)

    def delete_records(self, before_offset: int) -> int:
        """Move the log start to an offset (up to the high watermark); where it is then."""
        with self.gate:
            self.log.maybe_increment_log_start_offset(before_offset)
            return self.log.log_start_offset

    # Reading

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given."""
        return self.log.log_end_offset

    def read(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_message: bool = True,
    ) -> FetchData:
        """Batches from an offset on, as they are on disk; see `Log.read`."""
        return self._on_log(lambda log: log.read(start_offset, max_length, isolation, min_one_message))

    def read_arrow(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        columns: Iterable[str] | None = None,
        min_one_message: bool = True,
    ) -> pa.RecordBatch:
        """Records from an offset on as Arrow; see `Log.read_arrow`."""
        wanted = None if columns is None else tuple(columns)
        return self._on_log(
            lambda log: log.read_arrow(start_offset, max_length, isolation, wanted, min_one_message)
        )

    def read_record(self, offset: int) -> StoredRecord | None:
        """The record at exactly this offset; None where there is none."""
        return self._on_log(lambda log: log.read_record(offset))

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """What a Kafka broker answers to a consumer that asks for a timestamp (ms); see the log's."""
        return self._on_log(lambda log: log.offset_for_timestamp(timestamp))

    def offset_for(self, when: datetime | int) -> int:
        """The offset of the first record that is not older than a moment; the log end where there is none.

        `when` is a datetime with a time zone, or milliseconds since 1970.
        """
        if isinstance(when, datetime):
            if when.tzinfo is None:
                raise InvalidInputError(f"{when} has no time zone; say which with tzinfo")
            when = round(when.timestamp() * 1000)
        if when < 0:
            return self.log_start_offset
        found = self._on_log(lambda log: log.first_offset_at(when))
        return self.log_end_offset if found is None else found.offset

    def __iter__(self) -> Iterator[StoredRecord]:
        """All records, from the log start to where it ends now."""
        return self.records()

    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
    ) -> Iterator[StoredRecord]:
        """The records from offset `start` to before `end`, one by one, without markers of transactions.

        For many records, Arrow columns (`read_arrow`, `tidelog.scan`) are faster by far.
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
        """Ask the log; the next one, if this one was replaced meanwhile."""
        while True:
            log = self.log
            try:
                return ask(log)
            except LogClosedError:
                with self.gate:  # whoever replaces it has finished then
                    if self._log is log:
                        raise


def close_in_order(partition: Partition) -> bool:
    """Close a partition's log; whether that went well, so that it can be trusted at the next start."""
    if not partition.is_online:
        return False
    try:
        with partition.gate:
            partition.log.close()
        return True
    except (OSError, TidelogError) as error:
        partition.go_offline(error)
        return False


def refuse_replicated(partition: TopicPartition, others: Iterable[int]) -> ReplicatedTopicError:
    """The error that says that other brokers hold a partition too."""
    return ReplicatedTopicError(
        f"brokers {', '.join(map(str, others))} hold {partition} too: records that are appended to this disk "
        "alone are cut off when its broker follows another. Produce through the cluster, or say force=True "
        "(--force) if this replica is the one that counts"
    )
