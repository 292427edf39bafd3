"""What an append is: where it came from, and what became of it."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidelog.log.offsets import UNKNOWN_OFFSET
from tidelog.types import Codec

__all__ = ["NO_TIMESTAMP", "AppendOrigin", "LogAppendInfo"]

NO_TIMESTAMP = -1
_NO_CODEC = Codec.NONE


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


class LogAppendInfo(NamedTuple):
    """What an append told: first the facts of its batches, then, once appended, its true offsets."""

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
    """How many batches must be written anew: their magic or codec is not what the log stores."""
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = UNKNOWN_OFFSET
    is_duplicate: bool = False
    """The records were in the log already; the offsets are those of their first append."""

    @classmethod
    def of_plain(
        cls,
        first_offset: int,
        last_offset: int,
        leader_epoch: int,
        max_timestamp: int,
        size: int,
        log_start_offset: int,
    ) -> LogAppendInfo:
        """What became of one uncompressed batch of no producer."""
        return tuple.__new__(
            cls,
            (
                first_offset,
                last_offset,
                leader_epoch,
                max_timestamp,
                _NO_CODEC,
                size,
                1,
                last_offset,
                False,
                0,
                NO_TIMESTAMP,
                log_start_offset,
                False,
            ),
        )

    @property
    def first_or_last_offset_of_first_batch(self) -> int:
        """The first offset, or the nearest thing to it that magic 0 and 1 tell without decompression."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def offset_count(self) -> int:
        """The number of offsets the append spans; 0 where it is not known."""
        return (
            self.last_offset - self.first_offset + 1 if min(self.first_offset, self.last_offset) >= 0 else 0
        )
