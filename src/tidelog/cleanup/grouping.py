"""Which segments compaction writes into one: from the oldest on, as many as fit.

A segment joins the group before it unless with it

    the logs       would be larger than `segment.bytes`
    an index       offset or time index, would be larger than `segment.index.bytes`
    the offsets    would reach further from the group's base offset than an index can tell (2^31 - 1)

Where a segment ends is taken from where the next one begins (for the last: from the first offset that is not
to be cleaned): that can only be too high, and costs no look at the file. An empty segment holds no offset, so
it joins whatever its place: otherwise one would be left for each 2^31 offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidelog.index.base import MAX_RELATIVE_OFFSET

__all__ = ["GroupedSegment", "group_segments_by_size"]


class IndexSize(Protocol):
    """What is asked of an index."""

    @property
    def size_in_bytes(self) -> int:
        """The bytes that its entries take."""


class GroupedSegment(Protocol):
    """What is asked of a segment."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def size(self) -> int:
        """The bytes of its log."""

    @property
    def offset_index(self) -> IndexSize:
        """Its offset index."""

    @property
    def time_index(self) -> IndexSize:
        """Its time index."""


_Segment = TypeVar("_Segment", bound=GroupedSegment)


def group_segments_by_size(
    segments: Sequence[_Segment], *, max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[list[_Segment]]:
    """The segments, oldest first, in groups of those that become one segment."""
    groups: list[list[_Segment]] = []
    sizes = [0, 0, 0]
    for index, segment in enumerate(segments):
        following = index + 1 < len(segments)
        end = segments[index + 1].base_offset if following else first_uncleanable_offset
        own = _sizes(segment)
        joined = [size + more for size, more in zip(sizes, own, strict=True)]
        if (
            groups
            and joined[0] <= max_size
            and max(joined[1:]) <= max_index_size
            and (own[0] == 0 or end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            sizes = joined
        else:
            groups.append([segment])
            sizes = own
    return groups


def _sizes(segment: GroupedSegment) -> list[int]:
    """The bytes of its log, its offset index and its time index; an index that is not there has none."""
    return [segment.size, _index_size(segment.offset_index), _index_size(segment.time_index)]


def _index_size(index: IndexSize) -> int:
    try:
        return index.size_in_bytes
    except FileNotFoundError:
        return 0
