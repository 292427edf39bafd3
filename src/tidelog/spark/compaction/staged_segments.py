"""New segments on their way from where they were made into the log."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tidelog.log import Log
from tidelog.manager.publishing.mark import MARKS
from tidelog.segment import SealedSegment, Segment
from tidelog.spark.sink.writing import discard_staging
from tidelog.storage.names import SEGMENT_FILES, Transient, format_segment_file
from tidelog.storage.scratch import link_or_copy

__all__ = ["own_name", "swap_in", "sweep"]

_SWEEPERS = 4


def own_name(directory: str, number: int) -> Path:
    """A name that no other attempt has."""
    return Path(directory, f"{number:06}-{uuid.uuid4().hex}")


def sweep(staging: Path) -> None:
    """Remove a job's staging directory. To release a large file's pages takes time, so several threads do
    it.
    """
    files = [path for path in staging.rglob("*") if path.name not in MARKS and path.is_file()]
    with ThreadPoolExecutor(_SWEEPERS) as threads:
        list(threads.map(lambda path: path.unlink(missing_ok=True), files))
    discard_staging(str(staging))


def _hold(log: Path, staged: Path) -> None:
    """Link to a log that goes, so that its pages are let go of when staging is swept."""
    with suppress(OSError):
        (staged / f"{uuid.uuid4().hex}.held").hardlink_to(log)


def swap_in(
    log: Log,
    staged: Path,
    base_offsets: Sequence[int],
    old: Sequence[Segment],
    transient: Transient = Transient.CLEANED,
) -> None:
    """Link segments into their partition as `.cleaned`, and have the log put them in the place of `old`.

    `transient` is the suffix that their files have where they were made.
    """
    live = Path(log.path)
    for segment in old:
        _hold(Path(segment.path), staged)
    for base_offset in base_offsets:
        for kind in SEGMENT_FILES:
            target = live / format_segment_file(base_offset, kind, Transient.CLEANED)
            source = staged / format_segment_file(base_offset, kind, transient)
            target.unlink(missing_ok=True)
            if source.exists():
                link_or_copy(source, target)
    log.directory.sync()
    new = [
        SealedSegment.open(log.directory, base_offset, transient=Transient.CLEANED)
        for base_offset in base_offsets
    ]
    log.replace_segments(new, old)
