"""Logs with damage and the truth about them: which records nothing happened to.

Every byte knows which byte of the undamaged log it was. A batch is intact if its bytes are all there, one
after the other, and none of them was changed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidelog.records import Record, encode_records
from tidelog.records.legacy_builder import encode_legacy_records
from tidelog.types import Codec

__all__ = ["DAMAGES", "DamagedLog", "make_log"]

Fact = tuple[int, bytes | None, bytes | None]
"""A record: offset, key, value."""

FOREIGN = -1


@dataclass
class Batch:
    """A batch of the undamaged log."""

    offset: int
    last: int
    data: bytes
    facts: list[Fact]


@dataclass
class Segment:
    """A segment file: its batches, and its bytes now with what each of them was."""

    base: int
    batches: list[Batch]
    data: npt.NDArray[np.uint8] = field(init=False)
    was: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Undamaged."""
        self.data = np.frombuffer(b"".join(batch.data for batch in self.batches), np.uint8).copy()
        self.was = np.arange(len(self.data), dtype=np.int64)

    def replace(self, start: int, stop: int, new: npt.NDArray[np.uint8]) -> None:
        """Put other bytes in place of [start, stop)."""
        self.data = np.concatenate((self.data[:start], new, self.data[stop:]))
        foreign = np.full(len(new), FOREIGN, np.int64)
        self.was = np.concatenate((self.was[:start], foreign, self.was[stop:]))

    def intact(self) -> list[Batch]:
        """The batches that nothing happened to."""
        found, position = [], 0
        for batch in self.batches:
            size = len(batch.data)
            at = np.flatnonzero(self.was == position)
            wanted = np.arange(position, position + size)
            if len(at) == 1 and np.array_equal(self.was[at[0] : at[0] + size], wanted):
                found.append(batch)
            position += size
        return found


@dataclass
class DamagedLog:
    """A log, what was done to it, and what must and may be read from it."""

    segments: list[Segment]
    lost: list[Segment]
    done: list[str]
    has_gaps: bool = False
    """Whether offsets are missing as compaction leaves them."""

    def required(self) -> list[Fact]:
        """The records of the batches that nothing happened to."""
        return [fact for one in self.segments for batch in one.intact() for fact in batch.facts]

    def known(self) -> dict[int, Fact]:
        """All records that ever were, by offset."""
        both = [*self.segments, *self.lost]
        return {fact[0]: fact for one in both for batch in one.batches for fact in batch.facts}

    def is_ambiguous(self, fact: Fact) -> bool:
        """Whether nothing tells that a record is not one of the log.

        No checksum covers a base offset: if one is damaged, and all that is around it is, or the log ends
        there, or there are gaps anyway, nothing contradicts it (that offsets grow, and that no intact record
        is missing, is checked besides), unless the index does. A batch in a damaged one, or in a stale copy
        of one, looks like any other if its header is gone.
        """
        if self.is_indexed_otherwise(fact):
            return False
        return self.is_stale(fact) or any(
            (fact[1] == b"forged" and b"forged" in batch.data) or fact[1:] in [own[1:] for own in batch.facts]
            for batch in self.damaged()
        )

    def is_stale(self, fact: Fact) -> bool:
        """Whether the key is there in bytes from elsewhere."""
        for segment in self.segments:
            data, at = segment.data.tobytes(), -1
            while fact[1] and (at := data.find(fact[1], at + 1)) >= 0:
                if (segment.was[at : at + len(fact[1])] == FOREIGN).all():
                    return True
        return False

    def is_indexed_otherwise(self, fact: Fact) -> bool:
        """Whether an index entry is at the record's batch, whose offset is damaged, and can be trusted.

        That is if a later entry is right, or if no batch of the file has offsets so far away.
        """
        for segment in self.segments:
            position, indexed, data = 0, [], segment.data.tobytes()
            for number, batch in enumerate(segment.batches):
                if number and number % 3 == 0:
                    indexed.append((position, batch))
                position += len(batch.data)
            there = [place for place, batch in indexed if data.startswith(batch.data, place)]
            for place, batch in indexed:
                is_it = data.startswith(batch.data[12:], place + 12) and place not in there
                is_far = abs(fact[0] - batch.offset) > 2 * len(data)
                is_trusted = is_far or place < max(there, default=0)
                if is_it and is_trusted and fact[1:] in [own[1:] for own in batch.facts]:
                    return True
        return False

    def damaged(self) -> Iterator[Batch]:
        """The batches that something happened to."""
        for segment in self.segments:
            intact = segment.intact()
            yield from (batch for batch in segment.batches if batch not in intact)

    def write(self, directory: Path) -> Path:
        """The files, with the offset indexes of the undamaged log."""
        directory.mkdir(parents=True)
        for segment in self.segments:
            name = f"{segment.base:020}"
            (directory / f"{name}.log").write_bytes(segment.data.tobytes())
            entries, position = b"", 0
            for n, batch in enumerate(segment.batches):
                if n and n % 3 == 0:
                    entries += struct.pack(">ii", batch.last - segment.base, position)
                position += len(batch.data)
            (directory / f"{name}.index").write_bytes(entries)
        return directory


