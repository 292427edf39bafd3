"""One segment of a log, rewritten: a task that can be shipped, and its answer.

The log is read window by window. As long as nothing changes, nothing is written; at the first window that
does, what came before is copied. The new segment is complete and on the disk, as `.cleaned` files in a
directory of the attempt's own, when the task answers, with the time of the old one and its aborted
transactions. Memory: a window and what it decompresses to.

A task without a staging directory only counts: that is the plan.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidelog.config import LogConfig
from tidelog.errors import CorruptRecordError, RecordTooLargeError
from tidelog.index import AbortedTxn, TimeIndex
from tidelog.records.batches import BatchTable, Column, first_disorder
from tidelog.records.windows import Window, read_windows
from tidelog.rewriting.batches import BatchEditor, EditedWindow, EditStats, Needed
from tidelog.rewriting.edits import Edits
from tidelog.segment import ActiveSegment
from tidelog.storage import Directory, FileSystem
from tidelog.storage.files import make_directories, parent
from tidelog.storage.names import MAPPED_INDEXES, SEGMENT_FILES, FileKind, Transient, format_segment_file
from tidelog.storage.reading import FileReader

__all__ = ["MOST_RANGES", "SegmentDone", "SegmentTask", "digest", "rewrite_segment"]

MOST_RANGES = 10_000
"""How many ranges of offsets a segment tells; what comes after them is counted only."""

_MAX_SIZE = (1 << 31) - 1
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A segment, as a task needs to know it."""

    directory: str
    """Of the partition."""
    base_offset: int
    end_offset: int
    """Where the next one begins."""
    size: int
    """Bytes of its log."""
    mtime_ms: int
    aborted: tuple[AbortedTxn, ...]
    config: LogConfig
    needed: Needed
    staging: str | None = None
    """Where new segments are made; None: nothing is written."""
    with_digests: bool = False

    @property
    def path(self) -> str:
        """Its log."""
        return f"{self.directory}/{format_segment_file(self.base_offset, FileKind.LOG)}"


@dataclass(frozen=True, slots=True)
class SegmentDone:
    """What became of a segment, or would become of it."""

    base_offset: int
    size_before: int
    size_after: int
    stats: EditStats
    changed: bool
    offset_ranges: tuple[tuple[int, int], ...] = ()
    """The offsets that were erased or redacted, ends not included; at most `MOST_RANGES`."""
    staged: str | None = None
    """The directory with the new files; None if nothing changed."""
    digest_before: str | None = None
    digest_after: str | None = None


def rewrite_segment(
    fs: FileSystem, task: SegmentTask, edits: Edits, advance: Callable[[int], None] = lambda size: None
) -> SegmentDone:
    """Do one task. CorruptRecordError for damage: then nothing is left behind."""
    writer = _Writer(fs, task) if task.staging is not None else _Counter(fs, task)
    editor = BatchEditor(edits, task.needed, task.path)
    stats, ranges = EditStats(), _Ranges()
    try:
        for window in _windows(fs, task, task.size):
            done, seen = editor.edit(window)
            stats += seen
            if done is None:
                writer.copy(window)
            else:
                ranges.add(done.offsets)
                writer.take(window, done)
            advance(window.table.end - int(window.table.position[0]))
        staged = writer.finish()
    except BaseException:
        with suppress(OSError):
            writer.discard()
        raise
    before = after = None
    if staged is not None and task.with_digests:
        before = digest(fs, task.path)
        after = digest(
            fs, f"{staged}/{format_segment_file(task.base_offset, FileKind.LOG, Transient.CLEANED)}"
        )
    size = writer.size if writer.changed else task.size
    told = tuple(ranges.found)
    return SegmentDone(task.base_offset, task.size, size, stats, writer.changed, told, staged, before, after)


def digest(fs: FileSystem, path: str) -> str:
    """The SHA-256 of a file."""
    found, file = hashlib.sha256(), fs.open(path)
    try:
        for start in range(0, file.size(), _CHUNK):
            found.update(file.pread(_CHUNK, start))
    finally:
        file.close()
    return found.hexdigest()


def _windows(fs: FileSystem, task: SegmentTask, end: int) -> Iterator[Window]:
    """The checked batches of the log up to a position."""
    least = task.base_offset
    reader = FileReader.open(fs, task.path)
    for window in read_windows(reader, 0, end, check_crc=True, name=task.path):
        wrong = first_disorder(window.table, least, task.end_offset)
        if wrong is not None:
            row = window.table.rows[wrong]
            raise CorruptRecordError(
                "a batch whose offsets do not belong there",
                position=int(row[Column.POSITION]),
                offset=int(row[Column.BASE_OFFSET]),
                source=task.path,
            )
        least = int(window.table.last_offset[-1]) + 1
        yield window


