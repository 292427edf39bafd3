"""Staged data: batches that are ready but for their offsets, in files outside of the root.

    <staging>/<write>/<task>.batches      batches, a piece of one partition after the other
    <staging>/<write>/<task>.<n>.d/       a whole segment of a partition: .log, .index, .timeindex, from 0 on
    <staging>/<write>/<task>.table        the headers of all of them, 16 int64 (little-endian) a batch
    <staging>/<write>/<task>.json         the manifest: which piece is where; written last

The manifest is written last: what has none was never finished. Full and large segments are on the disk
before; all else may be lost with the power, and is checked before it is used: the table against the
manifest's checksum, the batches against their own. Offsets in staged batches count from 0 in each piece:
stamping them needs no new checksum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.errors import DataLossError, InvalidIndexError
from tidelog.kernels.crc import crc32c
from tidelog.records.batches import BatchTable, Column, scan_batches
from tidelog.records.builder import EncodedBatches
from tidelog.storage import FileSystem, map_file, read_file
from tidelog.storage.files import parent
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Manifest",
    "Piece",
    "PieceKind",
    "StagedRun",
    "load_runs",
    "read_manifest",
    "write_manifest",
    "write_small",
]

_COLUMNS = 16
_ROW = 8 * _COLUMNS
_FACTS = (
    *("position", "size", "first_batch", "batches", "records", "min_timestamp", "max_timestamp"),
    *("largest_batch", "keyless", "kind"),
)
"""What a manifest says of a piece, after topic, partition and file: whole numbers."""
_SAME = (Column.POSITION, Column.SIZE, Column.MAGIC, Column.ATTRIBUTES, Column.COUNT, Column.CRC)
"""Columns of a table that tell a batch from others: position, size, magic, attributes, count, checksum."""


class PieceKind(IntEnum):
    """What the file of a piece is; manifests have the number."""

    BATCHES = 0
    """Batches of any partitions, or a small segment: to be copied."""
    FULL_SEGMENT = 1
    LARGE_SEGMENT = 2
    """A segment that is large enough to be linked, though it is not full."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches of one partition, one after the other in a staged file."""

    topic_partition: TopicPartition
    file: str
    """The file's name in the write's directory."""
    position: int
    size: int
    first_batch: int
    """Their first row in the task's table."""
    batches: int
    records: int
    min_timestamp: int
    max_timestamp: int
    largest_batch: int
    """The size of the largest batch."""
    keyless: int
    """How many records have no key."""
    kind: PieceKind = PieceKind.BATCHES
    """Whether the file is a whole segment, with indexes beside it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a task has staged."""

    name: str
    """The task's."""
    partitions: Mapping[str, int]
    """How many partitions each topic was taken to have."""
    pieces: tuple[Piece, ...]
    table_crc: int
    """The CRC-32C of the table file."""


def write_small(fs: FileSystem, path: str, data: bytes) -> None:
    """Write a new file; it need not survive the power."""
    file = fs.open(path, create=True)
    try:
        file.pwrite(data, 0)
    finally:
        file.close()


def write_manifest(fs: FileSystem, directory: str, manifest: Manifest) -> None:
    """Write a manifest; all that it names is written already."""
    content = {
        "version": 1,
        "table_crc": manifest.table_crc,
        "partitions": dict(manifest.partitions),
        "pieces": [
            [
                *(one.topic_partition.topic, one.topic_partition.partition, one.file),
                *(int(getattr(one, name)) for name in _FACTS),
            ]
            for one in manifest.pieces
        ],
    }
    write_small(fs, f"{directory}/{manifest.name}.json", json.dumps(content).encode())


