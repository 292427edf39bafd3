"""How the files of one partition would be when they are in order: worked out on a rehearsal, nothing changes.

1. Loading, as a broker would do it: leftovers are finished or removed, and past the recovery point the log is
   cut at its first bad batch. Where loading fails, the next step starts from the files as they are.
2. Bad bytes that are left in a log (below the recovery point, where no broker looks) are taken out: every
   batch whose checksum holds stays, with its offsets.
3. If something is still wrong (indexes, snapshots, leader epochs), the log is recovered from its start:
   nothing is cut any more, and every such file is made from the batches.
4. The result is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidelog.config import LogConfig
from tidelog.doctor.changes import Change, find_changes
from tidelog.doctor.disks import refuses_checkpoint
from tidelog.doctor.forecast import Start
from tidelog.errors import ChecksumError, TidelogError
from tidelog.layout.partitions import list_partition
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.manager.verification import Finding, Kind, verify_partition
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.finding import find_batch
from tidelog.records.nesting import HEAD_BYTES, is_nested
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.names import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    parse_segment_file,
)

__all__ = ["Loss", "Mended", "mend_partition", "take_out"]

_ANY_OFFSET = 2**63 - 1
_LENGTH_AT, _OVERHEAD = 8, 12


@dataclass(frozen=True, slots=True)
class Loss:
    """Bytes of a log that a repair takes out, and the offsets that they may have held."""

    file: str
    position: int
    size: int
    offset: int
    end_offset: int | None
    """None: all from there on."""

    def __str__(self) -> str:
        """For people."""
        end = "on" if self.end_offset is None else f"to before {self.end_offset}"
        name = self.file.rpartition("/")[2]
        return f"{self.size} bytes at position {self.position} of {name} (offsets from {self.offset} {end})"


@dataclass(slots=True)
class Mended:
    """What has to change, what is lost with it, and what stays wrong all the same."""

    changes: Sequence[Change] = ()
    losses: list[Loss] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0
    left: list[Finding] = field(default_factory=list)
    error: str | None = None
    """Why the partition cannot be mended."""


def mend_partition(fs: FileSystem, path: str, config: LogConfig, start: Start) -> Mended:
    """Work out a partition's files in order."""
    found = Mended()
    rehearsal = Rehearsal(fs, follows_links=True)
    try:
        if not _load(rehearsal, path, config, start, found):
            rehearsal.close()
            rehearsal = Rehearsal(fs, follows_links=True)
        _clear(rehearsal, path)
        _take_out_damage(rehearsal, path, found)
        if _damage(rehearsal, path):
            _drop_unsound(rehearsal, path)
            _load(rehearsal, path, config, replace(start, clean=False, recovery_point=0), found)
        found.left = _damage(rehearsal, path)
        found.changes = tuple(find_changes(fs, rehearsal))
    except (OSError, TidelogError) as error:
        found.error = str(error)
    finally:
        rehearsal.close()
    return found


def _load(rehearsal: Rehearsal, path: str, config: LogConfig, start: Start, found: Mended) -> bool:
    try:
        with start.open(rehearsal, path, config) as log:
            found.log_start_offset, found.log_end_offset = log.log_start_offset, log.log_end_offset
        return True
    except (OSError, TidelogError):
        return False


def _clear(rehearsal: Rehearsal, path: str) -> None:
    """Take away files that would keep the log from being loaded."""
    epochs = f"{path}/{LEADER_EPOCH_FILE}"
    if rehearsal.exists(epochs) and refuses_checkpoint(rehearsal, epochs, 2) is not None:
        rehearsal.unlink(epochs)


def _drop_unsound(rehearsal: Rehearsal, path: str) -> None:
    """Remove the small files that are wrong: recovery makes them anew."""
    for one in _damage(rehearsal, path):
        name = one.file.removeprefix(f"{path}/")
        file = parse_segment_file(name)
        is_made = file is not None and file.kind is not FileKind.LOG
        if (name == LEADER_EPOCH_FILE or is_made) and rehearsal.exists(one.file):
            rehearsal.unlink(one.file)


def _damage(rehearsal: Rehearsal, path: str) -> list[Finding]:
    found = verify_partition(rehearsal, path).findings
    return [
        one for one in found if one.kind is Kind.DAMAGE and not one.file.endswith(PARTITION_METADATA_FILE)
    ]


