"""The offset map: for each key of the dirty part of a log, the last offset that it has there.

Fixed memory: 24 bytes a slot (a keyed hash of 128 bits and the offset, see `kernels.keymap`), of which the
load factor is used. More keys than that are more rounds of cleaning, not more memory.

A map can be shipped: `to_bytes` and `from_bytes` carry its entries, `merge` adds those of another map that
was filled with the same hash key. So the first pass can be done in parts, in several processes. A map that is
filled can be frozen: `frozen_parts` are its slots as they are, and a FrozenMap looks into those wherever they
lie, in a file that is mapped by all processes of a machine.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt

from tidelog.errors import InvalidInputError
from tidelog.kernels.keymap import KeyMap

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["SLOT_BYTES", "FrozenMap", "KeyOffsets", "OffsetMap"]

SLOT_BYTES = 24
"""Memory of one slot; Kafka's are as large."""

_FIRST_SLOTS = 1 << 13
_HEADER = struct.Struct("<8s16sqqq")  # magic, hash key, slots, latest offset, entries
_MAGIC = b"tlkeys\x00\x02"
_FROZEN_MAGIC = b"tlslots\x02"
_CHUNK_SLOTS = 1 << 15


class KeyOffsets(Protocol):
    """Offsets by key, to be looked up."""

    @property
    def kernel(self) -> KeyMap:
        """The map as kernels see it."""

    @property
    def latest_offset(self) -> int:
        """How far it tells."""


