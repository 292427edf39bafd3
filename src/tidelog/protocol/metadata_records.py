"""Records of KRaft's metadata log, as far as they say which topics there are.

A record's value is a frame and the message, in Kafka's flexible format (`protocol.primitives`):

    frame version   unsigned varint, 1
    api key         unsigned varint       what the message is
    version         unsigned varint       of the message
    message         by api key:
      2 topic             name, id
      3 partition         partition i32, topic id, replicas [], isr [], removing [], adding [] (of i32),
                          leader i32, leader epoch i32, partition epoch i32, directories [] (of uuid, from
                          version 1); tags: 0 leader recovery state i8, 1 and 2 eligible, last known leaders
      4 config            resource type i8 (2 topic, 4 broker), resource name, key, value (null: deleted)
      5 partition change  partition i32, topic id; tags: 0 isr [], 1 leader i32, 2 replicas [], 3 removing [],
                          4 adding [], 5 leader recovery state i8, 6 and 7 as 1 and 2 above, 8 directories []
      9 remove topic      id
      12 feature level    name, level i16
      15 producer ids     broker i32, broker epoch i64, next producer id i64
      23, 24, 25          begin, end and abort a transaction; tag 0 its name or the reason
    tags            after every message

Other api keys are kept as bytes (`UnknownRecord`): they are none of our business and must not stop a reader.
"""

from __future__ import annotations

import enum
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.errors import CorruptRecordError, InvalidInputError
from tidelog.protocol.primitives import (
    NO_TAGS,
    Reader,
    compact_array,
    compact_string,
    tagged,
    unsigned_varint,
)

__all__ = [
    "FRAME_VERSION",
    "AbortTransactionRecord",
    "ApiKey",
    "BeginTransactionRecord",
    "ConfigRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "MetadataRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RemoveTopicRecord",
    "ResourceType",
    "TopicRecord",
    "UnknownRecord",
    "format_record",
    "parse_record",
]

FRAME_VERSION = 1
_SHORT_MAX = 0x7FFF

Ids = tuple[int, ...]
Directories = tuple[uuid.UUID, ...]


class ApiKey(enum.IntEnum):
    """What a metadata record is."""

    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    FEATURE_LEVEL = 12
    PRODUCER_IDS = 15
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25


