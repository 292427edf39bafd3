"""Names of Kafka's files and directories: formatting and parsing.

    <20 digits>.log  .index  .timeindex  .txnindex     a segment, by its base offset
    <20 digits>.snapshot                               producer state, by the offset it reaches
    ...plus .deleted | .cleaned | .swap                going out | made by the cleaner | coming in
    <topic>-<partition>                                a partition's directory
    <topic>-<partition>.<32 hex>-delete                to be deleted; a long topic is cut to 255 in all
    <topic>-<partition>.<32 hex>-stray                 no longer wanted here; cut likewise
    <topic>-<partition>.<32 hex>-future                a copy being filled, to replace one in another root

Parsing accepts exactly what formatting produces: another spelling of the same offset or partition is another
name.
"""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tidelog.errors import InvalidInputError
from tidelog.types import TopicPartition

__all__ = [
    "CLEAN_SHUTDOWN_FILE",
    "CLUSTER_METADATA_TOPIC",
    "INDEX_FILES",
    "INTERNAL_TOPICS",
    "LEADER_EPOCH_FILE",
    "MAPPED_INDEXES",
    "META_PROPERTIES_FILE",
    "PARTITION_METADATA_FILE",
    "SEGMENT_FILES",
    "SYNC_FAILED_FILE",
    "DirectoryState",
    "FileKind",
    "PartitionDirectoryName",
    "SegmentFileName",
    "Transient",
    "colliding_topic",
    "format_log_file",
    "format_partition_directory",
    "format_segment_file",
    "is_internal_topic",
    "parse_partition_directory",
    "parse_segment_file",
    "topic_fault",
    "validate_topic",
]

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
SYNC_FAILED_FILE = "tidelog-sync-failed"
"""In a partition where a sync has failed since the system was started; brokers pass over it."""
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_MAX_TOPIC_LENGTH = 249
_MAX_NAME_LENGTH = 255
_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_NO_TEXT = re.compile(r"[\s\x00-\x1f\x7f\ud800-\udfff]")
_MARKED = re.compile(r"(\S+-\S+)\.([^.\s]+)-(delete|future|stray)")


class FileKind(enum.Enum):
    """What a file of a partition holds; the value is its suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"

    __hash__ = object.__hash__  # members are the only ones of their kind; Enum's own hash is slow


MAPPED_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
"""The indexes that every segment has; those of the active segment are preallocated."""

INDEX_FILES = (*MAPPED_INDEXES, FileKind.TXN_INDEX)
"""The indexes that a segment can have."""

SEGMENT_FILES = (FileKind.LOG, *INDEX_FILES)
"""The files that a segment can have."""


class Transient(enum.Enum):
    """Where a file is on its way to; the value is its second suffix."""

    NONE = ""
    DELETED = ".deleted"
    CLEANED = ".cleaned"
    SWAP = ".swap"


class DirectoryState(enum.Enum):
    """What a partition's directory is for; the value is its suffix."""

    LIVE = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


_KINDS = {kind.value: kind for kind in FileKind}
_TRANSIENTS = {transient.value: transient for transient in Transient}
_SEGMENT_FILE = re.compile(
    f"([0-9]{{20}})({'|'.join(map(re.escape, _KINDS))})({'|'.join(map(re.escape, _TRANSIENTS))})"
)


@dataclass(frozen=True, slots=True)
class SegmentFileName:
    """The parts of a segment's or snapshot's file name."""

    offset: int
    kind: FileKind
    transient: Transient = Transient.NONE

    def __str__(self) -> str:
        """The name."""
        return format_segment_file(self.offset, self.kind, self.transient)


@dataclass(frozen=True, slots=True)
class PartitionDirectoryName:
    """The parts of a partition directory's name. A long topic is cut in DELETE and STRAY ones."""

    topic_partition: TopicPartition
    state: DirectoryState = DirectoryState.LIVE
    unique_id: str = ""