class _Ranges:
    """Offsets as ranges."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def add(self, offsets: npt.NDArray[np.int64]) -> None:
        """Offsets that come after all before."""
        if not len(offsets) or len(self.found) > MOST_RANGES:
            return
        breaks = np.flatnonzero(np.diff(offsets) > 1)
        firsts = offsets[np.concatenate(([0], breaks + 1))]
        lasts = offsets[np.append(breaks, len(offsets) - 1)]
        most = MOST_RANGES - len(self.found)
        new = list(zip(firsts[:most].tolist(), (lasts[:most] + 1).tolist(), strict=True))
        if self.found and new and self.found[-1][1] == new[0][0]:
            new[0] = (self.found.pop()[0], new[0][1])
        self.found += new


class _Counter:
    """Counts the bytes of the new segment."""

    def __init__(self, fs: FileSystem, task: SegmentTask) -> None:
        self.fs = fs
        self.task = task
        self.changed = False
        self.size = 0

    def copy(self, window: Window) -> None:
        """A window of which all stays."""
        self.grow(window.table.end - int(window.table.position[0]))

    def take(self, window: Window, done: EditedWindow) -> None:
        """A window that was edited."""
        self.changed = True
        self.grow(len(done.data))

    def grow(self, size: int) -> None:
        """So many bytes more."""
        self.size += size
        if self.size > _MAX_SIZE:
            raise RecordTooLargeError(
                f"{self.task.path} would have more than 2^31 - 1 bytes, more than a segment can: choose a "
                "codec, or a shorter replacement"
            )

    def finish(self) -> str | None:
        """Where the new segment is."""
        return None

    def discard(self) -> None:
        """Remove what was written."""


class _Writer(_Counter):
    """Writes the new segment."""

    def __init__(self, fs: FileSystem, task: SegmentTask) -> None:
        super().__init__(fs, task)
        self._place = f"{task.staging}/{uuid.uuid4().hex}"
        self._segment: ActiveSegment | None = None

    def copy(self, window: Window) -> None:
        super().copy(window)
        if self._segment is not None:
            _append_window(self._segment, window)

    def take(self, window: Window, done: EditedWindow) -> None:
        super().take(window, done)
        if self._segment is None:
            self._segment = self._begin(int(window.table.position[0]))
        if len(done.table):
            self._segment.append(done.data, done.table)

    def _begin(self, position: int) -> ActiveSegment:
        """The new segment, with the bytes of the old one up to a position."""
        make_directories(self.fs, self._place)
        task = self.task
        segment = ActiveSegment.create(
            Directory(self._place, self.fs),
            task.base_offset,
            _with_room(task.config),
            clock=lambda: task.mtime_ms,
            transient=Transient.CLEANED,
        )
        self._segment = segment
        for window in _windows(self.fs, task, position):
            _append_window(segment, window)
        return segment

    def finish(self) -> str | None:
        if self._segment is None:
            return None
        for txn in self.task.aborted:
            self._segment.txn_index.append(txn)
        sealed = self._segment.seal()
        sealed.flush()
        for kind in (FileKind.LOG, *MAPPED_INDEXES):
            name = format_segment_file(self.task.base_offset, kind, Transient.CLEANED)
            self.fs.set_mtime(f"{self._place}/{name}", self.task.mtime_ms)
        sealed.close()
        self.fs.sync_directory(self._place)
        return self._place

    def discard(self) -> None:
        if self._segment is None:
            return
        self._segment.abandon()
        for kind in SEGMENT_FILES:
            name = format_segment_file(self.task.base_offset, kind, Transient.CLEANED)
            if self.fs.exists(f"{self._place}/{name}"):
                self.fs.unlink(f"{self._place}/{name}")
        self.fs.remove_directory(self._place)
        self.fs.sync_directory(parent(self._place))


def _append_window(segment: ActiveSegment, window: Window) -> None:
    table = window.table
    start = int(table.position[0]) - window.origin
    segment.append(window.data[start : table.end - window.origin], BatchTable(table.rows))


def _with_room(config: LogConfig) -> LogConfig:
    """The configuration with indexes that are large enough for any segment, and no preallocation."""
    entries = _MAX_SIZE // (config.index_interval_bytes + 1) + 2
    return replace(
        config,
        segment_index_bytes=max(config.segment_index_bytes, entries * TimeIndex.ENTRY_SIZE),
        preallocate=False,
    )
