"""Batches of a file that may be damaged anywhere: each sound one, and the bytes between them that are none.

1. Batches are read one after the other as long as their checksums hold.
2. At bytes that are no sound batch, the lengths of the damaged batches are followed, as long as their offsets
   agree with them. So a batch inside a record's value is not mistaken for one of the log.
3. Where the lengths lead nowhere, every byte is tried as the beginning of a batch (`kernels.resync`).

A length that lies costs no memory: a batch larger than a window is checked in pieces before it is read whole.
Offsets are only checked against [floor, limit) here. No checksum covers them; which of two batches that
contradict each other is right is for the caller to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidelog.errors import CorruptRecordError, TornBatchError
from tidelog.kernels import resync as _kernel
from tidelog.records.batches import HEADER_SIZE, scan_batches
from tidelog.records.windows import ByteSource, Window, is_sound

__all__ = ["Damage", "walk_sound"]

_SEARCH_BYTES = 4 << 20
_LONGEST_HEADER = 64
_SMALLEST = 26


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [start, end) of a file that are no sound batch, and why."""

    start: int
    end: int
    reason: str
    is_unfinished: bool = False
    """Whether the file ends inside a batch: a write that was not finished looks like that."""


def walk_sound(
    source: ByteSource,
    end: int,
    *,
    floor: int,
    limit: int,
    start: int = 0,
    window_bytes: int | None = None,
    name: str | None = None,
) -> Iterator[Window | Damage]:
    """The sound batches of bytes [start, end), in windows, and the damage between them, by position.

    Batches of a segment have offsets in [floor, limit). A window is good until the next one is asked for.
    """
    position = start
    usual = max(window_bytes or source.window_bytes, _LONGEST_HEADER)
    while position < end:
        data, origin = source.read(position, min(usual, end - position)), position
        end = min(end, origin + len(data)) if len(data) < min(usual, end - position) else end
        fault: CorruptRecordError | None = None
        while fault is None and position < origin + len(data):
            scan = scan_batches(
                data, start=position - origin, origin=origin, max_batches=1 << 12, source=name
            )
            position, fault = scan.end, scan.fault
            if len(scan.table):
                yield Window(data, origin, scan.table)
        if fault is None:
            continue
        is_cut = isinstance(fault, TornBatchError) and origin + len(data) < end
        if is_cut and position > origin:
            continue  # the window ends inside it: the next one begins with it
        if is_cut:
            large = 12 + int.from_bytes(data[8:12], "big", signed=True)
            if large <= end - position and is_sound(source, position, large):
                data = source.read(position, large)
                scan = scan_batches(data, origin=position, source=name)
                if len(scan.table):
                    yield Window(data, position, scan.table)
                    position = scan.end
                    continue
        found = _next_sound(source, position, end, floor, limit)
        yield _damage(source, position, found, fault, found == end)
        position = found


def _damage(source: ByteSource, start: int, end: int, fault: CorruptRecordError, is_last: bool) -> Damage:
    head = bytes(source.read(start, min(HEADER_SIZE, end - start)))
    if len(head) > 17 and not any(head):
        return Damage(start, end, "there are zeros where a batch should be")
    return Damage(start, end, fault.reason, is_last and isinstance(fault, TornBatchError))


def _next_sound(source: ByteSource, damaged: int, end: int, floor: int, limit: int) -> int:
    """Where the next sound batch after the damaged one begins; `end` if there is none."""
    status, position, following = _follow(source, damaged, end, floor, limit)
    if status == _kernel.FOUND:
        return position
    # If its length leads to the end of the file, what comes after its offsets would prove the length wrong.
    least = max(floor, following) if status == _kernel.END else floor
    claimed = _header(source, damaged)
    extent = damaged
    if claimed is not None and floor <= claimed.base < limit and damaged + claimed.size <= end:
        extent += claimed.size if _goes_on(source, damaged, end, limit) else 0
    found = _search(source, damaged + 1, end, least, limit)
    while found < extent and found < end and not _goes_on(source, found, end, limit):
        found = _search(source, found + 1, end, least, limit)
    return found


class _Header(NamedTuple):
    """What a header says of itself."""

    base: int
    last: int
    size: int


def _header(source: ByteSource, position: int) -> _Header | None:
    """The header at a position, if its numbers can be true."""
    head = bytes(source.read(position, HEADER_SIZE))
    if len(head) < _SMALLEST or head[16] > 2 or (head[16] == 2 and len(head) < HEADER_SIZE):
        return None
    base = int.from_bytes(head[:8], "big", signed=True)
    size = 12 + int.from_bytes(head[8:12], "big", signed=True)
    delta = int.from_bytes(head[23:27], "big", signed=True) if head[16] == 2 else 0
    return _Header(base, base + delta, size) if size >= _SMALLEST and delta >= 0 else None


def _goes_on(source: ByteSource, position: int, end: int, limit: int) -> bool:
    """Whether the batch at a position is followed by the header of another one, or by the end of the file.

    If that holds for a damaged batch, its length is believed. A batch inside it may then be part of a value,
    and is believed only if it goes on, too.
    """
    here = _header(source, position)
    if here is None or position + here.size >= end:
        return here is not None
    after = _header(source, position + here.size)
    return after is not None and here.last < after.base < limit


def _follow(source: ByteSource, start: int, end: int, floor: int, limit: int) -> tuple[int, int, int]:
    """Follow lengths: status, position, and the offset that is expected there (`kernels.resync`)."""
    answer = np.zeros(2, np.int64)
    position, expected = start, -1
    while True:
        data = source.read(position, min(_SEARCH_BYTES, end - position))
        is_end = position + len(data) >= end
        status = _kernel.follow_lengths(data, is_end, floor, limit, expected, answer)
        at, expected = position + int(answer[0]), int(answer[1])
        if status != _kernel.MORE:
            return status, at, expected
        if at > position:
            position = at
            continue
        here = _header(source, position)
        if here is None or here.size > end - position:
            return _kernel.NONE, position, expected
        if expected >= 0 and is_sound(source, position, here.size):
            return _kernel.FOUND, position, expected
        position, expected = position + here.size, here.last + 1


def _search(source: ByteSource, start: int, end: int, floor: int, limit: int) -> int:
    """The first sound batch of [start, end), tried at every byte; `end` if there is none."""
    answer = np.zeros(2, np.int64)
    position = start
    while position < end:
        data = source.read(position, min(_SEARCH_BYTES, end - position))
        if not len(data):
            return end  # the file has become shorter
        is_end = position + len(data) >= end
        status = _kernel.find_batch(data, 0, is_end, floor, limit, answer)
        at, size = position + int(answer[0]), int(answer[1])
        if status == _kernel.FOUND:
            return at
        if status == _kernel.NONE:
            if is_end or at == position:
                return end
            position = at
        elif at > position and size <= _SEARCH_BYTES:
            position = at  # read again from there: then it is whole
        elif size <= end - at and is_sound(source, at, size):
            return at
        else:
            position = at + 1
    return end
