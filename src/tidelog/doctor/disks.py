"""The disks of one broker as they are: everything that is read without looking into a partition's log.

Unlike `layout.roots.look_at`, nothing is refused: what cannot be read is noted, and the rest is still seen.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.errors import InvalidIndexError, InvalidInputError, TidelogError
from tidelog.layout.config import log_config
from tidelog.layout.roots import Checkpoint, Offsets
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import METADATA_DIRECTORY, ClusterMetadata, read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage, TopicImage
from tidelog.storage import FileSystem, read_file, read_offset_checkpoint
from tidelog.storage.directory import is_partition
from tidelog.storage.files import DirEntry
from tidelog.storage.lock import LOCK_FILE
from tidelog.storage.metadata import MetaProperties, read_meta_properties, read_partition_metadata
from tidelog.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    DirectoryState,
    FileKind,
    PartitionDirectoryName,
    parse_partition_directory,
    parse_segment_file,
)
from tidelog.types import TopicPartition

__all__ = [
    "Broker",
    "Disk",
    "PartitionDirectory",
    "is_disk",
    "kafka_name",
    "look_at_broker",
    "look_at_partition",
    "refuses_checkpoint",
]

KAFKAS_OWN = frozenset({"remote-log-index-cache"})
_MARKED = re.compile(r"(\S+-\S+)\.(\S+)-(delete|future|stray)")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_INT32 = 2**31 - 1
_MOST_DIGITS = 1000


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A directory of a partition, and the topic id that it claims."""

    path: str
    name: str
    parsed: PartitionDirectoryName
    topic_id: uuid.UUID | None
    fault: str | None = None
    """Why the topic id cannot be read, although there is a file for it."""

    @property
    def partition(self) -> TopicPartition:
        """Whose it is, by its name."""
        return self.parsed.topic_partition


@dataclass(slots=True)
class Disk:
    """One root."""

    path: str
    meta: MetaProperties | None = None
    meta_fault: str | None = None
    """Why `meta.properties` cannot be read, although it is there."""
    clean: bool = False
    entries: Sequence[DirEntry] = ()
    directories: list[PartitionDirectory] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Names of directories that no broker makes."""
    checkpoints: dict[Checkpoint, Offsets] = field(default_factory=dict)
    faults: dict[Checkpoint, str] = field(default_factory=dict)
    """Why a checkpoint cannot be read."""

    @property
    def has_metadata_log(self) -> bool:
        """Whether it has a metadata log."""
        return any(entry.name == METADATA_DIRECTORY for entry in self.entries)

    @property
    def live(self) -> list[PartitionDirectory]:
        """Partitions that are not marked for anything."""
        return [one for one in self.directories if one.parsed.state is DirectoryState.LIVE]


@dataclass(slots=True)
class Broker:
    """All disks of one broker, and what is to be known before one of them is judged."""

    disks: list[Disk]
    config: BrokerConfig
    now_ms: int
    home: Disk | None = None
    """The disk whose metadata counts."""
    metadata: ClusterMetadata | None = None
    metadata_fault: str | None = None

    @property
    def image(self) -> MetadataImage:
        """What the metadata says; nothing if it is not here or cannot be read."""
        return MetadataImage() if self.metadata is None else self.metadata.image

    @property
    def node_id(self) -> int | None:
        """The broker's id: the configuration's, or that of the disks."""
        if self.config.node_id is not None:
            return self.config.node_id
        found = [disk.meta.node_id for disk in self.disks if disk.meta is not None]
        return next((node for node in found if node is not None), None)

    @property
    def knows_topics(self) -> bool:
        """Whether the metadata that a broker would go by is here."""
        return self.metadata is not None and (self.metadata.in_log or bool(self.image.topics))

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicImage | None:
        """The topic of an id; None if there is none."""
        return next((one for one in self.image.topics.values() if one.topic_id == topic_id), None)

    def log_config(self, topic: str) -> LogConfig:
        """The configuration of a topic's logs."""
        return log_config(self.image.topic_config(topic), self.config.topic_defaults)


def look_at_broker(fs: FileSystem, paths: Sequence[str], config: BrokerConfig, now_ms: int) -> Broker:
    """Look at the disks of one broker; nothing is locked or changed."""
    broker = Broker([_look_at_disk(fs, path) for path in paths], config, now_ms)
    homes = [disk for disk in broker.disks if disk.has_metadata_log]
    broker.home = (homes or broker.disks)[0]
    try:
        broker.metadata = read_cluster_metadata(fs, broker.home.path)
    except (OSError, TidelogError) as error:
        broker.metadata_fault = str(error.__cause__ or error)
    return broker