class OffsetMap:
    """Offsets by key, in `memory` bytes. `hash_key` (16 bytes) is drawn unless maps are to be merged."""

    def __init__(self, memory: int, load_factor: float = 0.9, *, hash_key: bytes | None = None) -> None:
        slots = memory // SLOT_BYTES
        if not 0 < load_factor <= 1:
            raise InvalidInputError(f"a load factor of {load_factor}; it must lie in (0, 1]")
        entries = min(int(slots * load_factor), slots - 1)
        if entries < 1:
            raise InvalidInputError(f"an offset map of {memory} bytes has no room for a single key")
        self.hash_key = secrets.token_bytes(16) if hash_key is None else hash_key
        """What the hash is keyed with: maps that have it in common can be merged."""
        if len(self.hash_key) != 16:
            raise InvalidInputError(f"a hash key has 16 bytes, not {len(self.hash_key)}")
        self.max_entries = entries
        """How many keys it takes."""
        self.latest_offset = -1
        """How far it tells: records after this offset were not looked at."""
        self._table: npt.NDArray[np.int64] = np.zeros((slots, 3), dtype=np.int64)
        low, high = struct.unpack("<QQ", self.hash_key)
        self.kernel = KeyMap(self._table, low, high)
        """The map as kernels see it."""
        self.kernel.resize(min(_FIRST_SLOTS, slots))

    def __len__(self) -> int:
        """How many keys it holds."""
        return self.kernel.size

    @property
    def size(self) -> int:
        """How many keys it holds."""
        return self.kernel.size

    @property
    def slots(self) -> int:
        """How many slots its memory has."""
        return self.kernel.capacity

    @property
    def is_full(self) -> bool:
        """Whether it takes no more keys."""
        return self.kernel.size >= self.max_entries

    @property
    def utilization(self) -> float:
        """Which part of the slots is used."""
        return self.kernel.size / self.kernel.capacity

    def clear(self) -> None:
        """Forget everything."""
        self.kernel.clear()
        self.kernel.resize(min(_FIRST_SLOTS, self.slots))
        self.latest_offset = -1

    def make_room(self, entries: int) -> None:
        """Take as many slots into use as so many more entries are found fast in, if there are so many."""
        kernel = self.kernel
        slots = kernel.slots
        while slots < kernel.capacity and slots // 2 - kernel.size < entries:
            slots = min(2 * slots, kernel.capacity)
        if slots != kernel.slots:
            kernel.grow(slots, np.empty((kernel.size + 1, 3), dtype=np.int64))

    def get(self, key: Buffer) -> int:
        """The last offset of a key, -1 for none."""
        return self.kernel.find_key(key)

    def put(self, key: Buffer, offset: int) -> None:
        """Note a key's offset; a later one that is there stays. InvalidInputError if it is full."""
        if offset < 0:
            raise InvalidInputError(f"{offset} is no offset")
        if self.is_full and self.get(key) < 0:
            raise InvalidInputError(f"an offset map of {self.max_entries} keys is full")
        self.make_room(1)
        self.kernel.put_key(key, offset)
        self.latest_offset = max(self.latest_offset, offset)

    # Shipping

    def to_bytes(self) -> bytes:
        """Its entries, to be shipped."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """`to_bytes` piece by piece, so that they are nowhere all at once."""
        yield self._header(_MAGIC, self.slots)
        used = self._table[: self.kernel.slots]
        for start in range(0, len(used), _CHUNK_SLOTS):
            chunk = used[start : start + _CHUNK_SLOTS]
            yield chunk[chunk[:, 2] != 0].tobytes()

    def frozen_parts(self) -> Iterator[bytes | memoryview]:
        """What a FrozenMap is made of, piece by piece."""
        yield self._header(_FROZEN_MAGIC, self.kernel.slots)
        yield self._table[: self.kernel.slots].data.cast("B")

    def _header(self, magic: bytes, slots: int) -> bytes:
        return _HEADER.pack(magic, self.hash_key, slots, self.latest_offset, self.kernel.size)

    @classmethod
    def from_bytes(cls, data: Buffer, load_factor: float = 0.9) -> Self:
        """A map as large as the one that `to_bytes` wrote, with its entries."""
        hash_key, slots, latest, entries = _entries(data)
        found = cls(slots * SLOT_BYTES, load_factor, hash_key=hash_key)
        found.latest_offset = latest
        found._add(entries)
        return found

    def merge(self, data: Buffer) -> None:
        """Add the entries of another map's `to_bytes`; the later offset of a key stays.

        InvalidInputError if the maps have another hash key, or the entries do not fit.
        """
        hash_key, _, latest, entries = _entries(data)
        if hash_key != self.hash_key:
            raise InvalidInputError("offset maps of different hash keys cannot be merged")
        self._add(entries)
        self.latest_offset = max(self.latest_offset, latest)

    def _add(self, entries: npt.NDArray[np.int64]) -> None:
        for start in range(0, len(entries), _CHUNK_SLOTS):  # slots come into use for keys that are new
            chunk = entries[start : start + _CHUNK_SLOTS]
            self.make_room(len(chunk))
            if self.kernel.add_all(chunk, self.max_entries) < len(chunk):
                raise InvalidInputError(f"more keys than an offset map of {self.max_entries} takes")


class FrozenMap:
    """A filled map on the bytes of `frozen_parts`, which are not copied, nor written."""

    def __init__(self, data: Buffer) -> None:
        hash_key, slots, self.latest_offset, entries, table = _unpack(data, _FROZEN_MAGIC)
        if len(table) != slots or entries >= slots:
            raise InvalidInputError("these bytes are not a frozen offset map")
        self.kernel = KeyMap(table, *struct.unpack("<QQ", hash_key))


def _unpack(data: Buffer, magic: bytes = _MAGIC) -> tuple[bytes, int, int, int, npt.NDArray[np.int64]]:
    """Hash key, slots, latest offset, number of entries; and what stands after the header."""
    view = memoryview(data).cast("B")
    if len(view) < _HEADER.size:
        raise InvalidInputError(f"an offset map has at least {_HEADER.size} bytes, not {len(view)}")
    found, hash_key, slots, latest, entries = _HEADER.unpack_from(view)
    body = view[_HEADER.size :]
    if found != magic or len(body) % SLOT_BYTES or not 0 <= entries < slots:
        raise InvalidInputError("these bytes are not an offset map")
    return hash_key, slots, latest, entries, np.frombuffer(body, dtype=np.int64).reshape(-1, 3)


def _entries(data: Buffer) -> tuple[bytes, int, int, npt.NDArray[np.int64]]:
    hash_key, slots, latest, count, entries = _unpack(data)
    if len(entries) != count:
        raise InvalidInputError("these bytes are not an offset map")
    return hash_key, slots, latest, entries
