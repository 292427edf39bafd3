"""One segment: its batches, and its indexes against them.

Log. Every batch is whole, its checksum right, its offsets grow and lie in [base offset, next segment's base).

Offset index (offset, position). Offsets and positions grow; a batch begins at the position, and its base
offset is not above the entry's: whoever looks for that offset or a later one and starts there misses nothing.
(Entries that old versions wrote for a whole append may name an offset after the batch.)

Time index (timestamp, offset). Both grow; the batch that holds the offset has that largest timestamp, and no
batch before it a larger one: whoever looks for a later time and starts there misses nothing.

Transaction index. Entries are whole, versions known, last offsets grow; where the log has a batch at the last
offset, it is a marker of that producer. A transaction that was aborted here, with data in this segment, has
an entry: without one its data would be read as committed.

The last segment's indexes may be preallocated: zeros at their end are no entries. After damage in the log,
only what comes before it is compared. Of one segment, so many findings are told; the rest is counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptRecordError
from tidelog.log.producers.markers import read_markers
from tidelog.manager.verification.findings import UNREADABLE, Finding, Kind, told
from tidelog.records import decode_batches
from tidelog.records.batches import BatchTable
from tidelog.records.windows import read_windows
from tidelog.scanning.changes import was_changed
from tidelog.storage import FileReader, FileSystem, read_file
from tidelog.storage.files import LARGEST_READ
from tidelog.storage.names import FileKind, SegmentFileName

__all__ = ["CheckedSegment", "SegmentPlace", "verify_segment"]

MAX_FINDINGS = 1000
"""Findings that are told of one segment."""

_RUN = 1 << 16
_TRIES = 5
"""Looks at a log that is written in the meantime."""

OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
TXN_ENTRY = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A segment's files: where they are, which there are, and where the next segment begins (None: last)."""

    directory: str
    base_offset: int
    kinds: frozenset[FileKind]
    next_base: int | None
    size: int
    """Bytes of the log."""

    @property
    def is_last(self) -> bool:
        """Whether it is the log's last segment."""
        return self.next_base is None

    def path(self, kind: FileKind) -> str:
        """One of its files."""
        return f"{self.directory}/{SegmentFileName(self.base_offset, kind)}"


@dataclass(slots=True)
class CheckedSegment:
    """What the sound part of a log file holds, batch by batch, and what was found."""

    base_offset: int
    size: int
    sound: int
    """How many bytes are sound."""
    position: Int64s
    first: Int64s
    last: Int64s
    timestamp: Int64s
    epoch: Int64s
    producer: Int64s
    control: npt.NDArray[np.bool_]
    in_transaction: npt.NDArray[np.bool_]
    """Batches that hold records of a transaction."""
    aborts: Int64s
    """Where the markers lie that abort transactions: indices of batches."""
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        table: BatchTable,
        aborts: Int64s,
        base_offset: int,
        size: int,
        sound: int,
        findings: list[Finding],
    ) -> CheckedSegment:
        """The facts of a table of a log's batches, some of which abort transactions."""
        return cls(
            base_offset,
            size,
            sound,
            table.position,
            table.base_offset,
            table.last_offset,
            table.max_timestamp,
            table.leader_epoch,
            table.producer_id,
            table.is_control,
            table.is_transactional & ~table.is_control & (table.count > 0),
            aborts,
            findings,
        )

    @property
    def epoch_starts(self) -> dict[int, int]:
        """The first offset of each leader epoch."""
        epochs, firsts = np.unique(self.epoch, return_index=True)
        return dict(zip(epochs.tolist(), self.first[firsts].tolist(), strict=True))

    @property
    def next_offset(self) -> int:
        """The offset after the last sound batch."""
        return int(self.last[-1]) + 1 if len(self.last) else self.base_offset


def verify_segment(
    fs: FileSystem, place: SegmentPlace, *, deep: bool = False, known: BatchTable | None = None
) -> CheckedSegment:
    """Check a segment; `known` are all of its batches where they were scanned before, and are sound."""
    facts = _verify_log(fs, place, deep, known)
    findings = islice(_verify_indexes(fs, place, facts), MAX_FINDINGS + 1)
    facts.findings = [*facts.findings, *findings][: MAX_FINDINGS + 1]
    if len(facts.findings) > MAX_FINDINGS:
        log = place.path(FileKind.LOG)
        facts.findings[-1] = Finding(
            Kind.DAMAGE, log, f"more than {MAX_FINDINGS} places are damaged; the rest are not listed"
        )
    return facts


