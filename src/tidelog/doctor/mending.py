"""How the files of one partition would be when they are in order: worked out on a rehearsal, nothing changes.

1. A replacement (`.swap`) that is damaged is removed if the segments that it replaces are still there.
2. Loading, as a broker would do it: leftovers are finished or removed, and past the recovery point the log is
   cut at its first bad batch. Where loading fails, the next step starts from the files as they are.
3. Bad bytes that are left in a log (below the recovery point, where no broker looks) are taken out: every
   batch that reading past damage finds stays, with its offsets.
4. If something is still wrong (indexes, snapshots, leader epochs), the log is recovered from its start:
   nothing is cut any more, and every such file is made from the batches.
5. The result is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidelog.config import LogConfig
from tidelog.doctor.changes import Change, find_changes
from tidelog.doctor.disks import refuses_checkpoint
from tidelog.doctor.forecast import Start
from tidelog.errors import CorruptRecordError, TidelogError
from tidelog.layout.partitions import list_partition
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.manager.verification import Finding, Kind, verify_partition
from tidelog.records.windows import read_windows
from tidelog.scanning.soundness import Gap, Sound, survey_segment
from tidelog.scanning.tasks import NO_END
from tidelog.scanning.witness import index_bytes
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.names import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    Transient,
    format_segment_file,
    parse_segment_file,
)
from tidelog.storage.reading import FileReader

__all__ = ["Loss", "Mended", "damaged_swaps", "mend_partition", "take_out"]


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
        _drop_damaged_swaps(rehearsal, path)
        why = _load(rehearsal, path, config, start, found)
        if why is not None:
            rehearsal.close()
            rehearsal = Rehearsal(fs, follows_links=True)
            _drop_damaged_swaps(rehearsal, path)
        _clear(rehearsal, path)
        _take_out_damage(rehearsal, path, found)
        if _damage(rehearsal, path):
            _drop_unsound(rehearsal, path)
            why = _load(rehearsal, path, config, replace(start, clean=False, recovery_point=0), found)
        elif why is not None:
            why = _load(rehearsal, path, config, start, found)
        found.left = _damage(rehearsal, path)
        found.changes = tuple(find_changes(fs, rehearsal))
        found.error = why
    except (OSError, TidelogError) as error:
        found.error = str(error)
    finally:
        rehearsal.close()
    return found


def _load(rehearsal: Rehearsal, path: str, config: LogConfig, start: Start, found: Mended) -> str | None:
    """Load the log; why it cannot be loaded."""
    try:
        with start.open(rehearsal, path, config) as log:
            found.log_start_offset, found.log_end_offset = log.log_start_offset, log.log_end_offset
        return None
    except (OSError, TidelogError) as error:
        return str(error)


def damaged_swaps(fs: FileSystem, path: str) -> list[tuple[str, CorruptRecordError]]:
    """The `.swap` logs of a partition that are damaged, while the segments that they replace are still there.

    A broker puts them in place all the same.
    """
    names = [entry.name for entry in fs.list(path) if not entry.is_directory]
    logs = [file for file in map(parse_segment_file, names) if file and file.kind is FileKind.LOG]
    swaps = [file for file in logs if file.transient is Transient.SWAP]
    lowest = min((file.offset for file in swaps), default=-1)
    if not any(file.transient is Transient.NONE and file.offset == lowest for file in logs):
        return []
    found = []
    for file in swaps:
        name = f"{path}/{format_segment_file(file.offset, FileKind.LOG, Transient.SWAP)}"
        reader = FileReader.open(fs, name)
        try:
            for _ in read_windows(reader, 0, reader.size, check_crc=True, name=name):
                pass
        except CorruptRecordError as error:
            found.append((name, error))
    return found


def _drop_damaged_swaps(rehearsal: Rehearsal, path: str) -> None:
    """Remove a replacement that is damaged: what it was to replace is still there."""
    if damaged_swaps(rehearsal, path):
        for entry in rehearsal.list(path):
            if not entry.is_directory and entry.name.endswith(Transient.SWAP.value):
                rehearsal.unlink(f"{path}/{entry.name}")


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
        source = FileReader.open(rehearsal, file)
        kept = []
        for begin, end, first, last in take_out(rehearsal, file, source, base, next_base):
            if begin < 0:  # what is not kept
                found.losses.append(Loss(file, end, -begin, first, last))
            else:
                kept.append(bytes(source.read(begin, end - begin)))
        atomic_write(rehearsal, file, b"".join(kept))


def take_out(
    fs: FileSystem, file: str, source: FileReader, base_offset: int, next_base: int | None
) -> Iterator[tuple[int, int, int, int | None]]:
    """The sound runs of a log as (begin, end, first offset, end offset), and between them what is not sound
    as (-size, position, first offset that may be missing, the first that is there again).

    They are those that reading past damage finds (`scanning.soundness`).
    """
    index = file.removesuffix(FileKind.LOG.value) + FileKind.OFFSET_INDEX.value
    survey = survey_segment(
        source,
        source.size,
        floor=base_offset,
        limit=NO_END if next_base is None else next_base,
        is_last=next_base is None,
        index=index_bytes(lambda: read_file(fs, index)),
    )
    pieces: list[Sound | Gap] = sorted((*survey.sound, *survey.gaps), key=lambda piece: piece.start)
    for one in pieces:
        if isinstance(one, Gap):
            yield one.start - one.end, one.start, one.first_offset, one.end_offset
        else:
            yield one.start, one.end, one.first_offset, one.last_offset + 1
