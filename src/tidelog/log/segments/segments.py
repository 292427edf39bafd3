"""The segments of a log in the order of their base offsets: an immutable value.

A change makes a new one, so a reader keeps the segments it began with, whatever the writer does in the
meantime. The last segment is the active one; there is always at least one.

Segments by time: timestamps need not grow from segment to segment, so the answer to a time is the first one
whose largest timestamp reaches it. The running maximum of those does grow and can be searched. It is taken
over the sealed segments when it is first asked for, and carried over to longer lists of the same segments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from tidelog.errors import InvalidInputError
from tidelog.kernels.shared import SegmentsFields
from tidelog.segment import ActiveSegment, Segment

__all__ = ["LogSegments"]


class LogSegments(SegmentsFields):
    """The segments of a log, oldest first."""

    __slots__ = ("base_offsets",)

    _all: tuple[Segment, ...]

    def __init__(self, segments: Iterable[Segment], _largest: Sequence[int] = ()) -> None:
        # The running maximum is that of the first sealed segments, as far as it is known.
        super().__init__(tuple(sorted(segments, key=lambda segment: segment.base_offset)), list(_largest))
        self.base_offsets = tuple(segment.base_offset for segment in self._all)
        """Their base offsets."""
        if len(set(self.base_offsets)) != len(self.base_offsets):
            raise InvalidInputError(f"two segments with one base offset among {self.base_offsets}")

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def __getitem__(self, index: int) -> Segment:
        """The one at `index`, the oldest at 0."""
        return self._all[index]

    def __iter__(self) -> Iterator[Segment]:
        """All, oldest first."""
        return iter(self._all)

    def __contains__(self, base_offset: object) -> bool:
        """Whether a segment begins at this offset."""
        return self.at(base_offset) is not None if isinstance(base_offset, int) else False

    @property
    def first(self) -> Segment:
        """The oldest."""
        return self._all[0]

    @property
    def last(self) -> Segment:
        """The newest: the active one."""
        return self._all[-1]

    @property
    def active(self) -> ActiveSegment:
        """The newest, to be written."""
        last = self._all[-1]
        if not isinstance(last, ActiveSegment):
            raise InvalidInputError(f"the segment at {last.base_offset} is sealed")
        return last

    @property
    def size_in_bytes(self) -> int:
        """The bytes of their logs."""
        return sum(segment.size for segment in self._all)

    def at(self, base_offset: int) -> Segment | None:
        """The segment that begins at exactly this offset."""
        index = bisect_left(self.base_offsets, base_offset)
        if index < len(self._all) and self.base_offsets[index] == base_offset:
            return self._all[index]
        return None

    def floor(self, offset: int) -> Segment | None:
        """The last segment that begins at or before `offset`."""
        index = bisect_right(self.base_offsets, offset)
        return self._all[index - 1] if index else None

    def higher(self, offset: int) -> Segment | None:
        """The first segment that begins after `offset`."""
        index = bisect_right(self.base_offsets, offset)
        return self._all[index] if index < len(self._all) else None

    def lower(self, offset: int) -> Segment | None:
        """The last segment that begins before `offset`."""
        index = bisect_left(self.base_offsets, offset)
        return self._all[index - 1] if index else None

    def from_floor(self, offset: int) -> Sequence[Segment]:
        """The segment that holds `offset` (or the first, if all begin later) and all after it."""
        return self._all[max(bisect_right(self.base_offsets, offset) - 1, 0) :]

    def values(self, start: int, end: int) -> Sequence[Segment]:
        """The segments that can hold offsets of [start, end): from the one that holds `start` on."""
        if start >= end:
            return ()
        first = max(bisect_right(self.base_offsets, start) - 1, 0)
        return self._all[first : bisect_left(self.base_offsets, end)]

    def first_reaching(self, timestamp: int) -> Segment | None:
        """The first segment whose largest timestamp is not below this."""
        segments = self._all
        sealed = len(segments) - 1
        if len(self._largest) < sealed:
            self._largest = self._running_maximum(sealed)
        index = bisect_left(self._largest, timestamp, 0, sealed)
        segment = segments[index]
        return None if index == sealed and segment.largest_timestamp < timestamp else segment

    def _running_maximum(self, count: int) -> list[int]:
        known = list(self._largest)
        for segment in self._all[len(known) : count]:
            largest = segment.largest_timestamp
            known.append(max(largest, known[-1]) if known else largest)
        return known

    def with_rolled(self, sealed: Segment, active: Segment) -> LogSegments:
        """The last segment replaced by itself, sealed, and a new one begun after it."""
        return LogSegments((*self._all[:-1], sealed, active), self._largest[: len(self._all) - 1])

    def with_last(self, segment: Segment) -> LogSegments:
        """Another last segment in the place of the present one."""
        return LogSegments((*self._all[:-1], segment), self._largest[: len(self._all) - 1])

    def replaced(self, old: Iterable[Segment], new: Iterable[Segment]) -> LogSegments:
        """Without `old`, with `new`."""
        gone = {id(segment) for segment in old}
        return LogSegments((*(segment for segment in self._all if id(segment) not in gone), *new))