def format_segment_file(offset: int, kind: FileKind, transient: Transient = Transient.NONE) -> str:
    """The file name of a segment's (by base offset) or snapshot's file."""
    if not 0 <= offset <= _MAX_OFFSET:
        raise InvalidInputError(f"an offset in a file name is 0 to 2^63 - 1, not {offset}")
    return f"{offset:020d}{kind._value_}{transient._value_}"


@lru_cache(maxsize=1 << 14)  # who follows thousands of logs asks for the same names over and over
def format_log_file(base_offset: int) -> str:
    """The name of a segment's log file."""
    return format_segment_file(base_offset, FileKind.LOG)


@lru_cache(maxsize=1 << 14)  # loading asks several times, and logs have the same names
def parse_segment_file(name: str) -> SegmentFileName | None:
    """The parts of a segment's or snapshot's file name; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or (offset := int(match[1])) > _MAX_OFFSET:
        return None
    return SegmentFileName(offset, _KINDS[match[2]], _TRANSIENTS[match[3]])


def format_partition_directory(
    topic_partition: TopicPartition, state: DirectoryState = DirectoryState.LIVE, unique_id: str | None = None
) -> str:
    """The directory name of a partition; marked ones get a fresh unique id unless one is given."""
    topic, tail = topic_partition.topic, f"-{topic_partition.partition}"
    if state is not DirectoryState.LIVE:
        tail += f".{unique_id or uuid.uuid4().hex}{state.value}"
        if state is not DirectoryState.FUTURE:  # that one must be told back in full
            topic = topic[: _MAX_NAME_LENGTH - len(tail)]
    return topic + tail


@lru_cache(maxsize=1 << 14)  # a stream asks at every trigger
def parse_partition_directory(name: str) -> PartitionDirectoryName:
    """The parts of a partition directory's name; InvalidInputError for any other, as brokers refuse it."""
    live, state, unique_id = name, DirectoryState.LIVE, ""
    for marked in (DirectoryState.DELETE, DirectoryState.FUTURE, DirectoryState.STRAY):
        if name.endswith(marked.value):
            match = _MARKED.fullmatch(name)
            if match is None:
                raise _not_a_partition(name)
            live, unique_id, state = match[1], match[2], marked
    topic, dash, partition = live.rpartition("-")
    # One spelling per partition: "t-1" and "t-01" must not be two directories of the same one.
    if not topic or not dash or re.fullmatch("0|[1-9][0-9]*", partition) is None:
        raise _not_a_partition(name)
    if _NO_TEXT.search(topic) is not None:  # a checkpoint could not tell it
        raise _not_a_partition(name)
    if int(partition) > _MAX_PARTITION:
        raise _not_a_partition(name)
    return PartitionDirectoryName(TopicPartition(topic, int(partition)), state, unique_id)


def topic_fault(topic: str) -> str | None:
    """Why this is not a legal topic name, or None."""
    if not topic:
        return "a topic name is not empty"
    if topic in (".", ".."):
        return f"{topic!r} is not a topic name"
    if len(topic) > _MAX_TOPIC_LENGTH:
        return f"a topic name has at most {_MAX_TOPIC_LENGTH} characters, not {len(topic)}"
    if _TOPIC.fullmatch(topic) is None:
        return f"{topic!r} holds characters other than ASCII letters and digits, '.', '_' and '-'"
    return None


def validate_topic(topic: str) -> None:
    """Raise InvalidInputError unless this is a legal topic name."""
    fault = topic_fault(topic)
    if fault is not None:
        raise InvalidInputError(fault)


def colliding_topic(topic: str, others: Iterable[str]) -> str | None:
    """Another topic whose metrics in a broker would have the same name, which Kafka refuses: `.` and `_`."""
    plain = topic.replace(".", "_")
    return next((one for one in others if one != topic and one.replace(".", "_") == plain), None)


def is_internal_topic(topic: str) -> bool:
    """Whether brokers keep this topic for themselves."""
    return topic in INTERNAL_TOPICS


def _not_a_partition(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"directory {name!r} is not <topic>-<partition>[.<id>-delete|-future|-stray]; "
        "a log directory holds partitions only: move it elsewhere"
    )