def _verify_indexes(fs: FileSystem, place: SegmentPlace, facts: CheckedSegment) -> Iterator[Finding]:
    for kind, check in CHECKS.items():
        path = place.path(kind)
        if kind in place.kinds:
            try:
                data = read_file(fs, path)
            except UNREADABLE as error:
                yield Finding(Kind.DAMAGE, path, told(error))
                continue
            yield from check(data, path, facts, place.is_last)
        elif kind is FileKind.TXN_INDEX:  # made at the first abort
            yield from check(b"", path, facts, place.is_last)
        else:
            yield Finding(Kind.DAMAGE, path, "the index is missing")


# ---- the log


def _verify_log(fs: FileSystem, place: SegmentPlace, deep: bool, known: BatchTable | None) -> CheckedSegment:
    path = place.path(FileKind.LOG)
    try:
        log = FileReader.open(fs, path)
        end = min(log.size, LARGEST_READ)
        found = (
            LogScan(known, _known_aborts(log, known)) if known is not None else _scan_steadily(fs, path, deep)
        )
    except UNREADABLE as error:
        unread = Finding(Kind.DAMAGE, path, told(error), 0, place.base_offset, place.next_base)
        no_aborts = np.empty(0, np.int64)
        return CheckedSegment.of(BatchTable.joined(()), no_aborts, place.base_offset, place.size, 0, [unread])
    facts = _facts(place, found, end)
    if log.size > end:
        cause = f"it has {log.size} bytes: no segment has more than {LARGEST_READ}"
        too_large = Finding(Kind.DAMAGE, path, cause, LARGEST_READ, place.base_offset, place.next_base)
        facts.findings = [too_large, *facts.findings]
    return facts


def _scan_steadily(fs: FileSystem, path: str, deep: bool) -> LogScan:
    """All of a log; once more where its writer has changed it in the meantime."""
    for tries in range(_TRIES):
        log = FileReader.open(fs, path)
        found = scan_log(log, 0, min(log.size, LARGEST_READ), path, deep)
        if found.fault is None or tries == _TRIES - 1:
            break
        if not was_changed(path, log, found.fault, time.time_ns(), partial(FileReader.open, fs, path)):
            break
    return found


def _facts(place: SegmentPlace, found: LogScan, size: int) -> CheckedSegment:
    path, table, fault = place.path(FileKind.LOG), found.table, found.fault
    findings = list(islice(bad_offsets(table, path, place.base_offset, place.next_base), MAX_FINDINGS))
    if fault is not None:
        following = int(table.last_offset[-1]) + 1 if len(table) else place.base_offset
        findings.append(
            Finding(Kind.DAMAGE, path, fault.reason, fault.position, following, end_offset=place.next_base)
        )
    if fault is not None:
        size = max(size, fault.position)
    elif len(table):
        size = max(size, table.end)  # it has grown since
    sound = fault.position if fault is not None else size
    return CheckedSegment.of(table, found.aborts, place.base_offset, size, sound, findings)


@dataclass(frozen=True, slots=True)
class LogScan:
    """The sound batches of a log, those of them that abort transactions (indices), and what ended them."""

    table: BatchTable
    aborts: Int64s
    fault: CorruptRecordError | None = None


def scan_log(log: FileReader, start: int, end: int, path: str, deep: bool) -> LogScan:
    """The sound batches of bytes [start, end) of a log from `start` on."""
    tables: list[BatchTable] = []
    aborts: list[Int64s] = []
    count, fault = 0, None
    try:
        for data, origin, table in read_windows(log, start, end, check_crc=True, max_batches=_RUN, name=path):
            sound, error = _decodable(data, origin, table, path) if deep else (table, None)
            if len(sound):
                tables.append(sound)
                aborts.append(_aborts(data, origin, sound) + count)
                count += len(sound)
            if error is not None:
                raise error
    except CorruptRecordError as error:
        fault = error
    found = BatchTable.joined(table.rows for table in tables)
    return LogScan(found, np.concatenate(aborts) if aborts else np.empty(0, np.int64), fault)


def _aborts(data: memoryview, origin: int, table: BatchTable) -> Int64s:
    try:
        markers = read_markers(data, table, origin=origin)
    except CorruptRecordError:  # a marker that says neither is not an index's fault
        return np.empty(0, np.int64)
    return np.array([index for index, marker in markers.items() if marker.is_abort], np.int64)


