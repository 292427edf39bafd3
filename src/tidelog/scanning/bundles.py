"""Small tasks of many files, read together: an object less for each costs more than the bytes of it.

1. The bytes of all tasks are read into one buffer, and their headers scanned (`pieces`), checksums taken.
2. After that the topics' ids are read: a directory that is its topic's now was so when its log was opened.
3. A task is plain if its bytes are whole batches whose offsets are in order, if its range has no batch in
   part, and if the log's end is where it was planned. The batches of neighbours that are plain are decoded
   like those of one file.
4. Any other task, and one whose batches turn out not to decode, is answered by its number: the caller reads
   it by itself, in the usual way, which tells what there is to be told.

Records come in the order of the tasks, and only of tasks that are read here to their end.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidelog.errors import TidelogError
from tidelog.records.batches import BatchTable
from tidelog.records.chunks import ChunkDecoder
from tidelog.records.columns import constant_string, from_numbers, numbers
from tidelog.records.compression import MAX_DECOMPRESSED
from tidelog.records.schema import Projection
from tidelog.scanning.pieces import Bools, Int64s, Pieces, read_pieces
from tidelog.scanning.tasks import NO_END, ScanTask
from tidelog.storage.metadata import parse_partition_metadata
from tidelog.storage.names import PARTITION_METADATA_FILE
from tidelog.storage.stretches import Stretch, read_stretches

__all__ = ["BUNDLE_BYTES", "can_be_bundled", "read_bundle"]

BUNDLE_BYTES = 4 << 20
"""The most bytes to read together."""
_SMALL_BYTES = 64 << 10
_METADATA_BYTES = 256


def can_be_bundled(task: ScanTask) -> bool:
    """Whether a task may be read with others: its bytes are few, on this machine and in no aborted
    transaction.
    """
    return 0 < task.size <= _SMALL_BYTES and not task.aborted and "://" not in task.url


def read_bundle(
    tasks: Sequence[ScanTask], projection: Projection, *, max_rows: int, max_bytes: int, gapless: bool
) -> Iterator[pa.RecordBatch | int]:
    """The records of tasks, in record batches of bounded size; for a task that is not read, its number.

    With `gapless` a gap between offsets makes a task one that is not read. All of the tasks
    `can_be_bundled`.
    """
    bundle = _Bundle.read(tasks, gapless)
    plain, at = bundle.plain, 0
    while at < len(tasks):
        if plain[at]:
            odd = np.flatnonzero(~plain[at:])
            at = yield from bundle.records(
                at, at + int(odd[0]) if len(odd) else len(tasks), projection, max_rows, max_bytes
            )
        if at < len(tasks):
            yield at
            at += 1


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Tasks, and what was found of them."""

    tasks: Sequence[ScanTask]
    data: memoryview
    table: BatchTable
    """The batches that plain tasks want."""
    owner: Int64s
    """Which task each of them is of."""
    plain: Bools
    starts: Int64s
    ends: Int64s
    """The ranges of the tasks."""

    @classmethod
    def read(cls, tasks: Sequence[ScanTask], gapless: bool) -> _Bundle:
        """Read the bytes of tasks, and find out which of them are plain."""
        pieces = read_pieces(
            [Stretch(one.source, one.start_position, one.size) for one in tasks], check_crc=True
        )
        starts = np.array([one.start_offset for one in tasks], np.int64)
        ends = np.array([one.end_offset for one in tasks], np.int64)
        plain = pieces.whole & _of_their_topics(tasks) & _in_order(tasks, pieces, gapless)
        tails = np.array([one.is_tail for one in tasks], np.bool_)
        if gapless:
            plain &= tails  # what follows may contradict the last batch of any other
        plain &= ~(tails & (ends < NO_END) & (pieces.last_offsets() < ends - 1))
        table, owner = pieces.table, pieces.owner
        keep = (table.last_offset >= starts[owner]) & (table.base_offset < ends[owner])
        hidden = np.array([one.committed_only or not one.with_control for one in tasks], np.bool_)
        keep &= ~(table.is_control & hidden[owner])
        plain &= pieces.without(
            keep & ((table.base_offset < starts[owner]) | (table.last_offset >= ends[owner]))
        )
        keep &= plain[owner]
        rows = np.ascontiguousarray(table.rows[keep])
        return cls(tasks, pieces.data, BatchTable(rows), owner[keep], plain, starts, ends)

    def records(
        self, first: int, stop: int, projection: Projection, max_rows: int, max_bytes: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """The records of tasks [first, stop); answers the task that is not read, or `stop`."""
        begin, end = np.searchsorted(self.owner, (first, stop)).tolist()
        table, owner = self.table[begin:end], self.owner[begin:end]
        rows = np.zeros(stop - first, np.int64)
        np.add.at(rows, owner - first, table.count)
        until = np.cumsum(rows)  # where the records of each task end
        decoder = ChunkDecoder(
            self.data,
            _without_names(projection),
            topic="",
            partition=0,
            origin=0,
            source=None,
            max_rows=max_rows,
            max_bytes=max_bytes,
            max_decompressed=MAX_DECOMPRESSED,
            check_crc=False,
        )
        held: list[pa.RecordBatch] = []
        given = done = size = 0
        try:
            for chunk in decoder.chunks(table):
                owners = first + np.searchsorted(until, np.arange(done, done + chunk.num_rows), side="right")
                if not self._within(chunk, owners):
                    break
                held.append(self._named(chunk, owners, projection))
                done, size = done + chunk.num_rows, size + chunk.nbytes
                if done in until:
                    yield from held
                    held, given, size = [], done, 0
                elif size > max_bytes:
                    break
        except TidelogError:
            pass  # whoever reads that task by itself raises it with the place in its file
        whole = int(np.searchsorted(until, done, side="right"))
        left = (int(until[whole - 1]) if whole else 0) - given
        for batch in held:
            yield batch.slice(0, min(batch.num_rows, left))
            left -= min(batch.num_rows, left)
            if not left:
                break
        return first + whole

    def _within(self, chunk: pa.RecordBatch, owners: Int64s) -> bool:
        """Whether all records have offsets that their tasks want: no header tells what is in a batch."""
        offsets = numbers(chunk.column("offset"))
        if len(owners) and owners[-1] >= len(self.tasks):
            return False
        return bool(((offsets >= self.starts[owners]) & (offsets < self.ends[owners])).all())

    def _named(self, chunk: pa.RecordBatch, owners: Int64s, projection: Projection) -> pa.RecordBatch:
        """The records with the topics and partitions of their tasks."""
        arrays = []
        for name in projection.columns:
            if name == "topic":
                arrays.append(self._topics(owners))
            elif name == "partition":
                partitions = np.array([one.partition for one in self.tasks], np.int32)
                arrays.append(from_numbers(partitions[owners]))
            else:
                arrays.append(chunk.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=projection.schema)

    def _topics(self, owners: Int64s) -> pa.Array:
        """The topic of each record."""
        topics = [one.topic for one in self.tasks]
        if len(set(topics)) == 1:
            return constant_string(topics[0], len(owners))
        encoded = [topic.encode() for topic in topics]
        counts = np.bincount(owners, minlength=len(topics))
        ends = np.zeros(len(owners) + 1, np.int32)
        np.cumsum(np.array([len(one) for one in encoded])[owners], out=ends[1:])
        data = b"".join([one * count for one, count in zip(encoded, counts.tolist(), strict=True)])
        return pa.Array.from_buffers(
            pa.string(), len(owners), [None, pa.py_buffer(ends), pa.py_buffer(data)], null_count=0
        )


def _in_order(tasks: Sequence[ScanTask], pieces: Pieces, gapless: bool) -> Bools:
    """Which tasks have batches whose offsets are as their file's name and index tell."""
    floors = np.array([one.base_offset for one in tasks], np.int64)
    limits = np.array([one.next_base for one in tasks], np.int64)
    known = np.array([one.first_last_offset for one in tasks], np.int64)
    from_start = np.array([one.start_position == 0 for one in tasks], np.bool_)
    found = pieces.in_order(floors, limits, follows=from_start if gapless else None)
    as_known = pieces.first_last_offsets() == known
    found &= as_known | (from_start if gapless else known == -1)
    return found


def _of_their_topics(tasks: Sequence[ScanTask]) -> Bools:
    """Whose directories are still those of the topics that were planned, as far as these are known."""
    found = np.ones(len(tasks), np.bool_)
    asked = [n for n, one in enumerate(tasks) if one.topic_id is not None]
    files = read_stretches(
        Stretch(f"{tasks[n].url}/{PARTITION_METADATA_FILE}", 0, _METADATA_BYTES) for n in asked
    )
    for n, data in zip(asked, files, strict=True):
        found[n] = len(data) < _METADATA_BYTES and _topic_id(data) == tasks[n].topic_id
    return found


@lru_cache(maxsize=1 << 10)
def _topic_id(metadata: bytes) -> uuid.UUID | None:
    """The id in a file that a topic's many partitions have alike."""
    try:
        return parse_partition_metadata(metadata, PARTITION_METADATA_FILE).topic_id
    except TidelogError:
        return None


@lru_cache(maxsize=16)
def _without_names(projection: Projection) -> Projection:
    """What is decoded: all but topics and partitions, and offsets in any case."""
    columns = [name for name in projection.columns if name not in ("topic", "partition")]
    return Projection(tuple(dict.fromkeys((*columns, "offset"))))
