"""What the kernels' fault codes mean, as errors of the tree.

Kernels run without the GIL and cannot raise; they stop, return one of these codes and where they stood.
"""

from __future__ import annotations

import enum

from tidelog.errors import (
    BadLengthError,
    BadVarintError,
    ChecksumError,
    CompressionError,
    CorruptRecordError,
    CountMismatchError,
    InvalidTimestampError,
    RecordOverrunError,
    TidelogError,
    TornBatchError,
    UnknownMagicError,
)

__all__ = ["Fault", "fault_error"]


class Fault(enum.IntEnum):
    """The codes of kernels/faults.py (a test compares them)."""

    TORN = 1
    BAD_LENGTH = 2
    CHECKSUM = 3
    UNKNOWN_MAGIC = 4
    BAD_VARINT = 5
    RECORD_OVERRUN = 6
    COUNT_MISMATCH = 7
    BAD_TIMESTAMP = 8
    NESTED_COMPRESSION = 9
    BAD_OFFSET = 10
    NO_ROOM = 11
    UNUSUAL = 12
    SCRATCH_FULL = 13


_ERRORS: dict[Fault, tuple[type[CorruptRecordError], str]] = {
    Fault.TORN: (TornBatchError, "the data ends inside a batch"),
    Fault.BAD_LENGTH: (BadLengthError, "a batch's length is smaller than its header"),
    Fault.CHECKSUM: (ChecksumError, "a batch's checksum does not match its bytes"),
    Fault.UNKNOWN_MAGIC: (UnknownMagicError, "unknown magic: not 0, 1 or 2"),
    Fault.BAD_VARINT: (BadVarintError, "a variable-length number does not end"),
    Fault.RECORD_OVERRUN: (RecordOverrunError, "a record reaches outside its batch or its own length"),
    Fault.COUNT_MISMATCH: (CountMismatchError, "a batch does not hold as many records as it says"),
    Fault.NESTED_COMPRESSION: (CompressionError, "a compressed message holds another compressed one"),
    Fault.BAD_OFFSET: (
        CorruptRecordError,
        "a compressed message's offset is below that of its last inner message",
    ),
}


def fault_error(
    code: int, *, position: int, offset: int | None, source: str | None, reason: str | None = None
) -> TidelogError:
    """The error for fault `code` of the batch at `position`; `reason` replaces the general words."""
    fault = Fault(code)
    if fault is Fault.BAD_TIMESTAMP:
        return InvalidTimestampError(
            f"a timestamp of the batch at position {position} (offset {offset}) does not fit microseconds; "
            "read the column timestamp_ms instead of timestamp"
        )
    if fault not in _ERRORS:
        raise RuntimeError(
            f"a kernel stopped with {fault.name} at position {position}: this is a bug in tidelog"
        )
    cls, general = _ERRORS[fault]
    return cls(reason or general, position=position, offset=offset, source=source)
