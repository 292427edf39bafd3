"""Value types that every package uses, under Kafka's names. Times are milliseconds."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from tidelog.errors import InvalidInputError

__all__ = [
    "ISOLATION_LEVELS",
    "LARGEST_OFFSET",
    "Codec",
    "FetchIsolation",
    "IsolationLevel",
    "OffsetPosition",
    "TimestampOffset",
    "TimestampType",
    "TopicPartition",
]

LARGEST_OFFSET = 2**63 - 1
"""No offset is larger, and no log continues after it."""


class TimestampType(enum.IntEnum):
    """Who stamped a record: nobody (magic 0), its producer or the log."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name Kafka's tools print."""
        return ("NoTimestampType", "CreateTime", "LogAppendTime")[self + 1]


class Codec(enum.IntEnum):
    """Compression codecs by their id in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name used in configs and by Kafka's tools."""
        return self.name.lower()

    @classmethod
    def parse(cls, name: str) -> Codec:
        """The codec called `name`, in any case."""
        return cls[name.upper()]


IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]
"""How far a reader sees, in the words of Kafka's consumers: everything, or no aborted and undecided data."""

ISOLATION_LEVELS: tuple[IsolationLevel, ...] = ("read_uncommitted", "read_committed")


class FetchIsolation(enum.Enum):
    """Up to where a read of a log may go. Calling it with an `IsolationLevel` converts that."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"

    @classmethod
    def _missing_(cls, value: object) -> FetchIsolation:
        if value not in ISOLATION_LEVELS:
            raise InvalidInputError(f"isolation is read_uncommitted or read_committed, not {value!r}")
        return cls.TXN_COMMITTED if value == "read_committed" else cls.HIGH_WATERMARK


class TopicPartition(NamedTuple):
    """One partition of a topic; `str()` gives its directory name.

    A tuple: it is the key of many dictionaries, and tuples are hashed and compared fast.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        """The directory's name."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    """An offset and the byte position of its batch in a segment file."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """A timestamp (ms) and the offset it belongs to."""

    timestamp: int
    offset: int
