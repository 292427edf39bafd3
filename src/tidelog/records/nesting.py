"""Sound batches behind damage: batches of the log, or bytes in a value of the batch that is damaged?

A value may hold whole batches, checksums and all (a topic of backups, of captured requests). If the header of
the batch around them is damaged, a search for the next sound batch finds them. What is left of that header
tells:

1. If its length leads to where the log goes on, or to a header whose length does, it is right: what lies
   before that place is in the batch, or in the next one that is damaged.
2. Else, if a v2 header has as many records as offsets, these are right: what lies before the end that it
   claims and has one of its offsets is in the batch, for the next one has later offsets. What goes on past
   both that end and its offsets is the log: the header is a stale copy, or the rest of its batch is gone.
3. No batch is in a value of itself: a header that is the same as that of the found batch is a stale copy.

Nothing tells where the length is wrong and cleaning has left holes in the damaged batch, or the end that it
claims lies before what was found.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["HEAD_BYTES", "has_header", "is_nested"]

HEAD_BYTES = 61
"""The size of a v2 header."""

_OVERHEAD = 12
_MAGIC_AT = 16
_LEAST_LENGTH = 14
_MOST_FOLLOWED = 64


def is_nested(
    read: Callable[[int], bytes],
    position: int,
    found: range,
    expected: int,
    offsets: range,
    goes_on: Callable[[int], bool],
) -> bool:
    """Whether sound batches at positions `found` are part of a value of a damaged one at `position`.

    `read` gives `HEAD_BYTES` bytes from a position on, fewer at the end of the file. Offset `expected` would
    follow where the damage begins, and `offsets` go from the first batch's first to the last one's last; they
    are empty where offsets go back. `goes_on` says of a position whether the log ends there, or a sound batch
    begins.
    """
    damaged = read(position)
    if len(damaged) < HEAD_BYTES or damaged == read(found.start):
        return False
    goes_on_at = _followed(read, position, found, goes_on)
    if goes_on_at is not None:
        return goes_on_at >= found.stop
    length = int.from_bytes(damaged[8:_OVERHEAD], "big", signed=True)
    end = position + _OVERHEAD + length
    if damaged[_MAGIC_AT] != 2 or (length >= 0 and end <= found.start):
        return False
    base = int.from_bytes(damaged[:8], "big", signed=True)
    count = int.from_bytes(damaged[57:HEAD_BYTES], "big", signed=True)
    last = base + int.from_bytes(damaged[23:27], "big", signed=True)
    if found.stop > end and offsets.stop - 1 > last:
        return False
    return last - base + 1 == count and expected <= base <= offsets.start <= last


def has_header(head: bytes, room: int) -> bool:
    """Whether bytes can be a header, sound or damaged, of a batch with so much room for it.

    Its base offset may be anything: no checksum covers it.
    """
    length = int.from_bytes(head[8:_OVERHEAD], "big", signed=True)
    return len(head) > _MAGIC_AT and head[_MAGIC_AT] <= 2 and _LEAST_LENGTH <= length <= room - _OVERHEAD


def _followed(
    read: Callable[[int], bytes], position: int, found: range, goes_on: Callable[[int], bool]
) -> int | None:
    """Where the lengths of damaged batches lead to, if the log goes on there; None if that is among what was
    found: it is not all in a value then.
    """
    for number in range(_MOST_FOLLOWED):
        head = read(position)
        length = int.from_bytes(head[8:_OVERHEAD], "big", signed=True)
        if len(head) <= _MAGIC_AT or length < _LEAST_LENGTH or (number and head[_MAGIC_AT] > 2):
            return None
        position += _OVERHEAD + length
        if goes_on(position):
            return position
        if position in found:
            return None
    return None
