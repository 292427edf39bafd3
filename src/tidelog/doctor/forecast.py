"""What a stock broker's loader will do with a log: the real loading, rehearsed in memory.

1. The log is opened on a file system that keeps every change to itself (`manager.upkeep.rehearsal`), clean or
   as after a crash, with the root's checkpoints, and with Kafka's rules for what is below the recovery point.
2. What it holds then is noted: offsets, open transactions, the segments that retention will delete first, the
   times of records.
3. It is closed, and the files that differ are the forecast.

Memory: of a log that has to be recovered one segment, as the rehearsal has it; of others little.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelog.cleanup import RetentionPlan, plan_retention
from tidelog.config import LogConfig
from tidelog.doctor.changes import Change, ChangeKind, find_changes
from tidelog.errors import InvalidIndexError, TidelogError
from tidelog.layout.partitions import list_partition
from tidelog.log import Log
from tidelog.log.opening.kafka_reading import KafkaSegment, unknown_magics
from tidelog.manager.upkeep.cuts import why_cut
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.segment import SealedSegment
from tidelog.storage import FileSystem, read_file

__all__ = ["Forecast", "FutureTime", "OpenTransaction", "Start", "forecast_load"]

MINUTE_MS = 60_000
FUTURE_MS = 60 * MINUTE_MS
"""What Kafka lets a producer be ahead (message.timestamp.after.max.ms)."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a broker finds a log, and when."""

    clean: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int | None
    """Where retention stops; None: the log end."""
    now_ms: int
    max_transaction_timeout_ms: int = 15 * MINUTE_MS
    producer_id_expiration_ms: int = 24 * 60 * MINUTE_MS
    endings: Mapping[int, int] = field(default_factory=dict)
    """By producer id, when a coordinator ends its transaction; 0 for at once."""

    def open(
        self,
        fs: FileSystem,
        path: str,
        config: LogConfig,
        *,
        recovered: Callable[[int], None] = lambda size: None,
        as_kafka: bool = False,
    ) -> Log:
        """Open the log so; see `Log.open`."""
        return Log.open(
            path,
            config,
            clean=self.clean,
            log_start_offset=self.log_start_offset,
            recovery_point=self.recovery_point,
            fs=fs,
            now_ms=lambda: self.now_ms,
            max_transaction_timeout_ms=self.max_transaction_timeout_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            recovered=recovered,
            as_kafka=as_kafka,
        )


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that holds the last stable offset back."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int
    is_late: bool
    """Whether it has been silent for longer than any may take, and no coordinator knows it: it hangs."""
    ends_ms: int | None = None
    """When its coordinator ends it, by its time-out; None if no coordinator on these disks knows it."""


