"""What a stock broker's loader will do with a log: the real loading, rehearsed in memory.

1. The log is opened on a file system that keeps every change to itself (`manager.upkeep.rehearsal`), clean or
   as after a crash, with the root's checkpoints, and with Kafka's rules for what is below the recovery point.
2. What it holds then is noted: offsets, open transactions, the segments that retention will delete first, the
   times of records.
3. It is closed, and the files that differ are the forecast.

Memory: one segment, as the rehearsal has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidelog.cleanup import RetentionPlan, plan_retention
from tidelog.config import LogConfig
from tidelog.doctor.changes import Change, find_changes
from tidelog.errors import TidelogError, TornBatchError
from tidelog.layout.partitions import list_partition
from tidelog.log import Log
from tidelog.manager.upkeep.cuts import why_cut
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.records.batches import scan_batches
from tidelog.storage import FileSystem, read_file
from tidelog.storage.names import FileKind, format_segment_file

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
    """Whether it has been silent for longer than any may take: nobody will end it."""


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
    rehearsal = Rehearsal(fs)
    read = [0]

    def recovered(size: int) -> None:
        read[0] += size

    try:
        return _rehearse(fs, rehearsal, path, config, start, recovered, read)
    except (OSError, TidelogError) as error:
        whole = _taken_as_it_is(fs, path, config, start) if start.clean else None
        return whole or Forecast(recovered_bytes=read[0], error=_told(error))
    finally:
        rehearsal.close()


def _taken_as_it_is(fs: FileSystem, path: str, config: LogConfig, start: Start) -> Forecast | None:
    """What a broker makes of a log that was closed cleanly and yet ends in damage; None if it fails, too.

    It walks the last segment from the last index entry on, checks no checksum, and leaves a torn batch alone.
    """
    rehearsal = Rehearsal(fs)
    try:
        last = list_partition(fs, path).segments[-1]
        name = format_segment_file(last.base_offset, FileKind.OFFSET_INDEX)
        index = np.frombuffer(read_file(fs, f"{path}/{name}")[-8:], ">u4")
        log_file = f"{path}/{last.log_name}"
        data = read_file(fs, log_file)
        position = int(index[1]) if len(index) == 2 else 0
        scan = scan_batches(data, start=min(position, len(data)), check_crc=False)
        if scan.fault is not None and not isinstance(scan.fault, TornBatchError):
            return None
        cut = rehearsal.open(log_file, writable=True)
        cut.truncate(scan.end)
        found = _rehearse(fs, rehearsal, path, config, start, lambda size: None, [0])
        return replace(found, changes=[one for one in found.changes if one.path != log_file], cause=None)
    except (OSError, TidelogError, IndexError):
        return None
    finally:
        rehearsal.close()


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
    log.update_high_watermark(log.log_end_offset)
    transactions = _transactions(log, start)
    begin, end, stable = log.log_start_offset, log.log_end_offset, log.last_stable_offset
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
            start.now_ms - state.last_timestamp > limit_ms,
        )
        for state in log.active_producers.values()
        if state.txn_first_offset is not None
    ]
    return tuple(sorted(found, key=lambda one: one.first_offset))


def _told(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return str(error)
