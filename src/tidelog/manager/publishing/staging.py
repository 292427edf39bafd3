"""Writing staged data: what a task does with the batches it has encoded (`staged` has the format).

A partition's batches go to the task's one file of pieces, whichever partition they are of: thousands of small
partitions cost one file. A partition that has come to a few megabytes there moves to segment files of its
own: those that become full, or large, can be published without being copied. The disk begins with a large one
while more rows come, so that there is little left to wait for.

Only full and large segments are synced, for they become the log's. All else is copied when it is published,
and checked then: what a power cut takes from it is missed, and the write is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tidelog.config import LogConfig
from tidelog.kernels.crc import crc32c
from tidelog.log.append.incoming import scan_all
from tidelog.log.append.validation import stamp
from tidelog.manager.publishing.checks import disk_error
from tidelog.manager.publishing.staged import (
    Manifest,
    Piece,
    PieceKind,
    table_bytes,
    write_manifest,
    write_small,
)
from tidelog.records.batches import BatchTable, Column
from tidelog.records.builder import EncodedBatches
from tidelog.segment import ActiveSegment
from tidelog.storage import LOCAL, Directory, File, FileSystem
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

__all__ = ["LARGE", "ONLY_FULL", "PieceFacts", "TaskStaging"]

Int64s = npt.NDArray[np.int64]

_PARTS_OF_SEGMENT = 16
_PARTS_OF_LARGE = 4
"""A partition gets files of its own when it has that part of a large segment, or of a full one: so much is
copied once more."""
_MANY_OPEN = 64
"""With so many segments being filled, others must have that part of a segment: each has three open files."""
LARGE = 16 << 20
"""From this size on, a segment that is not full is worth being linked."""
ONLY_FULL = (1 << 63) - 1
"""No segment is that large: a stream would leave many that are not full, trigger by trigger."""
_WRITE_BACK = 8 << 20
_THREADS = 4
_LATEST = (1 << 63) - 1
_PLAIN = LogConfig()


@dataclass(frozen=True, slots=True)
class PieceFacts:
    """What is known of records besides their batches."""

    min_timestamp: int
    keyless: int


@dataclass(slots=True)
class _Staged:
    """What is staged of a partition."""

    pieces: list[Piece] = field(default_factory=list)
    """Those that are finished."""
    size: int = 0
    segment: _StagedSegment | None = None
    """The one that is being filled, if the partition has come to that."""


class TaskStaging:
    """The staged files of one attempt at a task. `finish` it, or `discard` it."""

    def __init__(self, directory: str, name: str, fs: FileSystem = LOCAL, *, large: int = LARGE) -> None:
        """`directory` is the write's own; `name` is no other attempt's. Segments of `large` bytes may be
        linked though they are not full.

        FileNotFoundError if the directory is gone: an attempt that comes when the write is over must not make
        it again, for nobody would sweep it.
        """
        self._fs = fs
        self._directory = directory
        self._name = name
        self._file: File = fs.open(f"{directory}/{name}.batches", create=True)
        self._position = 0
        self._tables: list[bytes] = []
        self._rows = 0
        self._segments = 0
        self._filling = 0
        self._large = large
        self._staged: dict[TopicPartition, _Staged] = {}
        self._partitions: dict[str, int] = {}

    def expect(self, topic: str, partitions: int) -> None:
        """Note how many partitions a topic is taken to have."""
        self._partitions[topic] = partitions

    def add(
        self, partition: TopicPartition, encoded: EncodedBatches, facts: PieceFacts, config: LogConfig
    ) -> Piece | None:
        """Add batches to a partition, behind those it has; what they are, None for nothing."""
        if not len(encoded.table):
            return None
        staged = self._staged.setdefault(partition, _Staged())
        piece = _piece(partition, encoded.table, facts)
        try:
            self._put(staged, encoded, piece, config)
        except OSError as error:
            raise disk_error(error, self._directory, partition.topic) from error
        return piece

    def _put(self, staged: _Staged, encoded: EncodedBatches, piece: Piece, config: LogConfig) -> None:
        """Write batches where their partition's go."""
        staged.size += piece.size
        if staged.segment is None and staged.size > self._most_among_pieces(config):
            self._begin_segments(staged, config)
        if staged.segment is None:
            self._file.pwrite(encoded.data, self._position)
            staged.pieces.append(self._placed(piece, f"{self._name}.batches", self._position, encoded.table))
            self._position += len(encoded.data)
        else:
            self._fill(staged, staged.segment, encoded, piece, config)

    def _placed(
        self, piece: Piece, file: str, position: int, table: BatchTable, kind: PieceKind = PieceKind.BATCHES
    ) -> Piece:
        """The piece with its place; its headers go to the table."""
        self._tables.append(table_bytes(_numbered(table)))
        first, self._rows = self._rows, self._rows + len(table)
        return replace(piece, file=file, position=position, first_batch=first, kind=kind)

    # Segments

    def _most_among_pieces(self, config: LogConfig) -> int:
        """What a partition may have among the pieces."""
        part = config.max_segment_bytes // _PARTS_OF_SEGMENT
        return part if self._filling >= _MANY_OPEN else min(part, self._large // _PARTS_OF_LARGE)

    def _new_segment(self, config: LogConfig) -> _StagedSegment:
        directory = f"{self._directory}/{self._name}.{self._segments}.d"
        self._segments += 1
        self._fs.make_directory(directory)
        return _StagedSegment(Directory(directory, self._fs), config, self._large)

    def _begin_segments(self, staged: _Staged, config: LogConfig) -> None:
        """Move what a partition has among the pieces into a segment of its own."""
        pieces, staged.pieces = staged.pieces, []
        staged.segment = self._new_segment(config)
        self._filling += 1
        for piece in pieces:
            data = memoryview(bytearray(self._file.pread(piece.size, piece.position)))
            encoded = EncodedBatches(data, scan_all(data))
            self._fill(staged, staged.segment, encoded, piece, config)

    def _fill(
        self,
        staged: _Staged,
        segment: _StagedSegment,
        encoded: EncodedBatches,
        piece: Piece,
        config: LogConfig,
    ) -> None:
        """Add batches to the segment that is being filled, and to as many more as they need."""
        start = 0
        while start < len(encoded):
            stop = segment.room_for(encoded.table, start, config)
            if stop > start:
                segment.append(encoded, start, stop, piece)
                start = stop
            else:
                segment.end(sync=True)
                staged.pieces.append(self._ended(segment, PieceKind.FULL_SEGMENT))
                staged.segment = segment = self._new_segment(config)

    def _ended(self, segment: _StagedSegment, kind: PieceKind) -> Piece:
        table = segment.table()
        inner = segment.directory.path.removeprefix(f"{self._directory}/")
        name = f"{inner}/{format_segment_file(0, FileKind.LOG)}"
        piece = _piece(segment.partition, table, segment.facts)
        return self._placed(piece, name, 0, table, kind)

    # The end

    def finish(self) -> Manifest:
        """Write what is left, the manifest last."""
        filled = [(staged, staged.segment) for staged in self._staged.values() if staged.segment is not None]
        _end([segment for _, segment in filled])
        for staged, segment in filled:
            kind = PieceKind.LARGE_SEGMENT if segment.is_large else PieceKind.BATCHES
            staged.pieces.append(self._ended(segment, kind))
            staged.segment = None
        pieces = [piece for staged in self._staged.values() for piece in staged.pieces]
        self._file.close()
        table = b"".join(self._tables)
        write_small(self._fs, f"{self._directory}/{self._name}.table", table)
        manifest = Manifest(self._name, self._partitions, tuple(pieces), crc32c(table))
        write_manifest(self._fs, self._directory, manifest)
        return manifest

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        for staged in self._staged.values():
            if staged.segment is not None:
                staged.segment.abandon()
        for number in range(self._segments):
            remove_tree(self._fs, f"{self._directory}/{self._name}.{number}.d", sync=False)
        for suffix in ("batches", "table", "json"):
            path = f"{self._directory}/{self._name}.{suffix}"
            if self._fs.exists(path):
                self._fs.unlink(path)


def _end(segments: Sequence[_StagedSegment]) -> None:
    """End segments. Large ones are synced at the same time: syncs of several files share work."""
    large = [segment for segment in segments if segment.is_large]
    for segment in segments:
        if not segment.is_large:
            segment.end(sync=False)
    if large:
        with ThreadPoolExecutor(_THREADS, "tidelog-stage") as pool:
            list(pool.map(lambda segment: segment.end(sync=True), large))


class _StagedSegment:
    """A segment that a task fills, from offset 0 on."""

    def __init__(self, directory: Directory, config: LogConfig, large: int) -> None:
        """`large` is the size from which on it is to be linked, and the disk begins with it."""
        self.directory = directory
        self._large = large
        self._written_back = 0
        self.partition = TopicPartition("", 0)
        self.facts = PieceFacts(_LATEST, 0)
        self._segment = ActiveSegment.create(directory, 0, config, clock=lambda: 0)
        self._tables: list[Int64s] = []
        self._next_offset = 0

    def room_for(self, table: BatchTable, start: int, config: LogConfig) -> int:
        """Up to which batch the segment can take them."""
        if self._segment.progress.index_full:
            return start
        room = config.max_segment_bytes - self._segment.size
        fitting = int(np.searchsorted(np.cumsum(table.size[start:]), room, side="right"))
        return start + (fitting if self._segment.size else max(fitting, 1))

    def append(self, encoded: EncodedBatches, start: int, stop: int, piece: Piece) -> None:
        """Add batches [start, stop)."""
        rows = encoded.table.rows[start:stop].copy()
        first, last = int(rows[0, Column.POSITION]), int(rows[-1, Column.POSITION] + rows[-1, Column.SIZE])
        rows[:, Column.POSITION] -= first
        data = encoded.data[first:last]
        table = BatchTable(rows)
        self._next_offset = stamp(
            data, table, _PLAIN, next_offset=self._next_offset, leader_epoch=0, now_ms=0
        )
        position = self._segment.size
        self._segment.append(data, table)
        if self.is_large and self._segment.size - self._written_back >= _WRITE_BACK:
            self._segment.file.write_back(self._written_back)
            self._written_back = self._segment.size
        self._tables.append(rows + np.array([position, *[0] * 15], dtype=np.int64))
        self.partition = piece.topic_partition
        self.facts = PieceFacts(
            min(self.facts.min_timestamp, piece.min_timestamp), self.facts.keyless + piece.keyless
        )

    @property
    def is_large(self) -> bool:
        """Whether it is worth being linked as it is."""
        return self._segment.size >= self._large

    def end(self, *, sync: bool) -> None:
        """End it, on the disk with `sync`."""
        sealed = self._segment.seal()
        if sync:
            sealed.flush()
        sealed.close()
        if sync:
            self.directory.sync()

    def table(self) -> BatchTable:
        """The headers of its batches."""
        return BatchTable(np.concatenate(self._tables))

    def abandon(self) -> None:
        """Release its files."""
        self._segment.abandon()


def _piece(partition: TopicPartition, table: BatchTable, facts: PieceFacts) -> Piece:
    """A piece whose place is not known yet."""
    return Piece(
        partition,
        "",
        0,
        int(table.size.sum()),
        0,
        len(table),
        int(table.count.sum()),
        facts.min_timestamp,
        int(table.max_timestamp.max()),
        int(table.size.max()),
        facts.keyless,
    )


def _numbered(table: BatchTable) -> BatchTable:
    """The table with positions and offsets that count from 0."""
    rows: Int64s = table.rows.copy()
    rows[:, Column.POSITION] -= rows[0, Column.POSITION]
    rows[:, Column.BASE_OFFSET : Column.LEADER_EPOCH] -= rows[0, Column.BASE_OFFSET]
    return BatchTable(rows)