def _known_aborts(log: FileReader, table: BatchTable) -> Int64s:
    """The same of batches that are known: only control batches are read."""
    found = [np.empty(0, np.int64)]
    for index in np.flatnonzero(table.is_control & (table.producer_id >= 0)).tolist():
        position, size = table.rows[index, :2].tolist()
        data = log.read(position, size)
        if len(data) == size:
            found.append(_aborts(data, position, table[index : index + 1]) + index)
    return np.concatenate(found)


def _decodable(
    data: memoryview, origin: int, table: BatchTable, path: str
) -> tuple[BatchTable, CorruptRecordError | None]:
    """The batches before the first that does not decode, and what is wrong with that one."""
    for index, batch in enumerate(table):
        try:
            decode_batches(
                data, batch, columns=("offset", "key", "value", "headers"), origin=origin, source=path
            )
        except CorruptRecordError as error:
            return table[:index], error
    return table, None


def bad_offsets(table: BatchTable, path: str, base_offset: int, next_base: int | None) -> Iterator[Finding]:
    """Batches whose offsets are not above those before, or reach into the next segment."""
    if not len(table):
        return
    before = np.concatenate(([base_offset - 1], table.last_offset[:-1]))
    v2 = table.magic == 2  # a compressed wrapper of old has the offset of its last message
    for index in np.flatnonzero((table.base_offset <= before) & v2):
        yield Finding(
            Kind.DAMAGE,
            path,
            f"offset {table.base_offset[index]} is not above the one before it ({before[index]})",
            int(table.position[index]),
            int(table.base_offset[index]),
            int(table.last_offset[index]) + 1,
        )
    if next_base is not None and table.last_offset[-1] >= next_base:
        yield Finding(
            Kind.DAMAGE,
            path,
            f"it reaches to offset {table.last_offset[-1]}, but the next segment begins at {next_base}",
            int(table.position[-1]),
            next_base,
            int(table.last_offset[-1]) + 1,
        )


# ---- indexes


def _entries(
    data: bytes, dtype: np.dtype[np.void], path: str, last: bool
) -> tuple[npt.NDArray[np.void], list[Finding]]:
    """The entries of an index file; zeros at its end are none where it may be preallocated."""
    findings = []
    whole = len(data) // dtype.itemsize * dtype.itemsize
    if whole < len(data):
        cause = f"{len(data)} bytes are not a number of {dtype.itemsize}-byte entries"
        findings.append(Finding(Kind.DAMAGE, path, cause, whole))
    entries = np.frombuffer(data, dtype, count=whole // dtype.itemsize)
    used = np.flatnonzero(entries.view((np.void, dtype.itemsize)) != np.void(bytes(dtype.itemsize)))
    count = int(used[-1]) + 1 if len(used) else 0
    if count < len(entries):
        kind = Kind.NOTE if last else Kind.DAMAGE
        cause = f"{len(entries) - count} empty entries at the end: it was never trimmed"
        findings.append(Finding(kind, path, cause, count * dtype.itemsize))
    return entries[:count], findings


def _offset_index(data: bytes, path: str, facts: CheckedSegment, last: bool) -> Iterator[Finding]:
    entries, findings = _entries(data, OFFSET_ENTRY, path, last)
    yield from findings
    offsets = entries["offset"].astype(np.int64) + facts.base_offset
    positions = entries["position"].astype(np.int64)
    yield from _not_growing(offsets, path, OFFSET_ENTRY.itemsize, "offset", offsets)
    yield from _not_growing(positions, path, OFFSET_ENTRY.itemsize, "position", offsets)
    batch = np.minimum(np.searchsorted(facts.position, positions), max(len(facts.position) - 1, 0))
    compared = np.flatnonzero(positions < facts.sound) if len(facts.position) else np.empty(0, np.int64)
    astray = facts.position[batch[compared]] != positions[compared]
    late = facts.first[batch[compared]] > offsets[compared]
    for index in compared[astray | late].tolist():
        entry = f"entry ({offsets[index]}, {positions[index]})"
        cause = f"{entry}: no batch begins there"
        if facts.position[batch[index]] == positions[index]:
            cause = f"{entry}: the batch there begins at offset {facts.first[batch[index]]}"
        yield Finding(Kind.DAMAGE, path, cause, index * OFFSET_ENTRY.itemsize, int(offsets[index]))
    if facts.sound == facts.size:
        for index in np.flatnonzero(positions >= facts.size)[:1]:
            cause = f"entry ({offsets[index]}, {positions[index]}) lies past the log's end"
            yield Finding(Kind.DAMAGE, path, cause, int(index) * OFFSET_ENTRY.itemsize, int(offsets[index]))


def _time_index(data: bytes, path: str, facts: CheckedSegment, last: bool) -> Iterator[Finding]:
    entries, findings = _entries(data, TIME_ENTRY, path, last)
    yield from findings
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64) + facts.base_offset
    yield from _not_growing(times, path, TIME_ENTRY.itemsize, "timestamp", offsets)
    where = np.searchsorted(facts.last, offsets)
    beyond = np.flatnonzero(where >= len(facts.last))
    count = int(beyond[0]) if len(beyond) else len(offsets)
    batch, held = where[:count], offsets[:count]
    largest = np.maximum.accumulate(facts.timestamp)[batch] if count else held
    hides = (largest > times[:count]) & (facts.last[batch] <= held)
    wrong = (facts.timestamp[batch] != times[:count]) & (facts.first[batch] <= held)
    for index in np.flatnonzero(hides | wrong).tolist():
        cause = f"entry ({times[index]}, {offsets[index]}): "
        if hides[index]:
            cause += f"there is a later time before it, {largest[index]}"
        else:
            cause += f"the batch there has {facts.timestamp[batch[index]]}"
        yield Finding(Kind.DAMAGE, path, cause, index * TIME_ENTRY.itemsize, int(offsets[index]))
    if len(beyond) and facts.sound == facts.size:
        cause = f"entry ({times[count]}, {offsets[count]}) lies past the log's end"
        yield Finding(Kind.DAMAGE, path, cause, count * TIME_ENTRY.itemsize, int(offsets[count]))


