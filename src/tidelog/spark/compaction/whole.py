"""Partitions that a task compacts whole: the local cleaner, on copies outside of the root.

Sealed segments are links in a copy (they are never written), the rest is copied. An attempt that runs again
makes other copies. Small partitions share a task, and its map of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tidelog.cleanup.cleaner import CleanReport, LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.config import LogConfig
from tidelog.errors import CorruptRecordError, InvalidIndexError, InvalidInputError
from tidelog.layout.partitions import list_partition
from tidelog.log import Log
from tidelog.manager.store.partition import Partition
from tidelog.segment import Segment
from tidelog.spark.compaction.staged_segments import own_name, swap_in
from tidelog.spark.runtime.jobs import Bin
from tidelog.storage import LOCAL
from tidelog.storage.names import (
    MAPPED_INDEXES,
    SEGMENT_FILES,
    FileKind,
    Transient,
    format_segment_file,
    parse_segment_file,
)
from tidelog.storage.scratch import copy_file, link_or_copy

__all__ = ["WholeDone", "WholeSplit", "WholeWork", "put_in_place"]

_OPENING_BYTES = 1 << 20
"""To open a partition costs about as much as to compact so many bytes."""


@dataclass(frozen=True, slots=True)
class WholeSplit:
    """A partition to be compacted, as a task needs to know it."""

    directory: str
    config: Mapping[str, str]
    log_start_offset: int
    high_watermark: int
    first_dirty_offset: int
    upper_bound: int
    active_base_offset: int
    now_ms: int
    size_bytes: int

    @property
    def size(self) -> int:
        """What it costs, in bytes."""
        return self.size_bytes + _OPENING_BYTES


@dataclass(frozen=True, slots=True)
class WholeDone:
    """What became of a partition, and where its copy is."""

    staged: str
    report: CleanReport


@dataclass(frozen=True, slots=True)
class WholeWork:
    """Compacts copies."""

    staging: str
    dedupe_bytes: int
    load_factor: float

    def __call__(self, number: int, splits: Bin[WholeSplit]) -> list[WholeDone]:
        """Compact one partition's copy after the other."""
        keys = OffsetMap(self.dedupe_bytes, self.load_factor)
        return [self._compact(n, split, keys) for n, split in enumerate(splits.items, splits.first)]

    def _compact(self, number: int, split: WholeSplit, keys: OffsetMap) -> WholeDone:
        source = Path(split.directory)
        copy = own_name(self.staging, number) / source.name
        for directory in (copy.parent, copy):  # not staging itself: it is gone if the job is over
            directory.mkdir()
        _copy(source, copy, split.active_base_offset)
        try:
            report = _clean(copy, split, keys)
        except (CorruptRecordError, InvalidIndexError, InvalidInputError) as error:
            _name_original(error, str(copy), str(source))
            raise
        return WholeDone(str(copy), report)


def _clean(copy: Path, split: WholeSplit, keys: OffsetMap) -> CleanReport:
    log = Log.open(
        copy,
        LogConfig.from_properties(split.config),
        clean=True,
        log_start_offset=split.log_start_offset,
        high_watermark=split.high_watermark,
    )
    with log:
        return clean_log(
            log,
            LocalPasses(keys),
            first_dirty_offset=split.first_dirty_offset,
            upper_bound=split.upper_bound,
            now_ms=split.now_ms,
        )


def _name_original(error: Exception, copy: str, source: str) -> None:
    """Have an error about bytes name the file that was copied: the copy is gone when it is read."""
    error.args = tuple(one.replace(copy, source) if isinstance(one, str) else one for one in error.args)
    if isinstance(error, CorruptRecordError) and error.source is not None:
        error.source = error.source.replace(copy, source)


def _copy(source: Path, target: Path, active_base_offset: int) -> None:
    """A partition's files: links to those of sealed segments, copies of all others."""
    for path in source.iterdir():
        file = parse_segment_file(path.name)
        if file is not None and file.transient is not Transient.NONE:
            continue
        if file is not None and file.kind in SEGMENT_FILES and file.offset < active_base_offset:
            link_or_copy(path, target / path.name)
        elif file is not None and file.kind in MAPPED_INDEXES:
            (target / path.name).touch()  # of the segment that is being written: preallocated; made anew
        elif path.is_file():
            copy_file(path, target / path.name)


def put_in_place(partition: Partition, staged: Path) -> None:
    """Put the segments of a copy that are new in the place of those that they stand for, oldest first.

    A new segment stands for those from its base offset on up to where the copy's next one begins. Where the
    log has none that begins there, it holds what was split off the one before, and maybe more: both are put
    in place together, or records would be in neither in the meantime.
    """
    log = partition.log
    places: list[tuple[list[int], list[Segment]]] = []
    for base, end in _new(staged, Path(log.path), log.segments.last.base_offset):
        old = [one for one in log.segments if base <= one.base_offset < end]
        if base in log.segments or not places:
            places.append(([base], old))
        else:
            places[-1][0].append(base)
            places[-1][1].extend(old)
    for bases, old in places:
        with partition.gate:
            swap_in(log, staged, bases, old, Transient.NONE)


def _new(staged: Path, live: Path, active: int) -> list[tuple[int, int]]:
    """The sealed segments of a copy that are not links to the log's own, and where the next ones begin."""
    bases = [one.base_offset for one in list_partition(LOCAL, str(staged)).segments]
    return [
        (base, end)
        for base, end in pairwise(bases)
        if base < active and not _is_same(format_segment_file(base, FileKind.LOG), staged, live)
    ]


def _is_same(name: str, staged: Path, live: Path) -> bool:
    return (live / name).exists() and (staged / name).samefile(live / name)
