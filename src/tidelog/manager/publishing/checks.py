"""What a topic would refuse, said before anything is changed: of staged data, and of a topic's name; and what
a disk refused, with its place.
"""

from __future__ import annotations

from tidelog.config import LogConfig
from tidelog.errors import (
    InvalidInputError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)
from tidelog.log.append.validation import check_timestamp
from tidelog.manager.publishing.staged import Piece
from tidelog.storage.names import CLUSTER_METADATA_TOPIC, is_internal_topic, topic_fault

__all__ = ["check_piece", "check_topic", "disk_error"]


def disk_error(error: OSError, path: str, topic: str) -> OSError:
    """The same error with the topic in it, and with `path` where it names no place."""
    if error.errno is None:
        return error
    place = path if error.filename is None else error.filename
    return OSError(error.errno, f"{error.strerror} (writing records of topic {topic})", place)


def check_topic(topic: str | None) -> None:
    """Refuse a topic that cannot be written to."""
    if topic is None:
        raise InvalidInputError(
            "a record without a topic: the column 'topic' is null and there is no option topic"
        )
    fault = topic_fault(topic)
    if fault is not None:
        raise InvalidInputError(f"topic {topic!r}: {fault}")
    if is_internal_topic(topic) or topic == CLUSTER_METADATA_TOPIC:
        raise InvalidInputError(f"topic {topic!r} is Kafka's own and cannot be written to")


def check_piece(piece: Piece, config: LogConfig, now_ms: int) -> None:
    """Refuse what the topic's log would refuse."""
    name = piece.topic_partition
    where = f"topic {name.topic}, partition {name.partition}"
    if piece.largest_batch > config.max_message_bytes:
        raise RecordTooLargeError(
            f"{where}: a record takes a batch of {piece.largest_batch} bytes; "
            f"max.message.bytes is {config.max_message_bytes}"
        )
    if piece.largest_batch > config.max_segment_bytes:
        raise RecordBatchTooLargeError(
            f"{where}: a batch of {piece.largest_batch} bytes; segment.bytes is {config.max_segment_bytes}"
        )
    for timestamp in (piece.min_timestamp, piece.max_timestamp):
        try:
            check_timestamp(timestamp, config, now_ms)
        except InvalidTimestampError as error:
            raise InvalidTimestampError(
                f"{where}: {error} (message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
            ) from None
    if piece.keyless and config.compact:
        raise InvalidRecordError(
            f"{where}: {piece.keyless} records without a key; cleanup.policy is compact, which needs keys"
        )