def read_manifest(fs: FileSystem, directory: str, name: str) -> Manifest:
    """The manifest of a task."""
    path = f"{directory}/{name}.json"
    data = read_file(fs, path)
    try:
        content: dict[str, Any] = json.loads(data)
        pieces = []
        for topic, partition, file, *numbers in content["pieces"]:
            tp = TopicPartition(str(topic), int(partition))
            facts = dict(zip(_FACTS, (int(number) for number in numbers), strict=True))
            kind = PieceKind(facts.pop("kind"))
            pieces.append(Piece(tp, _inner(file), kind=kind, **facts))
        partitions = {str(topic): int(count) for topic, count in content["partitions"].items()}
        return Manifest(name, partitions, tuple(pieces), int(content["table_crc"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidIndexError(f"{path} is not a manifest of staged data: {error}") from error


def _inner(file: Any) -> str:
    """A file's name in the write's directory, which leads nowhere else."""
    parts = file.split("/")
    if "\0" in file or len(parts) > 2 or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{file!r} is not a staged file's name")
    return str(file)


@dataclass(frozen=True, slots=True)
class StagedRun:
    """A piece with the headers of its batches."""

    piece: Piece
    path: str
    rows: npt.NDArray[np.int64]
    """The headers of its batches; positions count from the piece's first byte."""

    def data(self, fs: FileSystem) -> memoryview:
        """Its bytes."""
        return map_file(fs, self.path)[self.piece.position : self.piece.position + self.piece.size]

    def batches(self, data: memoryview, start: int, stop: int) -> EncodedBatches:
        """Its batches [start, stop), from its bytes; DataLossError if they are not those that were staged.

        Base offsets may have been stamped since.
        """
        rows = self.rows[start:stop].copy()
        first, last = int(rows[0, Column.POSITION]), int(rows[-1, Column.POSITION] + rows[-1, Column.SIZE])
        found = scan_batches(data[first:last], max_batches=len(rows))
        rows[:, Column.POSITION] -= first
        rows[:, Column.BASE_OFFSET : Column.LEADER_EPOCH] -= rows[0, Column.BASE_OFFSET]
        if found.fault is not None or not np.array_equal(found.table.rows[:, _SAME], rows[:, _SAME]):
            raise DataLossError(
                f"{self.path}, position {self.piece.position + first}: staged data was lost or changed"
            )
        return EncodedBatches(data[first:last], BatchTable(rows))


def load_runs(
    fs: FileSystem, directory: str, manifests: Sequence[Manifest]
) -> dict[TopicPartition, list[StagedRun]]:
    """The pieces of each partition, in the order of the manifests and, of one manifest, in its own: that is
    the order of the records. DataLossError where a file is not whole.
    """
    runs: dict[TopicPartition, list[StagedRun]] = {}
    for manifest in manifests:
        if not manifest.pieces:
            continue
        table = _table(fs, f"{directory}/{manifest.name}.table", manifest.table_crc)
        sizes: dict[str, int] = {}
        for piece in manifest.pieces:
            path = f"{directory}/{piece.file}"
            if piece.file not in sizes:
                sizes[piece.file] = _size(fs, path)
            end = piece.first_batch + piece.batches
            if sizes[piece.file] < piece.position + piece.size or len(table) < end:
                raise DataLossError(f"{path} is shorter than its manifest says: staged data was lost")
            rows = table[piece.first_batch : end].copy()
            runs.setdefault(piece.topic_partition, []).append(StagedRun(piece, path, rows))
    return runs


def _size(fs: FileSystem, path: str) -> int:
    try:
        if fs.is_link(parent(path)) or fs.is_link(path):
            raise DataLossError(f"{path} is a symbolic link, not staged data")
        return fs.stat(path).size
    except (FileNotFoundError, NotADirectoryError):
        raise DataLossError(f"{path} is gone: staged data was lost") from None


def _table(fs: FileSystem, path: str, crc: int) -> npt.NDArray[np.int64]:
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        raise DataLossError(f"{path} is gone: staged data was lost") from None
    if len(data) % _ROW or crc32c(data) != crc:
        raise DataLossError(f"{path} is not as it was written: staged data was lost")
    return np.frombuffer(data, dtype="<i8").astype(np.int64, copy=False).reshape(-1, _COLUMNS)


def table_bytes(table: BatchTable) -> bytes:
    """Rows as the table file holds them."""
    return table.rows.astype("<i8", copy=False).tobytes()
