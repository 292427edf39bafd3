"""Sound batches behind damage: batches of the log, or bytes in a value of the batch that is damaged?

A value may hold whole batches, checksums and all (a topic of backups, of captured requests). If the header of
the batch around them is damaged, a search for the next sound batch finds them. What is left of that header
tells:

1. If its length leads to where the log goes on, it is right: what lies before that place is in the batch.
2. Else, if a v2 header has as many records as offsets, these are right: what lies before the end that it
   claims and has one of its offsets is in the batch, for the next one has later offsets.

Nothing tells where the length is wrong and cleaning has left holes in the damaged batch, or the end that it
claims lies before what was found.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["HEAD_BYTES", "is_nested"]

HEAD_BYTES = 61
"""The size of a v2 header."""

_OVERHEAD = 12
_LEAST_LENGTH = 14


def is_nested(
    damaged: bytes,
    position: int,
    found: range,
    expected: int,
    first: int,
    goes_on: Callable[[int], bool],
) -> bool:
    """Whether sound batches at positions `found` are part of a value of a damaged one at `position`.

    `damaged` is its header, where offset `expected` would follow, and `first` is the first offset of what was
    found. `goes_on` says of a position whether the log ends there, or a sound batch begins.
    """
    if len(damaged) < HEAD_BYTES:
        return False
    length = int.from_bytes(damaged[8:_OVERHEAD], "big", signed=True)
    end = position + _OVERHEAD + length
    if length >= _LEAST_LENGTH and goes_on(end):
        return end >= found.stop
    if damaged[16] != 2 or (length >= 0 and end <= found.start):
        return False
    base = int.from_bytes(damaged[:8], "big", signed=True)
    count = int.from_bytes(damaged[57:HEAD_BYTES], "big", signed=True)
    last = base + int.from_bytes(damaged[23:27], "big", signed=True)
    return last - base + 1 == count and expected <= base <= first <= last
