"""The error tree. A message says what, where (file, position, offset) and what to do next.

    TidelogError
    ├── CorruptRecordError          bytes on disk or on the wire break the format
    │   ├── TornBatchError          the data ends inside a batch (a cut file, an unfinished write)
    │   ├── BadLengthError          a length that cannot be true: negative, too small or too large
    │   ├── ChecksumError           the CRC does not match the bytes
    │   ├── UnknownMagicError       a format version that does not exist
    │   ├── UnknownCodecError       a compression codec that does not exist (for that format)
    │   ├── BadVarintError          a variable-length number that never ends
    │   ├── RecordOverrunError      a record that reaches outside its batch, or does not fill its own length
    │   ├── CountMismatchError      the batch does not hold as many records as it says
    │   └── CompressionError        a compressed payload that is garbage or expands without bound
    ├── InvalidIndexError           an index, snapshot or checkpoint file that breaks its own rules
    │   ├── IndexFullError          no room for another entry
    │   └── IndexOffsetOverflowError  an offset that cannot be told relative to the segment's base
    ├── InvalidInputError           the caller's request breaks a rule (also a ValueError)
    │   ├── UnknownTopicOrPartitionError (also a LookupError), TopicExistsError
    │   ├── RecordTooLargeError, RecordBatchTooLargeError, InvalidTimestampError, InvalidRecordError
    │   ├── OffsetOutOfRangeError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError
    │   ├── OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError
    │   ├── TransactionCoordinatorFencedError
    │   └── ConfigError
    ├── MissingLibraryError         a package that is needed is not installed (also an ImportError)
    ├── SchemaRegistryError         a schema registry does not answer, or refuses to
    ├── TableCatalogError           a catalog of tables does not answer, or refuses to
    └── LogError                    the log as a whole
        ├── LogOfflineError         a disk failed under the log; it takes no more appends
        │   └── FlushError          partitions that could not be flushed
        ├── LogClosedError          used after close or delete
        ├── LogLockedError          another process holds the directory
        ├── ForkedError             used in another process than the one that opened it
        ├── UncleanShutdownError    the root was not closed cleanly; recovery has to be asked for
        ├── ReplicatedTopicError    other brokers hold the partition too; they would cut what is appended
        └── DataLossError           records that should be there are not

Each error has the code that a Kafka broker answers in its place (`kafka_code`). Disk data raises from the
first two branches, never `assert`; wrong calls raise from the third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "BadLengthError",
    "BadVarintError",
    "ChecksumError",
    "CompressionError",
    "ConfigError",
    "CorruptRecordError",
    "CountMismatchError",
    "DataLossError",
    "FlushError",
    "ForkedError",
    "IndexFullError",
    "IndexOffsetOverflowError",
    "InvalidIndexError",
    "InvalidInputError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTxnStateError",
    "LogClosedError",
    "LogError",
    "LogLockedError",
    "LogOfflineError",
    "MissingLibraryError",
    "OffsetDisorderError",
    "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError",
    "OutOfOrderSequenceError",
    "RecordBatchTooLargeError",
    "RecordOverrunError",
    "RecordTooLargeError",
    "ReplicatedTopicError",
    "SchemaRegistryError",
    "TableCatalogError",
    "TidelogError",
    "TopicExistsError",
    "TornBatchError",
    "TransactionCoordinatorFencedError",
    "UncleanShutdownError",
    "UnexpectedAppendOffsetError",
    "UnknownCodecError",
    "UnknownMagicError",
    "UnknownTopicOrPartitionError",
]


class TidelogError(Exception):
    """Root of everything tidelog raises on purpose."""

    kafka_code: int = -1  # UNKNOWN_SERVER_ERROR
    """The error code that a Kafka broker answers in this case."""


class CorruptRecordError(TidelogError):
    """Record bytes that violate the format.

    `position` is the byte position of the batch in its file (or buffer), `offset` the batch's base offset as
    far as it could be read, `source` the file's name if it is known.
    """

    kafka_code = 2  # CORRUPT_MESSAGE

    def __init__(
        self, reason: str, *, position: int = -1, offset: int | None = None, source: str | None = None
    ) -> None:
        self.reason = reason
        self.position = position
        self.offset = offset
        self.source = source
        super().__init__(reason)

    def __str__(self) -> str:
        """What, and where."""
        where = [self.source] if self.source else []
        if self.position >= 0:
            where.append(f"position {self.position}")
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        return f"{self.reason} ({', '.join(where)})" if where else self.reason

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes with all they know."""
        return (type(self)._rebuild, (self.reason, self.position, self.offset, self.source))

    @classmethod
    def _rebuild(
        cls, reason: str, position: int, offset: int | None, source: str | None
    ) -> CorruptRecordError:
        return cls(reason, position=position, offset=offset, source=source)


class TornBatchError(CorruptRecordError):
    """The data ends inside a batch."""


class BadLengthError(CorruptRecordError):
    """A length field with an impossible value."""


class ChecksumError(CorruptRecordError):
    """The stored CRC does not match the bytes."""


class OffsetDisorderError(CorruptRecordError):
    """Offsets that the batches around them, or the names of the files, contradict."""


