"""What a crash can leave in a partition's directory, and what becomes of it at the next open.

1. `.deleted` files were on their way out: they go (KRaft's own `.checkpoint.deleted` are not ours).
2. `.cleaned` files belong to a replacement that was not complete: they go, and before them every `.swap` file
   at or above the lowest of them, because `.cleaned` becomes `.swap` from the newest one down.
3. All other `.swap` files belong to a replacement that was complete: whatever else lies in their range,
   [lowest base offset, highest next offset), snapshots included, was replaced and goes; then `.swap` is
   taken off their names, of logs first. So does a segment before that range which holds nothing below it: the
   parts of a split segment are named by their first offsets, which may lie above the old base offset.
4. Index files without a log go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tidelog.layout.partitions import PartitionFiles
from tidelog.storage.names import INDEX_FILES, FileKind, SegmentFileName, Transient

__all__ = ["SwapPlan", "orphans", "plan_swaps", "temporary_files"]

_KRAFT_SNAPSHOT = ".checkpoint.deleted"


class SwapPlan(NamedTuple):
    """Files to delete, then files to be renamed: (from, to)."""

    delete: Sequence[str]
    rename: Sequence[tuple[str, str]]


def temporary_files(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Steps 1 and 2: the files that go because what they were for was not complete.

    The first list has to be gone from the disk before the second: a `.swap` file alone looks complete.
    """
    going = Transient.DELETED.value
    parsed = _parsed(names := list(names))
    gone = [name for name in names if name.endswith(going) and not name.endswith(_KRAFT_SNAPSHOT)]
    cleaned = {name: file for name, file in parsed.items() if file.transient is Transient.CLEANED}
    if cleaned:
        lowest = min(file.offset for file in cleaned.values())
        swaps = {name: file for name, file in parsed.items() if file.transient is Transient.SWAP}
        gone += [name for name, file in swaps.items() if file.offset >= lowest]
    return gone, list(cleaned)


def plan_swaps(
    names: Iterable[str], next_offset: Callable[[int], int], first_offset: Callable[[int], int | None]
) -> SwapPlan:
    """Step 3. `next_offset` tells where the `.swap` segment of a base offset ends, `first_offset` the first
    offset in the segment of one (None: it is empty).
    """
    parsed = _parsed(names)
    swaps = {name: file for name, file in parsed.items() if file.transient is Transient.SWAP}
    others = {name: file for name, file in parsed.items() if name not in swaps}
    bases = [file.offset for file in swaps.values() if file.kind is FileKind.LOG]
    delete: list[str] = []
    if bases:
        first, end = min(bases), max(next_offset(base) for base in bases)
        before = _last_log(others.values(), first)
        found = None if before is None else first_offset(before)
        if before is not None and found is not None and found >= first:
            first = before
        delete = [name for name, file in others.items() if first <= file.offset < end]
    logs_first = sorted(swaps.items(), key=lambda item: item[1].kind is not FileKind.LOG)
    rename = [(name, str(SegmentFileName(file.offset, file.kind))) for name, file in logs_first]
    return SwapPlan(delete, rename)


def _last_log(files: Iterable[SegmentFileName], before: int) -> int | None:
    """The base offset of the last segment that begins before an offset."""
    bases = [
        file.offset
        for file in files
        if file == SegmentFileName(file.offset, FileKind.LOG) and file.offset < before
    ]
    return max(bases, default=None)


def orphans(names: Iterable[str]) -> list[str]:
    """Step 4: index files whose log is not there."""
    files = PartitionFiles.of((name, False) for name in names)
    lost = set(files.orphans)
    return [
        name
        for name, file in files.parsed.items()
        if file.offset in lost and file.transient is Transient.NONE and file.kind in INDEX_FILES
    ]


def _parsed(names: Iterable[str]) -> dict[str, SegmentFileName]:
    return dict(PartitionFiles.of((name, False) for name in names).parsed)
