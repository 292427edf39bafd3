"""An append: its origin, the facts of its batches, and its result."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidelog.types import Codec

__all__ = ["NO_TIMESTAMP", "AppendOrigin", "AppendResult", "LogAppendInfo"]

NO_TIMESTAMP = -1


class AppendOrigin(enum.IntEnum):
    """Who appends, and so how much is checked.

    origin       offsets are      producer epochs   sequences, duplicates   control batches
    CLIENT       assigned         checked           checked                 refused
    COORDINATOR  assigned         checked           not                     taken
    RAFT_LEADER  taken as given   checked           not                     taken
    REPLICATION  taken as given   logged            not                     taken
    """

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2
    REPLICATION = 3

    @property
    def assigns_offsets(self) -> bool:
        """Whether the log gives the records their offsets."""
        return self is AppendOrigin.CLIENT or self is AppendOrigin.COORDINATOR


class AppendResult(NamedTuple):
    """The result of an append, as Kafka answers it to a producer."""

    first_offset: int
    """-1 where nothing was appended, and for offsets taken as given from a first batch of magic 0 or 1."""
    last_offset: int
    log_append_time: int
    """When, in ms since 1970, with `message.timestamp.type=LogAppendTime`; -1 for records' own times."""
    log_start_offset: int
    is_duplicate: bool
    """The records were in the log already; the offsets are those of their first append."""


class LogAppendInfo(NamedTuple):
    """What the headers of an append say."""

    first_offset: int
    """-1 where the first batch is of magic 0 or 1 and offsets are taken as given."""
    last_offset: int
    last_leader_epoch: int
    """-1 for none."""
    max_timestamp: int
    source_codec: Codec
    """The codec of the last compressed batch; NONE where none is compressed."""
    valid_bytes: int
    batches: int
    """How many batches of the append are taken; a follower drops those of a later leader's."""
    last_offset_of_first_batch: int
    has_producer_ids: bool
    rewrites: int
    """How many batches must be rewritten: their magic or codec is not what the log stores."""

    @property
    def first_or_last_offset_of_first_batch(self) -> int:
        """The first offset, or the nearest thing to it that magic 0 and 1 tell without decompression."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def offset_count(self) -> int:
        """The number of offsets the append spans; 0 if it is not known."""
        return (
            self.last_offset - self.first_offset + 1 if min(self.first_offset, self.last_offset) >= 0 else 0
        )
