"""What recovery would leave of a log, found by reading it; nothing is changed.

The batches from the recovery point's segment on are checked as recovery checks them. The first bad one ends
the log: its segment would be cut there, and later ones would go. A replacement of segments that a crash cut
short would be finished first; what comes of that is not foreseen, and told as an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.errors import CorruptRecordError, InvalidIndexError, LogError
from tidelog.log.producers.markers import read_markers
from tidelog.records.batches import BatchTable
from tidelog.records.windows import Window, read_windows
from tidelog.storage import FileReader, FileSystem
from tidelog.storage.files import LARGEST_READ
from tidelog.storage.names import FileKind, Transient, parse_segment_file
from tidelog.types import LARGEST_OFFSET

__all__ = ["RecoveryPlan", "plan_recovery"]

_RUN = 4096


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What would be left."""

    segments: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    cause: str | None
    """Why something would be cut off; None where nothing would."""


def plan_recovery(
    fs: FileSystem, path: str, *, recovery_point: int, log_start_offset: int = 0
) -> RecoveryPlan:
    """Read a log from its recovery point on; an error where recovery would end in one, or is not foreseen."""
    if log_start_offset >= LARGEST_OFFSET:
        log_start_offset = 0
    bases: dict[int, str] = {}
    for entry in fs.list(path):
        file = parse_segment_file(entry.name)
        if file is None or file.kind is not FileKind.LOG:
            continue
        if file.transient is Transient.SWAP:
            raise LogError(f"{path}/{entry.name} is of a replacement that would be finished first")
        if file.transient is Transient.NONE:
            bases[file.offset] = f"{path}/{entry.name}"
    if not bases:
        return RecoveryPlan(1, 0, log_start_offset, log_start_offset, None)
    ordered = sorted(bases)
    first = max((base for base in ordered if base <= recovery_point), default=ordered[0])
    size, end, cause, left = 0, ordered[0], None, 0
    for base in ordered:
        left += 1
        if base < first:
            size += fs.stat(bases[base]).size
            continue
        sound = _Sound(fs, bases[base], base)
        size += sound.size
        end, cause = sound.end_offset, sound.cause
        if cause is not None:
            break
    start = max(log_start_offset, ordered[0])
    if end < start:
        return RecoveryPlan(1, 0, start, start, "the log ends below its start, and would be emptied")
    return RecoveryPlan(left, size, start, end, cause)


class _Sound:
    """How far a segment is sound."""

    def __init__(self, fs: FileSystem, path: str, base_offset: int) -> None:
        self.size = 0
        self.end_offset = base_offset
        self.cause: str | None = None
        log = FileReader.open(fs, path)
        if log.size > LARGEST_READ:
            raise InvalidIndexError(f"{path} has {log.size} bytes: no segment has more than {LARGEST_READ}")
        windows = read_windows(log, 0, log.size, check_crc=True, max_batches=_RUN, name=path)
        while self.cause is None:
            try:
                window = next(windows, None)
            except CorruptRecordError as error:
                self.cause = str(error)
                return
            if window is None:
                return
            self._take(window, path)

    def _take(self, window: Window, path: str) -> None:
        """Take in sound batches; recovery looks into those that end transactions."""
        table = self._readable(window, path)
        if not len(table):
            return
        last = table.last_offset
        goes_back = last[1:] <= last[:-1]
        if last[0] < self.end_offset or goes_back.any():
            raise CorruptRecordError("an offset is not larger than the one before it", source=path)
        self.size = table.end
        self.end_offset = int(last[-1]) + 1

    def _readable(self, window: Window, path: str) -> BatchTable:
        data, origin, table = window
        try:
            read_markers(data, table, origin=origin, source=path)
        except CorruptRecordError as error:
            self.cause = str(error)
            whole = int((table.position <= (error.position or 0)).sum())
            return table[:whole]
        return table
