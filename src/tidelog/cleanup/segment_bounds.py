"""Segments that know where the next one begins: what their offsets are held against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.log.segments.segments import LogSegments
from tidelog.segment import Segment

__all__ = ["Bounded", "bounded"]


class Bounded(NamedTuple):
    """A segment, and where the next one begins."""

    segment: Segment
    end: int

    @property
    def offsets(self) -> range:
        """What its offsets lie in."""
        return range(self.segment.base_offset, self.end)


def bounded(segments: LogSegments, chosen: Iterable[Segment]) -> list[Bounded]:
    """Those chosen of a log's segments, with their bounds."""
    found = []
    for segment in chosen:
        following = segments.higher(segment.base_offset)
        end = segment.next_offset() if following is None else following.base_offset
        found.append(Bounded(segment, end))
    return found