def _look_at_disk(fs: FileSystem, path: str) -> Disk:
    disk = Disk(path, clean=fs.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}"), entries=sorted(fs.list(path)))
    meta_file = f"{path}/{META_PROPERTIES_FILE}"
    try:
        disk.meta = read_meta_properties(fs, meta_file)
    except FileNotFoundError:
        pass
    except (OSError, InvalidIndexError) as error:
        disk.meta_fault = str(error)
    for entry in disk.entries:
        if not entry.is_directory or entry.name in KAFKAS_OWN:
            continue
        try:
            parsed = parse_partition_directory(entry.name)
        except InvalidInputError:
            disk.foreign.append(entry.name)
            continue
        disk.directories.append(look_at_partition(fs, path, entry.name, parsed))
    for kind in Checkpoint:
        try:
            disk.checkpoints[kind] = read_offset_checkpoint(fs, f"{path}/{kind.value}")
        except (OSError, InvalidIndexError) as error:
            disk.checkpoints[kind] = _read_as_kafka(fs, f"{path}/{kind.value}")
            disk.faults[kind] = str(error)
    return disk


def look_at_partition(
    fs: FileSystem, root: str, name: str, parsed: PartitionDirectoryName
) -> PartitionDirectory:
    """A partition's directory with the topic id in it."""
    path = f"{root}/{name}"
    try:
        found = read_partition_metadata(fs, f"{path}/{PARTITION_METADATA_FILE}")
        return PartitionDirectory(path, name, parsed, found.topic_id)
    except FileNotFoundError:
        return PartitionDirectory(path, name, parsed, None)
    except (OSError, InvalidIndexError) as error:
        return PartitionDirectory(path, name, parsed, None, str(error))


def is_disk(fs: FileSystem, path: str) -> bool:
    """Whether a directory is a broker's disk, or empty: not one with files of somebody else."""
    own = {META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, *(kind.value for kind in Checkpoint)}
    entries = [entry for entry in fs.list(path) if entry.name != LOCK_FILE]
    return not entries or any(
        _has_segments(fs, f"{path}/{entry.name}") if entry.is_directory else entry.name in own
        for entry in entries
    )


def _has_segments(fs: FileSystem, path: str) -> bool:
    if not is_partition(fs, path):
        return False
    try:
        files = [parse_segment_file(entry.name) for entry in fs.list(path)]
    except OSError:  # a partition that nobody may read
        return True
    return any(file is not None and file.kind is FileKind.LOG for file in files)


# ---- as Kafka reads it


def kafka_name(name: str) -> TopicPartition | None:
    """The partition that Kafka takes a directory's name for; None: it refuses to start.

    It reads numbers as Java does: `orders-01` is partition 1 of orders.
    """
    live = name
    if name.endswith(("-delete", "-future", "-stray")):
        match = _MARKED.fullmatch(name)
        if match is None:
            return None
        live = name[: name.rindex(".")]
    topic, dash, number = live.rpartition("-")
    if not dash or not topic or _NUMBER.fullmatch(number) is None or int(number) > _INT32:
        return None
    return TopicPartition(topic, abs(int(number)))


def refuses_checkpoint(fs: FileSystem, path: str, fields: int) -> str | None:
    """What Kafka does with a checkpoint that it cannot read: `offline` or `throws`; None if it can.

    A line that is no entry, a wrong count or version take the disk offline; a number in an entry that is none
    is an error that only some readers expect.
    """
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return None
    except (OSError, InvalidIndexError):
        return "offline"
    try:
        lines = re.split(r"\r\n|\n|\r", data.decode("utf-8"))
    except UnicodeDecodeError:
        return "offline"
    if not lines[-1]:
        lines.pop()
    if not lines:
        return None
    if not _is_int(lines[0]) or int(lines[0]) != 0:
        return "offline"
    if len(lines) == 1:
        return None
    if not _is_int(lines[1]):
        return "offline"
    for line in lines[2:]:
        words = re.split(r"[ \t\v\f]+", line.rstrip(" \t\v\f"))
        if len(words) != fields:
            return "offline"
        if not all(_NUMBER.fullmatch(word) for word in words[-2:]):
            return "throws"
    if int(lines[1]) < 0:
        return "throws"
    return None if len(lines) - 2 == int(lines[1]) else "offline"


def _read_as_kafka(fs: FileSystem, path: str) -> Offsets:
    """What Kafka reads in a checkpoint that is refused here, as it takes any numbers; else nothing."""
    if refuses_checkpoint(fs, path, 3) is not None:
        return {}
    found = {}
    for line in re.split(r"\r\n|\n|\r", read_file(fs, path).decode())[2:]:
        words = re.split(r"[ \t\v\f]+", line.rstrip(" \t\v\f"))
        if len(words) == 3 and max(map(len, words[1:])) <= 20 and int(words[1]) >= 0:
            found[TopicPartition(words[0], int(words[1]))] = max(int(words[2]), 0)
    return found


def _is_int(text: str) -> bool:
    return len(text) <= _MOST_DIGITS and _NUMBER.fullmatch(text) is not None and abs(int(text)) <= _INT32


def partitions_of(disks: Sequence[Disk]) -> Mapping[TopicPartition, list[PartitionDirectory]]:
    """The live directories of each partition, over all disks."""
    found: dict[TopicPartition, list[PartitionDirectory]] = {}
    for disk in disks:
        for one in disk.live:
            found.setdefault(one.partition, []).append(one)
    return found
