"""Offset and time indexes: their entries, and whether they fit the log, in the words of kafka-dump-log.

1. Entries are those up to the first empty one: a file that was preallocated continues with zeros.
2. The log's batch headers are read once; each entry is compared with the batch that it points to.
3. What does not fit is listed on standard error, and is an InvalidIndexError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidelog.cli.render.output import Column, Output
from tidelog.cli.render.small_files import Listing, show
from tidelog.errors import CorruptRecordError, InvalidIndexError
from tidelog.index import OffsetIndex, TimeIndex
from tidelog.records import BatchTable, scan_batches
from tidelog.records.windows import read_windows
from tidelog.storage import LOCAL, Directory, FileReader, read_file
from tidelog.storage.names import FileKind, SegmentFileName, format_segment_file

__all__ = ["IndexChecks", "dump_index"]

Int64s = npt.NDArray[np.int64]

_OFFSETS = (Column("offset", "offset", right=True), Column("position", "position", right=True))
_TIMES = (Column("timestamp", "timestamp", right=True), Column("offset", "offset", right=True))


@dataclass(frozen=True, slots=True)
class IndexChecks:
    """What to do with an index: only look whether it is sound, or fits the log, or show its entries too."""

    sanity_only: bool = False
    verify_only: bool = False


def dump_index(path: Path, name: SegmentFileName, checks: IndexChecks, out: Output) -> None:
    """Show an index, and compare it with its log. Raises InvalidIndexError if it does not fit."""
    kind = OffsetIndex if name.kind is FileKind.OFFSET_INDEX else TimeIndex
    directory = Directory(str(path.absolute().parent))
    index = kind.from_bytes(directory, name.offset, read_file(LOCAL, path), name.transient)
    if isinstance(index, OffsetIndex) and not path.stat().st_size:
        out.say(f"{path} is empty.")
        return
    if checks.sanity_only:
        index.sanity_check()
        out.say(f"{path} passed sanity check.")
        return
    keys, values = index.entries_array()
    keys, values = _used(index, keys, values)
    if not checks.verify_only:
        columns = _OFFSETS if isinstance(index, OffsetIndex) else _TIMES
        show(Listing(columns, zip(keys.tolist(), values.tolist(), strict=True)), out)
    if len(keys) == 1 and not any(path.read_bytes()[: index.ENTRY_SIZE]):
        out.warn(f"{path} is preallocated and has no entries yet")
        return
    batches = _log_batches(path, name.offset, out)
    if batches is None:
        return
    if isinstance(index, OffsetIndex):
        faults = _offset_faults(path, keys, values, batches)
    else:
        faults = _time_faults(path, keys, values, batches)
    _tell(path, list(faults), out)


def _used(index: OffsetIndex | TimeIndex, keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    """The entries before the zeros of a preallocated file."""
    offsets = keys if isinstance(index, OffsetIndex) else values
    empty = np.flatnonzero(offsets == index.base_offset)
    empty = empty[empty > 0]
    end = int(empty[0]) if len(empty) else len(offsets)
    return keys[:end], values[:end]


def _log_batches(path: Path, base_offset: int, out: Output) -> BatchTable | None:
    """The headers of the segment's log, as far as it is sound; None without one."""
    log = path.with_name(format_segment_file(base_offset, FileKind.LOG))
    if not log.is_file():
        out.warn(f"{log} is not there: the entries of {path} are not compared with it")
        return None
    rows = [scan_batches(b"").table.rows]
    try:
        reader = FileReader.open(LOCAL, log)
        for _, _, table in read_windows(reader, 0, reader.size, name=str(log)):
            rows.append(table.rows)
    except CorruptRecordError as error:
        out.warn(f"{error}: entries past it are not compared")
    return BatchTable(np.concatenate(rows))


@dataclass(frozen=True, slots=True)
class _Faults:
    """Entries with the same thing wrong: what, then a line each."""

    heading: str
    lines: Sequence[str]


def _offset_faults(path: Path, offsets: Int64s, positions: Int64s, batches: BatchTable) -> Iterator[_Faults]:
    """Entries that point to no batch, or to one that ends with another offset."""
    at = np.searchsorted(batches.position, positions)
    there = at < len(batches)
    at = np.where(there, at, 0)
    hit = there & (batches.position[at] == positions) if len(batches) else np.zeros(len(at), np.bool_)
    last = batches.last_offset[at] if len(batches) else np.zeros(len(at), np.int64)
    wrong = np.flatnonzero(~hit | (last != offsets))
    yield _Faults(
        f"Mismatches in :{path.absolute()}",
        [
            f"  Index offset: {offsets[i]}, log offset: {last[i] if hit[i] else 'none at this position'}"
            for i in wrong[::-1].tolist()
        ],
    )


def _time_faults(path: Path, times: Int64s, offsets: Int64s, batches: BatchTable) -> Iterator[_Faults]:
    """Entries whose offset ends no batch, whose batch has another largest timestamp, or that go back."""
    at = np.searchsorted(batches.last_offset, offsets)
    there = at < len(batches)
    safe = np.where(there, at, 0)
    last = np.where(there, batches.last_offset[safe], -1) if len(batches) else np.full(len(at), -1)
    newest = batches.max_timestamp[safe] if len(batches) else np.full(len(at), -1)
    found = last == offsets
    name = path.absolute()
    wrong = np.flatnonzero(found & (newest != times)).tolist()
    yield _Faults(
        f"Found timestamp mismatch in :{name}",
        [f"  Index timestamp: {times[i]}, log timestamp: {newest[i]}" for i in wrong],
    )
    back = (np.flatnonzero(found[1:] & (times[1:] <= times[:-1])) + 1).tolist()
    yield _Faults(
        f"Found out of order timestamp in :{name}",
        [f"  Index timestamp: {times[i]}, Previously indexed timestamp: {times[i - 1]}" for i in back],
    )
    lost = np.flatnonzero(~found).tolist()
    yield _Faults(
        f"The following indexed offsets are not found in :{name}",
        [f"Indexed offset: {offsets[i]}, found log offset: {last[i]}" for i in lost],
    )


def _tell(path: Path, faults: Sequence[_Faults], out: Output) -> None:
    count = 0
    for one in faults:
        if one.lines:
            out.warn(one.heading)
            for line in one.lines:
                out.warn(line)
        count += len(one.lines)
    if count:
        raise InvalidIndexError(
            f"{path} has {count} entries that do not fit its log: rebuild it with tidelog reindex"
        )