class ResourceType(enum.IntEnum):
    """Whose a config is."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic comes to be."""

    name: str
    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition comes to be, or is told whole in a snapshot."""

    partition_id: int
    topic_id: uuid.UUID
    replicas: Ids
    isr: Ids
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: Directories = ()
    removing_replicas: Ids = ()
    adding_replicas: Ids = ()
    tags: Mapping[int, bytes] = field(default_factory=dict)
    version: int = 2


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """A partition changes; None says that a field does not."""

    partition_id: int
    topic_id: uuid.UUID
    leader: int | None = None
    replicas: Ids | None = None
    directories: Directories | None = None
    tags: Mapping[int, bytes] = field(default_factory=dict)
    """The fields that are not told apart here."""
    version: int = 2


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A config is set, or deleted where the value is None."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic goes, with its partitions and configs."""

    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """A feature is at this level from here on."""

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` are given away."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class BeginTransactionRecord:
    """What follows counts only from the transaction's end on."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class EndTransactionRecord:
    """The records since the transaction's beginning count."""


@dataclass(frozen=True, slots=True)
class AbortTransactionRecord:
    """The records since the transaction's beginning do not count."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of another kind, or of a version not known: its message as bytes."""

    api_key: int
    version: int
    message: bytes


MetadataRecord = (
    TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | UnknownRecord
)

# ---- reading


def parse_record(value: bytes | None) -> MetadataRecord:
    """The metadata record with this value. Raises CorruptRecordError for what is none."""
    body = Reader(value or b"", "metadata record")
    frame, key, version = (body.unsigned_varint() for _ in range(3))
    if frame != FRAME_VERSION:
        raise CorruptRecordError(f"metadata record with frame version {frame}; only 1 is known")
    if not (0 <= key <= _SHORT_MAX and 0 <= version <= _SHORT_MAX):
        raise CorruptRecordError(f"metadata record with the impossible api key {key} or version {version}")
    newest, parse = _PARSERS.get(key, (-1, None))
    if parse is None or version > newest:
        return UnknownRecord(key, version, body.take(body.remaining))
    record = parse(body, version)
    if body.remaining:
        raise CorruptRecordError(f"metadata record of api key {key} has {body.remaining} bytes too many")
    return record


def _partition(body: Reader, version: int) -> PartitionRecord:
    partition_id, topic_id = body.i32(), body.uuid()
    replicas, isr, removing, adding = (body.array(body.i32) for _ in range(4))
    leader, leader_epoch, partition_epoch = body.i32(), body.i32(), body.i32()
    directories = body.array(body.uuid) if version > 0 else ()
    return PartitionRecord(
        partition_id,
        topic_id,
        replicas,
        isr,
        leader,
        leader_epoch,
        partition_epoch,
        directories,
        removing,
        adding,
        body.tags(),
        version,
    )


_LEADER, _REPLICAS, _DIRECTORIES = 1, 2, 8


def _partition_change(body: Reader, version: int) -> PartitionChangeRecord:
    partition_id, topic_id, tags = body.i32(), body.uuid(), body.tags()
    leader, replicas, directories = (
        Reader(tags.pop(tag), "partition change") if tag in tags else None
        for tag in (_LEADER, _REPLICAS, _DIRECTORIES)
    )
    return PartitionChangeRecord(
        partition_id,
        topic_id,
        leader=None if leader is None else leader.i32(),
        replicas=None if replicas is None else replicas.array(replicas.i32),
        directories=None if directories is None else directories.array(directories.uuid),
        tags=tags,
        version=version,
    )


def _text_tag(body: Reader) -> str | None:
    data = body.tags().get(0)
    return None if data is None else Reader(data, "metadata record").nullable_string()


def _then_tags(record: MetadataRecord, body: Reader) -> MetadataRecord:
    body.skip_tags()
    return record


def _config(body: Reader) -> ConfigRecord:
    return ConfigRecord(body.i8(), body.string(), body.string(), body.nullable_string())


_PARSERS: dict[int, tuple[int, Callable[[Reader, int], MetadataRecord]]] = {
    ApiKey.TOPIC: (0, lambda body, _: _then_tags(TopicRecord(body.string(), body.uuid()), body)),
    ApiKey.PARTITION: (2, _partition),
    ApiKey.CONFIG: (0, lambda body, _: _then_tags(_config(body), body)),
    ApiKey.PARTITION_CHANGE: (2, _partition_change),
    ApiKey.REMOVE_TOPIC: (0, lambda body, _: _then_tags(RemoveTopicRecord(body.uuid()), body)),
    ApiKey.FEATURE_LEVEL: (
        0,
        lambda body, _: _then_tags(FeatureLevelRecord(body.string(), body.i16()), body),
    ),
    ApiKey.PRODUCER_IDS: (
        0,
        lambda body, _: _then_tags(ProducerIdsRecord(body.i32(), body.i64(), body.i64()), body),
    ),
    ApiKey.BEGIN_TRANSACTION: (0, lambda body, _: BeginTransactionRecord(_text_tag(body))),
    ApiKey.END_TRANSACTION: (0, lambda body, _: _then_tags(EndTransactionRecord(), body)),
    ApiKey.ABORT_TRANSACTION: (0, lambda body, _: AbortTransactionRecord(_text_tag(body))),
}

# ---- writing


def format_record(record: MetadataRecord) -> bytes:
    """A metadata record's value, as Kafka writes it."""
    try:
        key, version, message = _message(record)
    except struct.error as error:
        raise InvalidInputError(f"{record} does not fit its format: {error}") from error
    return b"".join((unsigned_varint(FRAME_VERSION), unsigned_varint(key), unsigned_varint(version), message))


def _message(record: MetadataRecord) -> tuple[int, int, bytes]:
    """Api key, version and message."""
    match record:
        case TopicRecord(name, topic_id):
            return ApiKey.TOPIC, 0, compact_string(name) + topic_id.bytes + NO_TAGS
        case PartitionRecord():
            return ApiKey.PARTITION, record.version, _partition_message(record)
        case PartitionChangeRecord():
            return ApiKey.PARTITION_CHANGE, record.version, _partition_change_message(record)
        case ConfigRecord(kind, resource, name, value):
            parts = (compact_string(text) for text in (resource, name, value))
            return ApiKey.CONFIG, 0, struct.pack(">b", kind) + b"".join(parts) + NO_TAGS
        case RemoveTopicRecord(topic_id):
            return ApiKey.REMOVE_TOPIC, 0, topic_id.bytes + NO_TAGS
        case FeatureLevelRecord(name, level):
            return ApiKey.FEATURE_LEVEL, 0, compact_string(name) + struct.pack(">h", level) + NO_TAGS
        case ProducerIdsRecord(broker, epoch, following):
            return ApiKey.PRODUCER_IDS, 0, struct.pack(">iqq", broker, epoch, following) + NO_TAGS
        case BeginTransactionRecord(text):
            return ApiKey.BEGIN_TRANSACTION, 0, _text_message(text)
        case EndTransactionRecord():
            return ApiKey.END_TRANSACTION, 0, NO_TAGS
        case AbortTransactionRecord(text):
            return ApiKey.ABORT_TRANSACTION, 0, _text_message(text)
        case UnknownRecord(key, version, message):
            return key, version, message


def _partition_message(record: PartitionRecord) -> bytes:
    lists = (record.replicas, record.isr, record.removing_replicas, record.adding_replicas)
    numbers = (record.leader, record.leader_epoch, record.partition_epoch)
    return b"".join(
        (
            struct.pack(">i", record.partition_id),
            record.topic_id.bytes,
            *map(_ids, lists),
            struct.pack(">iii", *numbers),
            _uuids(record.directories) if record.version > 0 else b"",
            tagged(record.tags),
        )
    )


def _partition_change_message(record: PartitionChangeRecord) -> bytes:
    tags = dict(record.tags)
    if record.leader is not None:
        tags[_LEADER] = struct.pack(">i", record.leader)
    if record.replicas is not None:
        tags[_REPLICAS] = _ids(record.replicas)
    if record.directories is not None:
        tags[_DIRECTORIES] = _uuids(record.directories)
    return struct.pack(">i", record.partition_id) + record.topic_id.bytes + tagged(tags)


def _text_message(text: str | None) -> bytes:
    return NO_TAGS if text is None else tagged({0: compact_string(text)})


def _ids(numbers: Iterable[int]) -> bytes:
    return compact_array([struct.pack(">i", number) for number in numbers])


def _uuids(ids: Iterable[uuid.UUID]) -> bytes:
    return compact_array([one.bytes for one in ids])
