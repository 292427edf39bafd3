"""What reading past damage leaves out: byte ranges, the offsets they stand for, and why."""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass

import pyarrow as pa

from tidelog.errors import InvalidInputError

__all__ = ["LOSS_SCHEMA", "Corrupt", "Loss", "log_loss"]

_log = logging.getLogger(__name__)


class Corrupt(enum.Enum):
    """What a reader does at damage."""

    FAIL = "fail"
    """Raise CorruptRecordError."""
    STOP = "stop"
    """End the partition before it."""
    SKIP = "skip"
    """Go on with the next sound batch."""

    @classmethod
    def parse(cls, text: str | Corrupt) -> Corrupt:
        """The policy of that name."""
        try:
            return cls(text)
        except ValueError:
            names = ", ".join(one.value for one in cls)
            raise InvalidInputError(f"corrupt must be one of {names}, not {text!r}") from None


@dataclass(frozen=True, slots=True)
class Loss:
    """Bytes [start_position, end_position) of a file that could not be read, and why.

    The offsets [first_offset, end_offset) lie between the sound batches around them. In a compacted log, not
    all of them need have been there.
    """

    topic: str
    partition: int
    source: str
    start_position: int
    end_position: int
    first_offset: int
    end_offset: int | None
    """None if it reaches to the end of the log."""
    reason: str
    is_unfinished: bool = False
    """Whether the log ends with it as an unfinished write ends it: a broker may be writing there."""

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end_position - self.start_position

    @property
    def offsets(self) -> str:
        """The offsets in words."""
        if self.end_offset is None:
            return f"offsets from {self.first_offset} on"
        if self.end_offset <= self.first_offset:
            return f"no offsets, before {self.end_offset}"
        return f"offsets {self.first_offset} to {self.end_offset - 1}"

    def __str__(self) -> str:
        """A sentence."""
        return (
            f"skipped {self.size} bytes at position {self.start_position} of {self.source} "
            f"({self.offsets}): {self.reason}"
        )


LOSS_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("start_position", pa.int64(), nullable=False),
        pa.field("end_position", pa.int64(), nullable=False),
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("end_offset", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("is_unfinished", pa.bool_(), nullable=False),
    ]
)
"""The fields of a loss as columns."""


def log_loss(loss: Loss) -> None:
    """Report a loss to the log."""
    _log.warning("%s", loss)
