"""What `tidelog dump` does: opens files, and lets batches and records out in the form that was asked for."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.errors import UsageError
from tidelog.cli.lines import LineStyle, LogLines
from tidelog.cli.output import Cell, Column, Output, Progress
from tidelog.errors import TidelogError
from tidelog.records import BatchTable, walk_batches
from tidelog.storage import LOCAL, map_file
from tidelog.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    parse_segment_file,
)
from tidelog.types import Codec, TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["dump_logs"]

_OTHER_FILES = {CLEAN_SHUTDOWN_FILE, LEADER_EPOCH_FILE, META_PROPERTIES_FILE, PARTITION_METADATA_FILE}
_CODECS = {int(codec): codec.label for codec in Codec}
_METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_BATCH_COLUMNS = (
    Column("position", "position", right=True),
    Column("base_offset", "first", right=True),
    Column("last_offset", "last", right=True),
    Column("count", "records", right=True),
    Column("size", "bytes", right=True),
    Column("max_timestamp", "newest record"),
    Column("codec", "codec"),
    Column("marks", "marks", optional=True),
    Column("leader_epoch", "epoch", right=True, optional=True),
    Column("producer", "producer", right=True, optional=True),
    Column("sequence", "sequence", right=True, optional=True),
)


def dump_logs(
    files: Sequence[Path], style: LineStyle, out: Output, report: Callable[[Exception], int]
) -> int:
    """Dump the files one after the other; the exit code. A damaged one is reported, and the next one is read.

    Whether all of them can be logs at all is looked at first, so that a slip of the fingers costs nothing.
    """
    sizes = [_check(path) for path in files]
    code = 0
    with out.progress(sum(sizes), "dumping") as progress:
        for path in files:
            try:
                _dump(path, style, out, progress)
            except TidelogError as error:
                code = max(code, report(error))
    return code


def _check(path: Path) -> int:
    """The size of a file that could be a log; OSError or UsageError for what cannot."""
    found = LOCAL.stat(path)
    if found.is_directory:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.is_file():
        raise UsageError(f"{path} is not a regular file: copy it to one first")
    name = parse_segment_file(path.name)
    checkpoint = path.name.endswith("-offset-checkpoint")
    if checkpoint or path.name in _OTHER_FILES or (name is not None and name.kind is not FileKind.LOG):
        raise UsageError(f"{path} is not a log: dump shows .log files only so far")
    return found.size


def _dump(path: Path, style: LineStyle, out: Output, progress: Progress) -> None:
    data = map_file(LOCAL, path)
    out.say(f"Dumping {path}")
    if origin := _origin(path.name):
        out.say(origin)
    if out.terminal and not style.deep:
        out.table(_BATCH_COLUMNS, _batch_rows(data, str(path)))
        return
    for size in LogLines(data, str(path), style, out.write).run():
        if not out.terminal:  # there the lines themselves show it
            progress.advance(size)


def _origin(name: str) -> str | None:
    """Where a log begins, or a snapshot of the metadata log ends, by its name."""
    segment = parse_segment_file(name)
    if segment is not None:
        return f"Log starting offset: {segment.offset}"
    if snapshot := _METADATA_SNAPSHOT.fullmatch(name):
        return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}"
    return "KRaft bootstrap snapshot" if name == "bootstrap.checkpoint" else None


def _batch_rows(data: Buffer, source: str) -> Iterator[Sequence[Cell]]:
    """The batches for a table that fits a terminal."""
    for table in walk_batches(data, source=source):
        for row in table:
            yield _batch_row(row)


def _batch_row(batch: BatchTable) -> list[Cell]:
    """One batch; what it does not have is left out."""
    position, size, base, last, epoch, magic, attributes, _, newest = batch.rows[0, :9].tolist()
    producer, producer_epoch, sequence, count = batch.rows[0, 9:13].tolist()
    codec = attributes & 7
    wrapper = magic < 2 and codec != 0
    marks = [
        *(["append time"] if batch.timestamp_type[0] == TimestampType.LOG_APPEND_TIME else []),
        *(["transactional"] if batch.is_transactional[0] else []),
        *(["control"] if batch.is_control[0] else []),
        *(["delete horizon"] if batch.has_delete_horizon[0] else []),
        *([f"magic {magic}"] if magic < 2 else []),
    ]
    return [
        position,
        None if wrapper else base,
        last,
        None if wrapper else count,
        size,
        _time(newest),
        _CODECS.get(codec, "unknown"),
        ", ".join(marks),
        None if epoch < 0 else epoch,
        None if producer < 0 else f"{producer}/{producer_epoch}",
        None if sequence < 0 else sequence,
    ]


def _time(timestamp_ms: int) -> str | None:
    """A timestamp for people, in UTC; one that no calendar has as the number it is."""
    if timestamp_ms < 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