def make_log(dice: random.Random) -> DamagedLog:
    """A log of a few segments, of one format; some have gaps, some have batches in their values."""
    magic = dice.choice([2, 2, 2, 2, 1, 0])
    codecs = [Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
    codecs += [Codec.ZSTD] if magic == 2 else []
    has_gaps = dice.random() < 0.25
    offset = dice.choice([0, 0, 700])
    segments = []
    for _ in range(dice.randint(1, 3)):
        base, batches = offset, []
        for _ in range(dice.randint(2, 14)):
            count = dice.randint(1, 6)
            records = [_record(dice, offset + n) for n in range(count)]
            codec = dice.choice(codecs)
            facts = [(offset + n, one.key, one.value) for n, one in enumerate(records)]
            if magic == 2:
                data = bytes(encode_records(records, base_offset=offset, codec=codec))
                batches.append(Batch(offset, offset + count - 1, data, facts))
            elif codec is Codec.NONE:
                for n, one in enumerate(records):
                    data = encode_legacy_records([one], magic=magic, base_offset=offset + n)
                    batches.append(Batch(offset + n, offset + n, data, facts[n : n + 1]))
            else:
                data = encode_legacy_records(records, magic=magic, base_offset=offset, codec=codec)
                batches.append(Batch(offset, offset + count - 1, data, facts))
            offset += count + (dice.randint(1, 9) if has_gaps and dice.random() < 0.3 else 0)
        segments.append(Segment(base, batches))
    return DamagedLog(segments, [], [], has_gaps)


def _record(dice: random.Random, offset: int) -> Record:
    value: bytes | None = dice.randbytes(dice.choice([0, 3, 40, 300]))
    kind = dice.random()
    if kind < 0.05:
        value = None
    elif kind < 0.15:  # a batch of its own, with offsets that would fit
        forged = [Record(b"forged", b"forged", timestamp=1_700_000_000_000)]
        value = b"<" + bytes(encode_records(forged, base_offset=offset + dice.randint(0, 3))) + b">"
    elif kind < 0.25:
        value = bytes(200)
    return Record(value, b"key-%d" % offset, timestamp=1_700_000_000_000 + offset)


def _flip(log: DamagedLog, dice: random.Random) -> None:
    segment = dice.choice(log.segments)
    if len(segment.data):
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(segment.data))
            segment.data[at] ^= 1 << dice.randrange(8)
            segment.was[at] = FOREIGN


def _stretch(segment: Segment, dice: random.Random, most: int = 900) -> tuple[int, int]:
    start = dice.randrange(len(segment.data))
    return start, min(start + dice.randint(1, most), len(segment.data))


def _zero(log: DamagedLog, dice: random.Random) -> None:
    segment = dice.choice(log.segments)
    if len(segment.data):
        start, stop = _stretch(segment, dice)
        segment.replace(start, stop, np.zeros(stop - start, np.uint8))


def _cut(log: DamagedLog, dice: random.Random) -> None:
    segment = dice.choice(log.segments)
    if len(segment.data):
        segment.replace(dice.randrange(len(segment.data)), len(segment.data), np.empty(0, np.uint8))


def _insert(log: DamagedLog, dice: random.Random) -> None:
    segment = dice.choice(log.segments)
    at = dice.randrange(len(segment.data) + 1)
    new = dice.choice([dice.randbytes, bytes])(dice.randint(1, 400))
    segment.replace(at, at, np.frombuffer(new, np.uint8))


def _remove(log: DamagedLog, dice: random.Random) -> None:
    segment = dice.choice(log.segments)
    if len(segment.data):
        start, stop = _stretch(segment, dice, 300)
        data = segment.data
        while (
            stop < len(data) and data[start] == data[stop]
        ):  # the same bytes are left: what is before is whole
            start, stop = start + 1, stop + 1
        segment.replace(start, stop, np.empty(0, np.uint8))


def _stale(log: DamagedLog, dice: random.Random) -> None:
    """Bytes from elsewhere in the log over others; sometimes whole batches."""
    source, target = dice.choice(log.segments), dice.choice(log.segments)
    if not len(source.data) or not len(target.data):
        return
    start, stop = _stretch(source, dice, 600)
    copied = source.data[start:stop].copy()
    at = dice.randrange(len(target.data))
    target.replace(at, min(at + len(copied), len(target.data)), copied)


def _lose(log: DamagedLog, dice: random.Random) -> None:
    if len(log.segments) > 1:
        log.lost.append(log.segments.pop(dice.randrange(len(log.segments))))


DAMAGES = {
    "flip": _flip,
    "zero": _zero,
    "cut": _cut,
    "insert": _insert,
    "remove": _remove,
    "stale": _stale,
    "lose": _lose,
}


def hurt(log: DamagedLog, dice: random.Random) -> DamagedLog:
    """Do one to three kinds of damage to a log."""
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        kind = dice.choice(sorted(DAMAGES))
        DAMAGES[kind](log, dice)
        log.done.append(kind)
    return log
