"""The transaction index: which transactions were aborted in a segment.

    0   i16  version, 0
    2   i64  producer id
    10  i64  first offset of the transaction
    18  i64  last offset: that of its abort marker
    26  i64  last stable offset once the marker was there

An entry stands in the segment that holds the abort marker, though the transaction may begin in earlier
ones. Last offsets grow. The file is made at the first abort: no file means no aborted transactions.

Nothing is mapped, and only the writer keeps the file open: a reader opens it, reads what it needs and closes
it. The number of entries is published after an entry is written; a torn one at the end (a crash, a full disk)
is not counted, and the next entry overwrites it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.errors import InvalidIndexError, LogClosedError, OffsetsOutOfOrderError
from tidelog.storage import Directory, File
from tidelog.storage.names import FileKind, Transient, format_segment_file

__all__ = ["AbortedTxn", "TransactionIndex", "TxnIndexSearchResult", "decode_entries"]

_ENTRY = struct.Struct(">hqqqq")
_CURRENT_VERSION = 0
_CHUNK_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        """Its entry."""
        return _ENTRY.pack(
            _CURRENT_VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset
        )


def decode_entries(data: bytes) -> list[AbortedTxn]:
    """The transactions in the bytes of sound, whole entries."""
    return [AbortedTxn(*fields) for _, *fields in _ENTRY.iter_unpack(data)]


class TxnIndexSearchResult(NamedTuple):
    """Aborted transactions in a range, and whether the indexes of later segments can be left out."""

    aborted_txns: list[AbortedTxn]
    is_complete: bool


class TransactionIndex:
    """The transaction index of the segment at `base_offset`. One thread writes; any number read."""

    __slots__ = ("_closed", "_count", "_file", "_last_offset", "base_offset", "directory", "name")

    KIND = FileKind.TXN_INDEX
    ENTRY_SIZE = _ENTRY.size

    def __init__(self, directory: Directory, base_offset: int, transient: Transient = Transient.NONE) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.name = format_segment_file(base_offset, self.KIND, transient)
        """The file's name in its directory."""
        self._count: int | None = None  # unknown until the first question
        self._file: File | None = None  # the writer's
        self._last_offset: int | None = None
        self._closed = False

    @property
    def path(self) -> str:
        """Where the file is, or would be, now."""
        return self.directory.file(self.name)

    @property
    def entries(self) -> int:
        """The number of whole entries; 0 if there is no file."""
        count = self._count
        return self._measured() if count is None else count

    @property
    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return self.entries == 0

    @property
    def size_in_bytes(self) -> int:
        """The bytes that the entries take."""
        return self.entries * self.ENTRY_SIZE

    def append(self, txn: AbortedTxn) -> None:
        """Add an entry, making the file if this is the first. Last offsets must grow."""
        with self.directory.lock:
            self._check_open()
            count = self.entries
            last = self._last_offset
            if count and last is None:
                last = next(self._read(count - 1, count))[1].last_offset
            if last is not None and txn.last_offset <= last:
                raise OffsetsOutOfOrderError(
                    f"last offset {txn.last_offset} is not larger than the last ({last}) in {self.path}"
                )
            self._writer().pwrite(txn.encode(), count * self.ENTRY_SIZE)
            self._last_offset = txn.last_offset
            self._count = count + 1

    def all_aborted_txns(self) -> list[AbortedTxn]:
        """All entries."""
        return [txn for _, txn in self._read(0, self.entries)]

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """The transactions that overlap offsets [fetch_offset, upper_bound_offset).

        The result is complete when an entry's last stable offset reached the bound: what aborts later begins
        after it.
        """
        count = self.entries
        found = []
        for _, txn in self._read(self._first_slot(count, fetch_offset), count):
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound_offset:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound_offset:
                return TxnIndexSearchResult(found, True)
        return TxnIndexSearchResult(found, False)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from the first one on whose last offset is at or after `offset`."""
        with self.directory.lock:
            last = None
            for slot, txn in self._read(0, self.entries):
                if txn.last_offset >= offset:
                    self._truncate(slot, last)
                    return
                last = txn.last_offset

    def reset(self) -> None:
        """Remove all entries; an empty file stays."""
        with self.directory.lock:
            if self.directory.exists(self.name):
                self._truncate(0, None)

    def sanity_check(self) -> None:
        """Raise InvalidIndexError unless the file holds whole entries of this segment, in order."""
        with self.directory.lock:
            if not self.directory.exists(self.name):
                return
            length = self.directory.fs.stat(self.path).size
        if length % self.ENTRY_SIZE:
            raise InvalidIndexError(
                f"transaction index {self.path} has {length} bytes, no multiple of {self.ENTRY_SIZE}: rebuild"
            )
        last = self.base_offset - 1
        for slot, txn in self._read(0, length // self.ENTRY_SIZE):
            if txn.last_offset <= last:
                raise InvalidIndexError(
                    f"transaction index {self.path}, entry {slot}: last offset {txn.last_offset} is not "
                    f"above {last}; rebuild it"
                )
            last = txn.last_offset

    def flush(self) -> None:
        """Wait until the entries are on the disk; nothing to do if there is no file."""
        with self.directory.lock:
            file = self._file
            if file is None:
                try:  # a file without entries may have had some that were cut off
                    file = self.directory.open(self.name)
                except FileNotFoundError:
                    return
        self.directory.sync_file(file)

    def rename_to(self, transient: Transient) -> None:
        """Give the file, if there is one, the name with another transient suffix."""
        name = format_segment_file(self.base_offset, self.KIND, transient)
        with self.directory.lock:
            if self.directory.exists(self.name):
                self.directory.rename(self.name, name)
            self.name = name

    def delete_if_exists(self) -> bool:
        """Close, and remove the file; False if there was none. Later calls raise LogClosedError."""
        with self.directory.lock:
            self.close()
            return self.directory.unlink(self.name)

    def seal(self) -> None:
        """Release the writer's file; questions and even appends work as before."""
        with self.directory.lock:
            self._file = None

    def close(self) -> None:
        """Release the file; later calls raise LogClosedError."""
        with self.directory.lock:
            self._file = None
            self._closed = True

    def _measured(self) -> int:
        """Count the entries of the file."""
        with self.directory.lock:
            if self._count is None:
                self._check_open()
                try:
                    self._count = self.directory.fs.stat(self.path).size // self.ENTRY_SIZE
                except FileNotFoundError:
                    self._count = 0
            return self._count

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError(f"transaction index {self.path} was closed")

    def _writer(self) -> File:
        self._check_open()
        if self._file is None:
            self._file = self.directory.open(self.name, create=True)
        return self._file

    def _truncate(self, count: int, last_offset: int | None) -> None:
        self._count, self._last_offset = count, last_offset
        self._writer().truncate(count * self.ENTRY_SIZE)

    def _first_slot(self, count: int, fetch_offset: int) -> int:
        """A slot before which every last offset is below `fetch_offset`; used for large files only."""
        low, high = 0, count
        while high - low > _CHUNK_ENTRIES:
            middle = (low + high) // 2
            entry = next(self._read(middle, middle + 1), None)
            if entry is None or entry[1].last_offset >= fetch_offset:
                high = middle
            else:
                low = middle + 1
        return low

    def _read(self, start: int, end: int) -> Iterator[tuple[int, AbortedTxn]]:
        """Slots [start, end) and their entries, as far as the file goes."""
        self._check_open()
        if start >= end:
            return
        with self.directory.lock:  # so that the name is the file's, and the file is there
            self._check_open()
            file = self._file or self.directory.open(self.name)
        while start < end:
            wanted = min(end - start, _CHUNK_ENTRIES)
            data = file.pread(wanted * self.ENTRY_SIZE, start * self.ENTRY_SIZE)
            whole = len(data) // self.ENTRY_SIZE
            entries = _ENTRY.iter_unpack(memoryview(data)[: whole * self.ENTRY_SIZE])
            for slot, (version, *fields) in enumerate(entries, start):
                if version != _CURRENT_VERSION:
                    raise InvalidIndexError(
                        f"transaction index {self.path}, entry {slot}: version {version}, but only "
                        f"{_CURRENT_VERSION} is known; rebuild it"
                    )
                yield slot, AbortedTxn(*fields)
            start = start + whole if whole == wanted else end