def _take_out_damage(rehearsal: Rehearsal, path: str, found: Mended) -> None:
    logs = sorted({one.file for one in _damage(rehearsal, path) if one.file.endswith(FileKind.LOG.value)})
    if not logs:
        return
    bases = [one.base_offset for one in list_partition(rehearsal, path).segments]
    for file in logs:
        base = int(file.rpartition("/")[2].partition(".")[0])
        next_base = next((one for one in bases if one > base), None)
        data = memoryview(read_file(rehearsal, file))
        kept, end = [], 0
        for begin, end, first, last in take_out(data, base, next_base):
            if begin < 0:  # what is not kept
                found.losses.append(Loss(file, end, -begin, first, last))
            else:
                kept.append(data[begin:end])
        atomic_write(rehearsal, file, b"".join(kept))


def take_out(
    data: memoryview, base_offset: int, next_base: int | None
) -> Iterator[tuple[int, int, int, int | None]]:
    """The sound runs of a log as (begin, end, first offset, end offset), and between them what is not sound
    as (-size, position, first offset that may be missing, the first that is there again).

    A batch counts if its checksum holds, and its offsets follow the one before and stay below the next
    segment.
    """
    limit = _ANY_OFFSET if next_base is None else next_base
    position, expected = 0, base_offset
    bad: int | None = None
    while position < len(data):
        scan = scan_batches(data, start=position)
        table = scan.table[: _good(scan.table, expected, limit)]
        if len(table):
            if bad is not None:
                yield bad - position, bad, expected, int(table.base_offset[0])
                bad = None
            begin, position = position, table.end
            first, expected = int(table.base_offset[0]), int(table.last_offset[-1]) + 1
            yield begin, position, first, expected
            if len(table) == len(scan.table) and scan.fault is None:
                continue
        bad = position if bad is None else bad
        if len(table) < len(scan.table):  # sound, but not of this log
            position = int(scan.table[len(table) : len(table) + 1].end)
            continue
        if scan.fault is None and scan.end <= position:
            break
        position = _resume(data, position, scan.fault, expected, limit)
    if bad is not None:
        yield bad - len(data), bad, expected, next_base


def _good(table: BatchTable, expected: int, limit: int) -> int:
    """How many batches from the first on have offsets that follow."""
    if not len(table):
        return 0
    before = np.concatenate(([expected - 1], table.last_offset[:-1]))
    v2 = table.magic == 2
    wrong = (
        ((table.base_offset <= before) & v2) | (table.last_offset <= before) | (table.last_offset >= limit)
    )
    found = np.flatnonzero(wrong)
    return int(found[0]) if len(found) else len(table)


def _resume(data: memoryview, position: int, fault: Exception | None, expected: int, limit: int) -> int:
    """Where the next batch may begin: behind the bad one where its length is right, else the next found."""
    if isinstance(fault, ChecksumError) and position + _OVERHEAD <= len(data):
        length = int.from_bytes(data[position + _LENGTH_AT : position + _OVERHEAD], "big", signed=True)
        after = position + _OVERHEAD + length
        if length > 0 and after == len(data):
            return after
        if length > 0 and after < len(data):
            scan = scan_batches(data, start=after, max_batches=1)
            if len(scan.table) and expected <= int(scan.table.base_offset[0]) < limit:
                return after
    found = find_batch(data, position + 1, len(data), range(expected, limit))
    while found is not None:
        chain = scan_batches(data, start=found).table
        if not is_nested(
            lambda at: bytes(data[at : at + HEAD_BYTES]),
            position,
            range(found, chain.end),
            expected,
            range(int(chain.base_offset[0]), int(chain.last_offset[-1]) + 1),
            lambda at: _goes_on(data, at, range(expected, limit)),
        ):
            return found
        found = find_batch(data, chain.end, len(data), range(expected, limit))
    return len(data)


def _goes_on(data: memoryview, position: int, offsets: range) -> bool:
    """Whether the log ends at a position, or a sound batch of it begins there."""
    if position >= len(data):
        return position == len(data)
    table = scan_batches(data, start=position, max_batches=1).table
    return bool(len(table)) and int(table.base_offset[0]) in offsets
