"""What `tidelog dump` does: opens files, and lets batches and records out in the form that was asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.errors import UndecodableError, UsageError
from tidelog.cli.render.lines import LineStyle, LogBytes, LogLines
from tidelog.cli.render.output import Cell, Column, JsonOutput, Output, Progress
from tidelog.cli.render.units import time_text
from tidelog.errors import TidelogError, TornBatchError
from tidelog.records import BatchTable
from tidelog.records.batches import Column as Header
from tidelog.storage import LOCAL, FileReader
from tidelog.storage.names import MAPPED_INDEXES, FileKind, parse_segment_file
from tidelog.types import Codec, TimestampType

if TYPE_CHECKING:
    from tidelog.decoding import Decoder

__all__ = ["DumpStyle", "dump_files"]

_CODECS = {int(codec): codec.label for codec in Codec}
_METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")

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


@dataclass(frozen=True, slots=True)
class DumpStyle:
    """How files are shown."""

    lines: LineStyle = field(default_factory=LineStyle)
    decoder: Decoder | None = None
    sanity_only: bool = False
    verify_only: bool = False
    """Of indexes: only look whether they are sound, or fit the log."""
    max_bytes: int | None = None
    """How much of a log is read."""
    with_file: bool = False
    """JSON lines of records name their file, as all other JSON lines do."""


def dump_files(
    paths: Sequence[Path], style: DumpStyle, out: Output, report: Callable[[Exception], int]
) -> int:
    """Dump the files one after the other; the exit code. A damaged one is reported, and the next one is read.

    Of a partition's directory its logs are dumped. Whether all of them can be dumped at all is looked at
    first, so that a slip of the fingers costs nothing.
    """
    files = [file for path in paths for file in _expand(path)]
    sizes = [_check(path) for path in files]
    code = 0
    with out.progress(sum(sizes), "dumping") as progress:
        for path in files:
            try:
                _dump(path, style, out, progress)
            except TidelogError as error:
                code = max(code, report(error))
    return code


def _expand(path: Path) -> list[Path]:
    """The file, or the logs of a partition's directory."""
    if not LOCAL.stat(path).is_directory:
        return [path]
    logs = sorted(log for log in path.glob(f"*{FileKind.LOG.value}") if parse_segment_file(log.name))
    if not logs:
        raise UsageError(
            f"{path} is a directory without log files: dump a partition directory or a file in it "
            f"(`tidelog ls {path}` shows what is there)"
        )
    return logs


def _check(path: Path) -> int:
    """The size of a file; OSError or UsageError for what cannot be dumped."""
    found = LOCAL.stat(path)
    if not path.is_file():
        raise UsageError(f"{path} is not a regular file: copy it to one first")
    return found.size


def _dump(path: Path, style: DumpStyle, out: Output, progress: Progress) -> None:
    out.say(f"Dumping {path}")
    if out.json and (style.with_file or not style.lines.deep):
        out = JsonOutput({"file": str(path)})
    segment = parse_segment_file(path.name)
    if segment is not None and segment.kind is FileKind.LOG:
        _dump_log(path, style, out, progress)
        return
    # What comes with these takes a while to import, and logs do without it.
    from tidelog.cli.render.index_files import IndexChecks, dump_index
    from tidelog.cli.render.small_files import is_small_file, read_small_file, show

    if segment is not None and segment.kind in MAPPED_INDEXES:
        dump_index(path, segment, IndexChecks(style.sanity_only, style.verify_only), out)
    elif is_small_file(path.name):
        show(read_small_file(path), out)
    else:
        _dump_log(path, style, out, progress)


def _dump_log(path: Path, style: DumpStyle, out: Output, progress: Progress) -> None:
    log = FileReader.open(LOCAL, path)
    is_cut = style.max_bytes is not None and style.max_bytes < log.size
    end = log.size if style.max_bytes is None else min(style.max_bytes, log.size)
    if origin := _origin(path.name):
        out.say(origin)
    try:
        _show_log(LogBytes(log, end, str(path)), style, out, progress)
    except TornBatchError:
        if not is_cut:  # then it was we who cut the batch
            raise


def _show_log(log: LogBytes, style: DumpStyle, out: Output, progress: Progress) -> None:
    if out.terminal and not style.lines.deep:
        out.table(_BATCH_COLUMNS, _batch_rows(log))
        return
    if style.decoder is None and not style.lines.skip_metadata:
        _write(LogLines(log, style.lines, out.write), out, progress)
        return
    from tidelog.cli.render.decoded_lines import DecodedLines  # takes a while to import, too

    lines = DecodedLines(log, style.lines, out.write, style.decoder)
    _write(lines, out, progress)
    if lines.undecodable:
        raise UndecodableError(
            f"{lines.undecodable} records of {log.name} are not what --decode says: try another decoder"
        )


def _write(lines: LogLines, out: Output, progress: Progress) -> None:
    for size in lines.run():
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


def _batch_rows(log: LogBytes) -> Iterator[Sequence[Cell]]:
    """The batches for a table that fits a terminal."""
    for _, _, table in log.windows():
        for row in table:
            yield _batch_row(row)


def _batch_row(batch: BatchTable) -> list[Cell]:
    """One batch; what it does not have is left out."""
    row = batch.rows[0].tolist()
    magic, codec = row[Header.MAGIC], row[Header.ATTRIBUTES] & 7
    epoch, producer, sequence = row[Header.LEADER_EPOCH], row[Header.PRODUCER_ID], row[Header.BASE_SEQUENCE]
    wrapper = magic < 2 and codec != 0
    marks = [
        *(["append time"] if batch.timestamp_type[0] == TimestampType.LOG_APPEND_TIME else []),
        *(["transactional"] if batch.is_transactional[0] else []),
        *(["control"] if batch.is_control[0] else []),
        *(["delete horizon"] if batch.has_delete_horizon[0] else []),
        *([f"magic {magic}"] if magic < 2 else []),
    ]
    return [
        row[Header.POSITION],
        None if wrapper else row[Header.BASE_OFFSET],
        row[Header.LAST_OFFSET],
        None if wrapper else row[Header.COUNT],
        row[Header.SIZE],
        time_text(row[Header.MAX_TIMESTAMP]),
        _CODECS.get(codec, "unknown"),
        ", ".join(marks),
        None if epoch < 0 else epoch,
        None if producer < 0 else f"{producer}/{row[Header.PRODUCER_EPOCH]}",
        None if sequence < 0 else sequence,
    ]
