"""Golden batches, damaged: the same damage for the same seed.

A mutant is a batch that Kafka wrote with a few of these done to it: bits flipped, bytes set to awkward
values, a stretch cut out, doubled or taken from another batch, a length or count field set, a number inside
made endless or huge. Half of the mutants get a good checksum again, so that the damage reaches the parsers
behind it; some are damaged inside their compressed payload, which is then compressed again. Half have a
good batch after them, the others end where the buffer ends.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cache

from tests.golden import golden_partitions
from tests.records.wire import HEADER_SIZE, seal
from tidelog.errors import CompressionError
from tidelog.records import scan_batches
from tidelog.records.compression import compress, decompress

__all__ = ["Mutator"]

MAX_SIZE = 6000
PER_PARTITION = 40

AWKWARD = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
NUMBERS = (-(1 << 31), -(1 << 31) + 1, -2, -1, 0, 1, 2, 7, 13, 14, 22, 48, 49, 61, 255, 65536, (1 << 31) - 1)
VARINTS = (
    b"\xff\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x00",
    b"\xfe\x01",
    b"\x01",
    b"\x00",
)


@cache
def corpus() -> tuple[bytes, ...]:
    """Batches of every golden partition, small ones first."""
    found = []
    for partition in golden_partitions():
        data = b"".join(path.read_bytes() for path in partition.logs())
        batches = [
            data[start : start + size]
            for start, size in scan_batches(data).require().rows[:, :2].tolist()
            if size <= MAX_SIZE
        ]
        found += sorted(batches, key=len)[:: max(1, len(batches) // PER_PARTITION)]
    return tuple(found)


class Mutator:
    """Makes mutants, one after the other, all from the seed."""

    def __init__(self, seed: int, max_size: int = MAX_SIZE) -> None:
        self._noise = random.Random(seed)
        self._corpus = [batch for batch in corpus() if len(batch) <= max_size]

    def __call__(self) -> bytes:
        """The next mutant."""
        noise = self._noise
        batch = noise.choice(self._corpus)
        if _codec(batch) and noise.random() < 0.4:
            mutant = self._inside(batch)
        else:
            mutant = self._damage(batch)
            if len(mutant) > 21 and noise.random() < 0.5:
                mutant = seal(self._fitting(mutant))
        return mutant + noise.choice(self._corpus) if noise.random() < 0.5 else mutant

    def _damage(self, data: bytes) -> bytes:
        out = bytearray(data)
        for _ in range(self._noise.choice((1, 1, 1, 2, 3))):
            if out:
                self._noise.choice(self._WAYS)(self, out)
        return bytes(out)

    def _fitting(self, data: bytes) -> bytes:
        """With a length field that fits again, most of the time: the damage is elsewhere."""
        if self._noise.random() < 0.8:
            return data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
        return data

    def _inside(self, batch: bytes) -> bytes:
        """Damage in the decompressed payload, compressed again and sealed."""
        codec, magic = _codec(batch), batch[16]
        start = HEADER_SIZE if magic == 2 else _value_start(batch)
        try:
            payload = compress(
                codec, self._damage(bytes(decompress(codec, batch[start:], magic=magic))), magic=magic
            )
        except CompressionError:
            return batch
        head = bytearray(batch[:start])
        if magic < 2:
            head[-4:] = struct.pack(">i", len(payload))
        return seal(self._fitting(bytes(head) + payload))

    def _at(self, out: bytearray) -> int:
        return self._noise.randrange(len(out))

    def _flip(self, out: bytearray) -> None:
        for _ in range(self._noise.choice((1, 1, 2, 8))):
            out[self._at(out)] ^= 1 << self._noise.randrange(8)

    def _set(self, out: bytearray) -> None:
        out[self._at(out)] = self._noise.choice(AWKWARD)

    def _cut(self, out: bytearray) -> None:
        at = self._at(out)
        if self._noise.random() < 0.5:
            del out[at:]
        else:
            del out[at : at + self._noise.randrange(1, 40)]

    def _double(self, out: bytearray) -> None:
        at = self._at(out)
        out[at:at] = out[at : at + self._noise.randrange(1, 200)]

    def _splice(self, out: bytearray) -> None:
        other = self._noise.choice(self._corpus)
        at, begin = self._at(out), self._noise.randrange(len(other))
        size = self._noise.randrange(1, 200)
        out[at : at + self._noise.choice((0, size))] = other[begin : begin + size]

    def _field(self, out: bytearray) -> None:
        """A field of the header."""
        at = self._noise.choice((8, 8, 16, 21, 23, 57, 57, 57, 27, 35, 53))
        if at == 16:
            out[16:17] = bytes([self._noise.choice((0, 1, 2, 3, 255))])
        elif at == 21:
            out[21:23] = struct.pack(">H", self._noise.choice((0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 0xFFFF)))
        elif at in (27, 35):
            out[at : at + 8] = struct.pack(">q", self._noise.choice(NUMBERS) << self._noise.choice((0, 32)))
        else:
            out[at : at + 4] = struct.pack(">i", self._noise.choice(NUMBERS))

    def _number(self, out: bytearray) -> None:
        """A varint, written over what is there or put in before it."""
        at, varint = self._at(out), self._noise.choice(VARINTS)
        out[at : at + self._noise.choice((0, 1, len(varint)))] = varint

    _WAYS: tuple[Callable[[Mutator, bytearray], None], ...] = (
        _flip,
        _set,
        _cut,
        _double,
        _splice,
        _field,
        _number,
        _number,
    )


def _codec(batch: bytes) -> int:
    return batch[22] & 7 if batch[16] == 2 else batch[17] & 7


def _value_start(message: bytes) -> int:
    at = 26 if message[16] == 1 else 18
    (key,) = struct.unpack_from(">i", message, at)
    return at + 8 + max(0, int(key))
