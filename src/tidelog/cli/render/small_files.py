"""What the files beside a log say: indexes, snapshots, checkpoints, properties; as rows of a table.

Where kafka-dump-log knows the file, a row's line in a pipe has its words; machines get the columns' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.cli.render.output import Cell, Column, Output
from tidelog.index.transaction import TransactionIndex
from tidelog.log.producers.sequences import ProducerState
from tidelog.log.producers.snapshots import decode_snapshot
from tidelog.storage import LOCAL, Directory, read_file
from tidelog.storage.checkpoints import parse_epochs, parse_offsets
from tidelog.storage.metadata import format_id, parse_properties, read_clean_shutdown, read_partition_metadata
from tidelog.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    SegmentFileName,
    parse_segment_file,
)

__all__ = ["Listing", "is_small_file", "read_small_file", "show"]

Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Listing:
    """A file's entries: columns, rows, and how a row reads in a line of text."""

    columns: Sequence[Column]
    rows: Iterable[Row]
    line: Callable[[Row], str] | None = None


def show(listing: Listing, out: Output) -> None:
    """A table on a terminal, JSON for machines, lines in a pipe."""
    if out.json or out.terminal:
        out.table(listing.columns, listing.rows)
        return
    line = listing.line or _words([column.name for column in listing.columns])
    for row in listing.rows:
        out.say(line(row))


def is_small_file(name: str) -> bool:
    """Whether `read_small_file` knows a file of this name."""
    segment = parse_segment_file(name)
    if segment is not None:
        return segment.kind in (FileKind.TXN_INDEX, FileKind.SNAPSHOT)
    return name in _BY_NAME or name.endswith(_OFFSETS_SUFFIX)


def read_small_file(path: Path) -> Listing:
    """What the file says. Raises InvalidIndexError if it breaks its own rules."""
    segment = parse_segment_file(path.name)
    if segment is not None:
        return _txn_index(path, segment) if segment.kind is FileKind.TXN_INDEX else _snapshot(path)
    return _BY_NAME.get(path.name, _offsets)(path)


def _words(names: Sequence[str]) -> Callable[[Row], str]:
    """Lines of `name: value`, the names as Kafka spells such ones."""
    spelled = [_camel(name) for name in names]
    return lambda row: " ".join(f"{name}: {cell}" for name, cell in zip(spelled, row, strict=True))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _columns(*names: str) -> list[Column]:
    return [Column(name, name.replace("_", " "), right=True) for name in names]


# ---- files of a segment


def _txn_index(path: Path, name: SegmentFileName) -> Listing:
    index = TransactionIndex(Directory(str(path.absolute().parent)), name.offset, name.transient)
    columns = _columns("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    rows = (
        (0, txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
        for txn in index.all_aborted_txns()
    )
    return Listing(columns, rows)


_SNAPSHOT = _columns(
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "current_txn_first_offset",
    "last_timestamp",
    "first_sequence",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
)
_BATCH_FIELDS = 5


def _snapshot(path: Path) -> Listing:
    rows = [_producer(state) for state in decode_snapshot(read_file(LOCAL, path), str(path))]
    return Listing(_SNAPSHOT, rows, _producer_line)


def _producer(state: ProducerState) -> Row:
    head = (
        state.producer_id,
        state.producer_epoch,
        state.coordinator_epoch,
        state.txn_first_offset,
        state.last_timestamp,
    )
    if not state.batches:
        return (*head, *[None] * _BATCH_FIELDS)
    last = state.batches[-1]
    return (
        *head,
        last.first_sequence,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        last.timestamp,
    )


def _producer_line(row: Row) -> str:
    cells = list(row)
    cells[3] = "OptionalLong.empty" if cells[3] is None else f"OptionalLong[{cells[3]}]"
    names = [column.name for column in _SNAPSHOT]
    if cells[-1] is None:
        cells, names = cells[:-_BATCH_FIELDS], names[:-_BATCH_FIELDS]
    return _words(names)(cells)


# ---- checkpoints and properties

_OFFSETS_SUFFIX = "-offset-checkpoint"


def _offsets(path: Path) -> Listing:
    found = parse_offsets(read_file(LOCAL, path), str(path))
    columns = [Column("topic", "topic"), *_columns("partition", "offset")]
    return Listing(columns, [(name.topic, name.partition, offset) for name, offset in found.items()])


def _epochs(path: Path) -> Listing:
    found = parse_epochs(read_file(LOCAL, path), str(path))
    return Listing(_columns("epoch", "start_offset"), [(entry.epoch, entry.start_offset) for entry in found])


def _properties(path: Path) -> Listing:
    found = parse_properties(read_file(LOCAL, path), str(path))
    return Listing(
        [Column("key", "key"), Column("value", "value")],
        list(found.items()),
        lambda row: f"{row[0]}: {row[1]}",
    )


def _partition_metadata(path: Path) -> Listing:
    found = read_partition_metadata(LOCAL, path)
    return Listing(
        [*_columns("version"), Column("topic_id", "topic id")], [(found.version, format_id(found.topic_id))]
    )


def _clean_shutdown(path: Path) -> Listing:
    return Listing(_columns("broker_epoch"), [(read_clean_shutdown(LOCAL, path),)])


_BY_NAME: dict[str, Callable[[Path], Listing]] = {
    LEADER_EPOCH_FILE: _epochs,
    META_PROPERTIES_FILE: _properties,
    PARTITION_METADATA_FILE: _partition_metadata,
    CLEAN_SHUTDOWN_FILE: _clean_shutdown,
}
