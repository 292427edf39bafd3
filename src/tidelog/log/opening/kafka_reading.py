"""A segment as Kafka reads it where it checks no checksum, to foresee what it makes of damaged files.

| where | what Kafka does |
|---|---|
| the next batch | none if less than 18 bytes are left, or it reaches past the file; an error below 14 bytes |
| its format | of magic 2 and everything above it: a batch of magic 2; below, and negative: a message |
| an offset | from where the offset index says, the first batch that holds it or comes after it |
| the log's end | after the last batch that follows the last index entry; if none has it, the base offset |

The offset index is searched as it is: also where it is out of order, and positions need not be of batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from tidelog.config import LogConfig
from tidelog.errors import CorruptRecordError
from tidelog.records.batches import scan_batches
from tidelog.records.decode import decode_batches
from tidelog.storage import File, FileSystem, read_file
from tidelog.storage.directory import Directory
from tidelog.storage.names import FileKind, Transient, format_segment_file, parse_segment_file

__all__ = ["KafkaBatch", "KafkaSegment", "end_to_kafka", "make_swap_indexes", "unknown_magics"]

_OVERHEAD = 12
_TO_MAGIC = 17
_LEAST_SIZE = 14
_HEADER_SIZE = 61
_DELTA_AT = 23
_ENTRY = struct.Struct(">ii")
_WARM_ENTRIES = 8192 // 8
_HEAD = struct.Struct(">qiibb")  # offset, length, leader epoch or checksum, magic, a message's attributes


class KafkaBatch(NamedTuple):
    """What Kafka knows of a batch without reading its records."""

    position: int
    size: int
    offset: int
    """The number that it begins with: a batch's first offset, a message's last."""
    magic: int
    attributes: int
    """Of a message."""


def unknown_magics(data: memoryview) -> list[int]:
    """Where sound batches of a log have a magic above 2, in its last byte: no checksum covers it."""
    found: list[int] = []
    copy, position = bytearray(data), 0
    while True:
        scan = scan_batches(copy, start=position)
        at = scan.end + _TO_MAGIC - 1
        if scan.fault is None or at >= len(copy) or not 2 < copy[at] < 128:
            return found
        copy[at], position = 2, scan.end
        if not len(scan_batches(copy, start=position, max_batches=1).table):
            return found
        found.append(at)


def end_to_kafka(directory: Directory, base_offset: int, transient: Transient = Transient.NONE) -> int:
    """Where Kafka lets a segment end."""
    segment = KafkaSegment.open(directory.fs, directory.path, base_offset, transient)
    try:
        return segment.next_offset()
    finally:
        segment.close()


def make_swap_indexes(directory: Directory, names: Iterable[str], config: LogConfig) -> list[str]:
    """Make the offset indexes that `.swap` segments lack, all zeros, as Kafka does to ask where they end."""
    there, made = set(names), []
    for file in map(parse_segment_file, sorted(there)):
        if file is None or (file.kind, file.transient) != (FileKind.LOG, Transient.SWAP):
            continue
        name = format_segment_file(file.offset, FileKind.OFFSET_INDEX, Transient.SWAP)
        if name not in there:
            index = directory.open(name, writable=True, create=True)
            try:
                index.truncate(config.segment_index_bytes // _ENTRY.size * _ENTRY.size)
            finally:
                index.close()
            made.append(name)
    return made


class KafkaSegment:
    """The log and the offset index of one segment."""

    def __init__(self, file: File, index: bytes, base_offset: int, source: str) -> None:
        self._file = file
        self._size = file.size()
        self._index = index[: len(index) // _ENTRY.size * _ENTRY.size]
        self._base_offset = base_offset
        self._source = source

    @classmethod
    def open(
        cls, fs: FileSystem, directory: str, base_offset: int, transient: Transient = Transient.NONE
    ) -> Self:
        """A segment of a partition's directory; close it."""
        try:
            index = f"{directory}/{format_segment_file(base_offset, FileKind.OFFSET_INDEX, transient)}"
            entries = read_file(fs, index)
        except FileNotFoundError:
            entries = b""
        path = f"{directory}/{format_segment_file(base_offset, FileKind.LOG, transient)}"
        return cls(fs.open(path), entries, base_offset, path)

    def close(self) -> None:
        """Close the log."""
        self._file.close()

    def next_offset(self) -> int:
        """Where the segment ends (`LogSegment.readNextOffset`)."""
        entries = len(self._index) // _ENTRY.size
        target = self._entry(entries - 1)[0] if entries else self._base_offset
        found = self.find(target)
        if found is None:
            return self._base_offset
        for batch in self.batches(found.position):
            found = batch
        return self._last_offset(found) + 1

    def find(self, offset: int) -> KafkaBatch | None:
        """The batch that holds an offset, or the first after it (`LogSegment.translateOffset`)."""
        before: KafkaBatch | None = None
        for batch in self.batches(max(self._lookup(offset), 0)):
            first = self.base_offset_of(batch)
            if first == offset:
                return batch
            if first > offset:
                return before if before is not None and self._last_offset(before) >= offset else batch
            before = batch
        return before if before is not None and self._last_offset(before) >= offset else None

    def batches(self, position: int) -> Iterator[KafkaBatch]:
        """The batches from a position on (`FileLogInputStream`)."""
        while position < self._size - _TO_MAGIC:
            base, length, _, magic, attributes = _HEAD.unpack(self._file.pread(_HEAD.size, position))
            if length < _LEAST_SIZE:
                raise CorruptRecordError(
                    f"a batch of {length} bytes", position=position, offset=base, source=self._source
                )
            if position > self._size - _OVERHEAD - length:
                return
            yield KafkaBatch(position, _OVERHEAD + length, base, magic, attributes)
            position += _OVERHEAD + length

    def _last_offset(self, batch: KafkaBatch) -> int:
        if batch.magic < 2:
            return batch.offset
        header = self._file.pread(_HEADER_SIZE, batch.position)
        if len(header) < _HEADER_SIZE:
            raise CorruptRecordError(
                "the file ends inside a header",
                position=batch.position,
                offset=batch.offset,
                source=self._source,
            )
        return batch.offset + int.from_bytes(header[_DELTA_AT : _DELTA_AT + 4], "big", signed=True)

    def base_offset_of(self, batch: KafkaBatch) -> int:
        """Its first offset; of a compressed message, that of the first inside, which is not always asked."""
        if batch.magic >= 2 or not batch.attributes & 7:
            return batch.offset
        data = self._file.pread(batch.size, batch.position)
        table = scan_batches(data, source=self._source).require()
        return int(decode_batches(data, table, columns=("offset",), source=self._source).column(0)[0].as_py())

    def _entry(self, slot: int) -> tuple[int, int]:
        """Offset and position of an index entry."""
        offset, position = _ENTRY.unpack_from(self._index, slot * _ENTRY.size)
        return self._base_offset + offset, position

    def _lookup(self, offset: int) -> int:
        """The position of the index entry for an offset (`AbstractIndex.indexSlotRangeFor`)."""
        entries = len(self._index) // _ENTRY.size
        if not entries:
            return 0
        warm = max(0, entries - 1 - _WARM_ENTRIES)
        if self._entry(warm)[0] < offset:
            return self._entry(self._search(offset, warm, entries - 1))[1]
        if self._entry(0)[0] > offset:
            return 0
        return self._entry(self._search(offset, 0, warm))[1]

    def _search(self, offset: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) // 2
            found = self._entry(middle)[0]
            if found == offset:
                return middle
            if found > offset:
                high = middle - 1
            else:
                low = middle
        return low
