"""Files on their way: maps of keys between tasks, and new segments from where they were made into the log."""

from __future__ import annotations

import mmap
import shutil
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.log import Log
from tidelog.manager.publishing.mark import MARKS
from tidelog.segment import SealedSegment, Segment
from tidelog.spark.sink.writing import discard_staging
from tidelog.storage import CANNOT_LINK, LOCAL
from tidelog.storage.names import SEGMENT_FILES, Transient, format_segment_file

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["bring", "map_file", "own_name", "swap_in", "sweep", "write_file"]

_SWEEPERS = 4


def own_name(directory: str, number: int) -> Path:
    """A name that no other attempt has."""
    return Path(directory, f"{number:06}-{uuid.uuid4().hex}")


def write_file(path: Path, parts: Iterable[Buffer]) -> str:
    """Write a file piece by piece; its name. It need not outlive a crash."""
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
    return str(path)


def map_file(path: str) -> mmap.mmap:
    """A file's bytes, shared by all that map it. Writing changes a copy of this process only."""
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def bring(source: Path, target: Path) -> None:
    """A link to a file, or where there can be none a copy on the disk."""
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        shutil.copy2(source, target)
        file = LOCAL.open(target, writable=True)
        try:
            file.sync()
        finally:
            file.close()


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
                bring(source, target)
    log.directory.sync()
    new = [
        SealedSegment.open(log.directory, base_offset, transient=Transient.CLEANED)
        for base_offset in base_offsets
    ]
    log.replace_segments(new, old)