def _txn_index(data: bytes, path: str, facts: CheckedSegment, last: bool) -> Iterator[Finding]:
    size = TXN_ENTRY.itemsize
    whole = len(data) // size
    if whole * size < len(data):
        cause = f"{len(data)} bytes are not a number of {size}-byte entries"
        yield Finding(Kind.DAMAGE, path, cause, whole * size)
    entries = np.frombuffer(data, TXN_ENTRY, count=whole)
    lasts = entries["last"].astype(np.int64)
    yield from _not_growing(lasts, path, size, "last offset", lasts)
    where = np.searchsorted(facts.last, lasts)
    for index, entry in enumerate(entries):
        at, batch, end = index * size, int(where[index]), int(lasts[index])
        if entry["version"] != 0:
            yield Finding(Kind.DAMAGE, path, f"entry of the unknown version {entry['version']}", at, end)
        elif not entry["first"] <= end:
            yield Finding(Kind.DAMAGE, path, f"a transaction from {entry['first']} to {end}", at, end)
        elif batch < len(facts.last) and facts.first[batch] <= end <= facts.last[batch]:
            if not facts.control[batch] or facts.producer[batch] != entry["producer"]:
                cause = f"there is no marker of producer {entry['producer']} at offset {end}"
                yield Finding(Kind.DAMAGE, path, cause, at, end)
        elif facts.sound == facts.size and end >= facts.next_offset:
            yield Finding(
                Kind.DAMAGE, path, f"the entry's last offset {end} lies past the log's end", at, end
            )

    for batch in facts.aborts[~np.isin(facts.last[facts.aborts], lasts)].tolist():
        if _has_data(facts, batch):
            end, producer = int(facts.last[batch]), facts.producer[batch]
            cause = f"no entry for the transaction of producer {producer} that was aborted at offset {end}"
            yield Finding(Kind.DAMAGE, path, cause, None, end)


def _has_data(facts: CheckedSegment, marker: int) -> bool:
    """Whether the transaction that a marker ends has records in this segment."""
    own = facts.producer[:marker] == facts.producer[marker]
    ends = np.flatnonzero(own & facts.control[:marker])
    begin = int(ends[-1]) + 1 if len(ends) else 0
    return bool((own & facts.in_transaction[:marker])[begin:].any())


def _not_growing(values: Int64s, path: str, size: int, what: str, offsets: Int64s) -> Iterator[Finding]:
    for index in np.flatnonzero(np.diff(values) <= 0)[:1]:
        cause = f"{what} {values[index + 1]} is not above the one before it ({values[index]})"
        yield Finding(Kind.DAMAGE, path, cause, int(index + 1) * size, int(offsets[index + 1]))


CHECKS = {
    FileKind.OFFSET_INDEX: _offset_index,
    FileKind.TIME_INDEX: _time_index,
    FileKind.TXN_INDEX: _txn_index,
}
"""How each index is compared with the log: (its bytes, its path, the log's facts, is it the last segment)."""
