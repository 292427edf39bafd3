"""Why recovery has cut a log: what is wrong with the batch where it ends now."""

from __future__ import annotations

from tidelog.errors import CorruptRecordError
from tidelog.layout.partitions import log_sizes
from tidelog.log.producers.markers import read_markers
from tidelog.records.batches import scan_batches
from tidelog.storage import FileSystem
from tidelog.storage.files import read_file
from tidelog.storage.names import FileKind, format_segment_file

__all__ = ["why_cut"]


def why_cut(before: FileSystem, after: FileSystem, path: str) -> str:
    """The reason for the first cut in a partition: its files are told as they were, and as they are."""
    sizes = _sizes(after, path)
    for name, size in sorted(_sizes(before, path).items()):
        left = sizes.get(name)
        if left is None:
            return f"the log ends before {name}, or begins behind it"
        if left < size:
            return _fault(before, f"{path}/{name}", left)
    return "its segments are put in order"


def _sizes(fs: FileSystem, path: str) -> dict[str, int]:
    return {format_segment_file(base, FileKind.LOG): size for base, size in log_sizes(fs, path).items()}


def _fault(fs: FileSystem, path: str, position: int) -> str:
    """What is wrong at a position, where a batch begins."""
    view = memoryview(read_file(fs, path))
    scan = scan_batches(view, start=position, max_batches=1, source=path)
    if scan.fault is not None:
        return str(scan.fault)
    try:
        read_markers(view, scan.table, source=path)
    except CorruptRecordError as error:
        return str(error)
    return f"{path}: an offset at position {position} does not follow the one before it"