class UnknownMagicError(CorruptRecordError):
    """A format version other than 0, 1 and 2."""


class UnknownCodecError(CorruptRecordError):
    """A compression codec that does not exist, or that the format does not support."""

    kafka_code = 76  # UNSUPPORTED_COMPRESSION_TYPE


class BadVarintError(CorruptRecordError):
    """A variable-length number with too many bytes."""


class RecordOverrunError(CorruptRecordError):
    """A record or field that extends past the batch or record that contains it."""


class CountMismatchError(CorruptRecordError):
    """The declared number of records differs from the actual one."""


class CompressionError(CorruptRecordError):
    """A payload that does not decompress, or only to more than the limit."""


class InvalidIndexError(TidelogError):
    """An index, snapshot or checkpoint file that violates its format."""

    kafka_code = 56  # KAFKA_STORAGE_ERROR


class IndexFullError(InvalidIndexError):
    """No room for another index entry."""


class IndexOffsetOverflowError(InvalidIndexError):
    """An offset too far from the segment's base offset."""


class InvalidInputError(TidelogError, ValueError):
    """The request is invalid; nothing was changed."""

    kafka_code = 42  # INVALID_REQUEST


class UnknownTopicOrPartitionError(InvalidInputError, LookupError):
    """The topic or partition does not exist."""

    kafka_code = 3  # UNKNOWN_TOPIC_OR_PARTITION


class TopicExistsError(InvalidInputError):
    """A topic of that name already exists."""

    kafka_code = 36  # TOPIC_ALREADY_EXISTS


class RecordTooLargeError(InvalidInputError):
    """A batch larger than `max.message.bytes`."""

    kafka_code = 10  # MESSAGE_TOO_LARGE


class RecordBatchTooLargeError(InvalidInputError):
    """An append larger than `segment.bytes`."""

    kafka_code = 18  # RECORD_LIST_TOO_LARGE


class InvalidTimestampError(InvalidInputError):
    """A timestamp outside what the topic or the column type allows.

    `records` are the positions in their batch of the records that an append was refused for.
    """

    kafka_code = 32  # INVALID_TIMESTAMP
    records: Sequence[int] = ()


class InvalidRecordError(InvalidInputError):
    """A record that its topic does not allow (no key on a compacted topic...).

    `records` are the positions in their batch of the records that an append was refused for.
    """

    kafka_code = 87  # INVALID_RECORD
    records: Sequence[int] = ()


class OffsetOutOfRangeError(InvalidInputError):
    """An offset outside [log start, log end]."""

    kafka_code = 1  # OFFSET_OUT_OF_RANGE


class OffsetsOutOfOrderError(InvalidInputError):
    """Offsets in an append that do not increase."""


class UnexpectedAppendOffsetError(InvalidInputError):
    """An append below the log end offset."""


class OutOfOrderSequenceError(InvalidInputError):
    """A producer's sequence number that leaves a gap."""

    kafka_code = 45  # OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(InvalidInputError):
    """A producer epoch older than the last one seen."""

    kafka_code = 47  # INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(InvalidInputError):
    """An append that the transaction's state does not allow."""

    kafka_code = 48  # INVALID_TXN_STATE


class TransactionCoordinatorFencedError(InvalidInputError):
    """A marker from a transaction coordinator that has been replaced."""

    kafka_code = 52  # TRANSACTION_COORDINATOR_FENCED


class ConfigError(InvalidInputError):
    """An unknown config key or a bad value for a known one."""

    kafka_code = 40  # INVALID_CONFIG


class MissingLibraryError(TidelogError, ImportError):
    """A package that a codec or a table format needs is not installed."""

    kafka_code = 76  # UNSUPPORTED_COMPRESSION_TYPE


class SchemaRegistryError(TidelogError):
    """A schema registry does not answer, or refuses to."""


class TableCatalogError(TidelogError):
    """A catalog of tables does not answer, or refuses to."""


class LogError(TidelogError):
    """The log cannot do what was asked, whatever the request."""

    kafka_code = 56  # KAFKA_STORAGE_ERROR


class LogOfflineError(LogError):
    """A disk failed under the log."""


class FlushError(LogOfflineError):
    """Some partitions could not be flushed; all others were flushed.

    `partitions` says which, by `TopicPartition`, and why.
    """

    def __init__(self, partitions: Mapping[Any, str]) -> None:
        self.partitions = dict(partitions)
        listed = "; ".join(f"{name}: {reason}" for name, reason in partitions.items())
        super().__init__(f"{len(partitions)} partitions could not be flushed, all others were: {listed}")


class LogClosedError(LogError):
    """The log was closed or deleted."""


class LogLockedError(LogError):
    """Another process holds the directory."""


class ForkedError(LogError):
    """A store, partition, log or lock was used in a process that was forked after it was opened."""


class UncleanShutdownError(LogError):
    """A root was not closed cleanly. Recovery, which may cut off damaged ends, has to be asked for."""


class ReplicatedTopicError(LogError):
    """Other brokers hold replicas of the partition: a follower would cut off what is appended here."""


class DataLossError(LogError):
    """Records that should be there are not: a segment's file is gone, or offsets lie outside the log."""
