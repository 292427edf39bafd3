"""The offsets of one log and the rules they move by. Values only: a change makes a new `LogOffsets`.

    log start <= last stable <= high watermark <= log end

    log start       first offset a reader may ask for
    first unstable  first offset of a transaction that is open, or whose marker lies above the high watermark
    last stable     the first unstable offset where it lies below the high watermark, else the high watermark
    high watermark  end of what is replicated
    log end         the next offset to be given

An offset may carry where it is on disk (segment and byte position), so that a read up to it needs no index.
That is looked up when it is first needed; until then only the message offset is known.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.errors import InvalidInputError, OffsetOutOfRangeError

__all__ = ["UNKNOWN_OFFSET", "LogOffsetMetadata", "LogOffsets"]

UNKNOWN_OFFSET = -1


class LogOffsetMetadata(NamedTuple):
    """An offset and, if it is known, the segment that holds it and its byte position there."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = -1

    @property
    def message_offset_only(self) -> bool:
        """True while nobody has looked up where the offset is on disk."""
        return self.segment_base_offset == UNKNOWN_OFFSET and self.relative_position_in_segment == -1

    def on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether this offset is known to lie on an older segment than `other`."""
        if self.message_offset_only or other.message_offset_only:
            return False
        return self.segment_base_offset < other.segment_base_offset

    def on_same_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether both offsets are known to lie on one segment."""
        if self.message_offset_only or other.message_offset_only:
            return False
        return self.segment_base_offset == other.segment_base_offset

    def position_diff(self, other: LogOffsetMetadata) -> int:
        """Bytes from `other` to this offset; both must be known to lie on one segment."""
        if not self.on_same_segment(other):
            raise InvalidInputError(f"{self} and {other} are not both known to lie in one segment")
        return self.relative_position_in_segment - other.relative_position_in_segment

    def __str__(self) -> str:
        """The offset with its place, as Kafka prints it."""
        place = f"{self.segment_base_offset}:{self.relative_position_in_segment}"
        return f"(offset={self.message_offset}, segment=[{place}])"


class _Offsets(NamedTuple):
    log_start: int
    first_unstable: LogOffsetMetadata | None
    high_watermark: LogOffsetMetadata
    log_end: LogOffsetMetadata


class LogOffsets(_Offsets):
    """A consistent picture of a log's offsets; one that would break their order cannot be made.

    The log keeps the current one in a single attribute, so that readers see all four of the same moment.
    """

    __slots__ = ()

    def __new__(
        cls,
        log_start: int,
        first_unstable: LogOffsetMetadata | None,
        high_watermark: LogOffsetMetadata,
        log_end: LogOffsetMetadata,
    ) -> LogOffsets:
        """Check 0 <= log start <= last stable <= high watermark <= log end."""
        self = super().__new__(cls, log_start, first_unstable, high_watermark, log_end)
        if not 0 <= log_start <= self.last_stable_offset <= high_watermark[0] <= log_end[0]:
            raise InvalidInputError(
                f"offsets out of order: log start {log_start}, last stable {self.last_stable_offset}, "
                f"high watermark {high_watermark[0]}, log end {log_end[0]}"
            )
        return self

    @classmethod
    def at(cls, offset: int) -> LogOffsets:
        """The offsets of an empty log that starts at `offset`."""
        return cls(offset, None, LogOffsetMetadata(offset), LogOffsetMetadata(offset))

    @property
    def last_stable(self) -> LogOffsetMetadata:
        """The end of what a committed read may see."""
        unstable = self.first_unstable
        if unstable is not None and unstable[0] < self.high_watermark[0]:
            return unstable
        return self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """`last_stable` without its place on disk."""
        return self.last_stable.message_offset

    def update_high_watermark(self, to: LogOffsetMetadata | int) -> LogOffsets:
        """The high watermark moved to `to`, up or down, but kept within [log start, log end]."""
        mark = to if isinstance(to, LogOffsetMetadata) else LogOffsetMetadata(to)
        if mark.message_offset < self.log_start:
            mark = LogOffsetMetadata(self.log_start)
        elif mark.message_offset >= self.log_end.message_offset:
            mark = self.log_end
        return LogOffsets(self.log_start, self.first_unstable, mark, self.log_end)

    def maybe_increment_high_watermark(self, to: LogOffsetMetadata) -> LogOffsets | None:
        """The high watermark raised to `to`; None if it already stands there or higher.

        The same offset on a newer segment counts as higher (the log has rolled); for that the place of the
        current mark must have been looked up. Past the log end is refused.
        """
        if to.message_offset > self.log_end.message_offset:
            raise OffsetOutOfRangeError(f"high watermark {to} is past the log end {self.log_end}")
        old = self.high_watermark
        grows = old.message_offset < to.message_offset
        if not grows and not (old.message_offset == to.message_offset and old.on_older_segment(to)):
            return None
        return LogOffsets(self.log_start, self.first_unstable, to, self.log_end)

    def appended(self, end: LogOffsetMetadata) -> LogOffsets:
        """The log end moved forward by an append; nothing else moves, so that nothing has to be checked."""
        return tuple.__new__(LogOffsets, (self[0], self[1], self[2], end))

    def with_log_end(self, end: LogOffsetMetadata) -> LogOffsets:
        """The log end moved by an append, a roll or a truncation; a high watermark at or past it follows.

        A first unstable offset past the end is forgotten: the caller sets the true one once it is known.
        """
        mark = end if self.high_watermark[0] >= end.message_offset else self.high_watermark
        unstable = self.first_unstable
        if unstable is not None and unstable[0] >= end.message_offset:
            unstable = None
        return LogOffsets(min(self.log_start, end.message_offset), unstable, mark, end)

    def with_first_unstable(self, unstable: LogOffsetMetadata | None) -> LogOffsets:
        """Another first unstable offset; one below the log start counts as the log start."""
        if unstable is None and self[1] is None:
            return self
        if unstable is not None and unstable.message_offset < self.log_start:
            unstable = LogOffsetMetadata(self.log_start)
        return LogOffsets(self.log_start, unstable, self.high_watermark, self.log_end)

    def with_log_start(self, start: int) -> LogOffsets:
        """The log start raised (never lowered), with all that must not lie below it.

        Past the high watermark is refused: what is not replicated yet cannot be deleted.
        """
        if start > self.high_watermark[0]:
            raise OffsetOutOfRangeError(
                f"cannot raise the log start to {start}, above the high watermark {self.high_watermark[0]}"
            )
        if start <= self.log_start:
            return self
        moved = LogOffsets(start, None, self.high_watermark, self.log_end)
        return moved.with_first_unstable(self.first_unstable)

    def with_places(
        self, high_watermark: LogOffsetMetadata | None = None, first_unstable: LogOffsetMetadata | None = None
    ) -> LogOffsets:
        """The same offsets with their places on disk filled in, as far as they have not moved in the
        meantime.
        """
        mark, unstable = self.high_watermark, self.first_unstable
        if high_watermark is not None and high_watermark.message_offset == mark.message_offset:
            mark = high_watermark
        if first_unstable is not None and unstable is not None and first_unstable[0] == unstable[0]:
            unstable = first_unstable
        return LogOffsets(self.log_start, unstable, mark, self.log_end)