@dataclass(frozen=True, slots=True)
class FutureTime:
    """A segment whose newest record is later than now."""

    base_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What becomes of a log. With an `error` it is not loaded, and the rest is not known."""

    changes: Sequence[Change] = ()
    log_start_offset: int = 0
    log_end_offset: int = 0
    last_stable_offset: int = 0
    recovered_bytes: int = 0
    cause: str | None = None
    """Why something is cut off its logs."""
    transactions: Sequence[OpenTransaction] = ()
    retention: RetentionPlan | None = None
    future: Sequence[FutureTime] = ()
    error: str | None = None


def forecast_load(fs: FileSystem, path: str, config: LogConfig, start: Start) -> Forecast:
    """Rehearse the loading of one log; nothing is changed."""
    found = _forecast(fs, path, config, start, {})
    if found.error is None and found.cause is None:
        return found
    magics = dict(_magics(fs, path))  # what looks like damage here may not be any to Kafka
    return _forecast(fs, path, config, start, magics) if magics else found


def _magics(fs: FileSystem, path: str) -> Iterator[tuple[str, list[int]]]:
    for segment in list_partition(fs, path).segments:
        file = f"{path}/{segment.log_name}"
        try:
            places = unknown_magics(memoryview(read_file(fs, file)))
        except (OSError, InvalidIndexError):  # the forecast says so already
            continue
        if places:
            yield file, places


def _forecast(
    fs: FileSystem, path: str, config: LogConfig, start: Start, magics: Mapping[str, Sequence[int]]
) -> Forecast:
    """Rehearse the loading; `magics` are places in files where Kafka takes any number for magic 2."""
    rehearsal = Rehearsal(fs, follows_links=True)
    read = [0]

    def recovered(size: int) -> None:
        read[0] += size

    try:
        for file, places in magics.items():
            opened = rehearsal.open(file, writable=True)
            for place in places:
                opened.pwrite(b"\x02", place)
            opened.close()
        found = _rehearse(fs, rehearsal, path, config, start, recovered, read)
        return replace(found, changes=tuple(_without(found.changes, magics)))
    except (OSError, TidelogError) as error:
        return Forecast(recovered_bytes=read[0], error=_told(error))
    finally:
        rehearsal.close()


def _without(changes: Sequence[Change], files: Container[str]) -> Iterator[Change]:
    """The changes, without the bytes that the rehearsal itself has written to some files."""
    for one in changes:
        if one.path not in files or one.kind is not ChangeKind.WRITE:
            yield one
        elif one.before is not None and one.size < one.before:
            yield Change(ChangeKind.CUT, one.path, one.size, one.before)


def _stable_offset(fs: FileSystem, path: str, log: Log) -> int:
    """The last stable offset as a broker tells it: that of the first batch of an open transaction, if
    compaction has left it, or of the next batch. CorruptRecordError where the search meets damage: then the
    log is not loaded.
    """
    stable, end = log.last_stable_offset, log.log_end_offset
    if stable >= end:
        return stable
    bases = [one.base_offset for one in log.segments]
    for base_offset in bases[max(bisect_right(bases, stable) - 1, 0) :]:
        segment = KafkaSegment.open(fs, path, base_offset)
        try:
            found = segment.find(stable)
            if found is not None:
                return segment.base_offset_of(found)
        finally:
            segment.close()
    return end


def _rehearse(
    fs: FileSystem,
    rehearsal: Rehearsal,
    path: str,
    config: LogConfig,
    start: Start,
    recovered: Callable[[int], None],
    read: Sequence[int],
) -> Forecast:
    log = start.open(rehearsal, path, config, recovered=recovered, as_kafka=True)
    for segment in log.segments:
        if isinstance(segment, SealedSegment):
            segment.trust_time_index()
    log.update_high_watermark(log.log_end_offset)
    transactions = _transactions(log, start)
    begin, end, stable = log.log_start_offset, log.log_end_offset, _stable_offset(rehearsal, path, log)
    retention, future = _expected(log, config, start)
    log.close()
    changes = tuple(find_changes(fs, rehearsal))
    loses = any(one.path.endswith(".log") and one.size < (one.before or 0) for one in changes)
    cause = why_cut(fs, rehearsal, path) if loses else None
    return Forecast(changes, begin, end, stable, read[0], cause, transactions, retention, future)


def _expected(
    log: Log, config: LogConfig, start: Start
) -> tuple[RetentionPlan | None, tuple[FutureTime, ...]]:
    """What retention will do, and records from the future; nothing where damage hides the times."""
    end = log.log_end_offset
    try:
        plan = plan_retention(
            list(log.segments),
            config,
            log_start_offset=log.log_start_offset,
            high_watermark=end if start.high_watermark is None else min(start.high_watermark, end),
            log_end_offset=end,
            now_ms=start.now_ms,
        )
        times = [(one.base_offset, one.max_timestamp_so_far.timestamp) for one in log.segments]
    except (OSError, TidelogError):
        return None, ()
    late = start.now_ms + FUTURE_MS
    return plan, tuple(FutureTime(base, time) for base, time in times if time > late)


def _transactions(log: Log, start: Start) -> tuple[OpenTransaction, ...]:
    limit_ms = start.max_transaction_timeout_ms + 5 * MINUTE_MS
    found = [
        OpenTransaction(
            state.producer_id,
            state.producer_epoch,
            state.txn_first_offset,
            state.last_timestamp,
            start.now_ms - state.last_timestamp > limit_ms and state.producer_id not in start.endings,
            start.endings.get(state.producer_id),
        )
        for state in log.active_producers.values()
        if state.txn_first_offset is not None
    ]
    return tuple(sorted(found, key=lambda one: one.first_offset))


def _told(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return str(error)
