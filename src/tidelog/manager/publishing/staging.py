"""Writing staged data: what a task does with the batches it has encoded (`staged` has the format).

A partition's batches go to the task's one file of pieces, whichever partition they are of: thousands of small
partitions cost one file. A partition that has come to a quarter of a segment there goes on in segment files
of its own: those that become full can be published without being copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.config import LogConfig
from tidelog.manager.publishing.staged import Manifest, Piece, table_bytes, write_manifest
from tidelog.records.batches import BatchTable
from tidelog.records.builder import EncodedBatches
from tidelog.storage import LOCAL, File, FileSystem
from tidelog.storage.files import parent
from tidelog.types import TopicPartition

__all__ = ["PieceFacts", "TaskStaging"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PieceFacts:
    """What is known of records besides their batches."""

    min_timestamp: int
    keyless: int


@dataclass(slots=True)
class _Staged:
    """What is staged of a partition."""

    pieces: list[Piece] = field(default_factory=list)
    size: int = 0


class TaskStaging:
    """The staged files of one attempt at a task. `finish` it, or `discard` it."""

    def __init__(self, directory: str, name: str, fs: FileSystem = LOCAL) -> None:
        """`directory` is the write's own, made where it is missing; `name` is no other attempt's."""
        self._fs = fs
        self._directory = directory
        self._name = name
        _make_directories(fs, directory)
        self._file: File = fs.open(f"{directory}/{name}.batches", create=True)
        self._position = 0
        self._tables: list[bytes] = []
        self._rows = 0
        self._staged: dict[TopicPartition, _Staged] = {}
        self._partitions: dict[str, int] = {}

    def expect(self, topic: str, partitions: int) -> None:
        """Note how many partitions a topic is taken to have."""
        self._partitions[topic] = partitions

    def add(
        self, partition: TopicPartition, encoded: EncodedBatches, facts: PieceFacts, config: LogConfig
    ) -> list[Piece]:
        """Add batches to a partition, behind those it has; the pieces they became."""
        table = encoded.table
        if not len(table):
            return []
        staged = self._staged.setdefault(partition, _Staged())
        self._file.pwrite(encoded.data, self._position)
        piece = Piece(
            partition,
            f"{self._name}.batches",
            self._position,
            len(encoded.data),
            self._rows,
            len(table),
            int(table.count.sum()),
            facts.min_timestamp,
            int(table.max_timestamp.max()),
            int(table.size.max()),
            facts.keyless,
        )
        self._tables.append(table_bytes(_numbered(table)))
        self._rows += len(table)
        self._position += len(encoded.data)
        staged.pieces.append(piece)
        staged.size += piece.size
        return [piece]

    def finish(self) -> Manifest:
        """Put everything on the disk, the manifest last."""
        manifest = Manifest(
            self._name,
            self._partitions,
            tuple(piece for staged in self._staged.values() for piece in staged.pieces),
        )
        self._file.sync()
        self._file.close()
        table = self._fs.open(f"{self._directory}/{self._name}.table", create=True)
        try:
            table.pwrite(b"".join(self._tables), 0)
            table.sync()
        finally:
            table.close()
        write_manifest(self._fs, self._directory, manifest)
        return manifest

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        for suffix in ("batches", "table", "json"):
            path = f"{self._directory}/{self._name}.{suffix}"
            if self._fs.exists(path):
                self._fs.unlink(path)


def _numbered(table: BatchTable) -> BatchTable:
    """The table with positions and offsets that count from 0."""
    rows: Int64s = table.rows.copy()
    rows[:, 0] -= rows[0, 0]
    rows[:, 2:4] -= rows[0, 2]
    return BatchTable(rows)


def _make_directories(fs: FileSystem, path: str) -> None:
    if fs.exists(path):
        return
    above = parent(path)
    if above != path:
        _make_directories(fs, above)
    try:
        fs.make_directory(path)
    except FileExistsError:
        return  # another task was faster
    fs.sync_directory(above)
