"""The offset map: for each key of the dirty part of a log, the last offset that it has there.

Fixed memory: 24 bytes a slot (a keyed hash of 128 bits and the offset, see `kernels.keymap`), of which the
load factor is used. More keys than that are more rounds of cleaning, not more memory.

A map can be shipped: `to_bytes` and `from_bytes` carry its entries, `merge` adds those of another map that
was filled with the same hash key. So the first pass can be done in parts, in several processes.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from tidelog.errors import InvalidInputError
from tidelog.kernels.keymap import KeyMap

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["SLOT_BYTES", "OffsetMap"]

SLOT_BYTES = 24
"""Memory of one slot; Kafka's are as large."""

_FIRST_SLOTS = 1 << 13
_HEADER = struct.Struct("<8s16sqqq")  # magic, hash key, slots, latest offset, entries
_MAGIC = b"tlkeys\x00\x01"


class OffsetMap:
    """Offsets by key, in `memory` bytes. `hash_key` (16 bytes) is drawn unless maps are to be merged."""

    def __init__(self, memory: int, load_factor: float = 0.9, *, hash_key: bytes | None = None) -> None:
        slots = memory // SLOT_BYTES
        if not 0 < load_factor <= 1:
            raise InvalidInputError(f"a load factor of {load_factor}; it must lie in (0, 1]")
        entries = min(int(slots * load_factor), slots - 1)
        if entries < 1:
            raise InvalidInputError(f"an offset map of {memory} bytes has no room for a single key")
        self.hash_key = os.urandom(16) if hash_key is None else hash_key
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
        if slots == kernel.slots:
            return
        used = self._table[: kernel.slots]
        kept = used[used[:, 2] != 0]
        kernel.clear()
        kernel.resize(slots)
        kernel.add_all(kept, self.max_entries)

    def get(self, key: Buffer) -> int:
        """The last offset of a key, -1 for none."""
        return self.kernel.find_key(key)

    def put(self, key: Buffer, offset: int) -> None:
        """Note a key's offset; a later one that is there stays. InvalidInputError where it is full."""
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
        used = self._table[self._table[:, 2] != 0]
        header = _HEADER.pack(_MAGIC, self.hash_key, self.slots, self.latest_offset, len(used))
        return header + bytes(used.data)

    @classmethod
    def from_bytes(cls, data: Buffer, load_factor: float = 0.9) -> Self:
        """A map as large as the one that `to_bytes` wrote, with its entries."""
        hash_key, slots, latest, entries = _unpack(data)
        found = cls(slots * SLOT_BYTES, load_factor, hash_key=hash_key)
        found.latest_offset = latest
        found._add(entries)
        return found

    def merge(self, data: Buffer) -> None:
        """Add the entries of another map's `to_bytes`; the later offset of a key stays.

        InvalidInputError where the maps have another hash key, or the entries do not fit.
        """
        hash_key, _, latest, entries = _unpack(data)
        if hash_key != self.hash_key:
            raise InvalidInputError("offset maps of different hash keys cannot be merged")
        self._add(entries)
        self.latest_offset = max(self.latest_offset, latest)

    def _add(self, entries: npt.NDArray[np.int64]) -> None:
        self.make_room(len(entries))
        if self.kernel.add_all(entries, self.max_entries) < len(entries):
            raise InvalidInputError(f"more keys than an offset map of {self.max_entries} takes")


def _unpack(data: Buffer) -> tuple[bytes, int, int, npt.NDArray[np.int64]]:
    view = memoryview(data).cast("B")
    if len(view) < _HEADER.size:
        raise InvalidInputError(f"an offset map has at least {_HEADER.size} bytes, not {len(view)}")
    magic, hash_key, slots, latest, entries = _HEADER.unpack_from(view)
    body = view[_HEADER.size :]
    if magic != _MAGIC or entries * SLOT_BYTES != len(body) or not 0 <= entries < slots:
        raise InvalidInputError("these bytes are no offset map")
    return hash_key, slots, latest, np.frombuffer(body, dtype=np.int64).reshape(-1, 3)
