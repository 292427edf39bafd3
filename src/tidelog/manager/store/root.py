"""One root directory: whose it is, who holds it, what is in it and what its checkpoints say.

    .lock                                the hold on it (`storage.lock`)
    meta.properties                      node, cluster and directory id
    .kafka_cleanshutdown                 there only between an orderly stop and the next start
    recovery-point-offset-checkpoint     below it a log is on the disk
    log-start-offset-checkpoint          where a log starts, if not with its first segment
    replication-offset-checkpoint        high watermarks
    cleaner-offset-checkpoint            how far a log is compacted
    <topic>-<partition>[...]             partitions; other directories are passed over and reported

The clean-shutdown file is taken away, durably, before anything else changes: a crash from then on is a crash.
"""

from __future__ import annotations

import enum
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidelog.errors import InvalidIndexError, InvalidInputError, TidelogError
from tidelog.storage import (
    FileSystem,
    LocalFileSystem,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from tidelog.storage.files import parent
from tidelog.storage.forks import watch
from tidelog.storage.local import LINK_REFUSED
from tidelog.storage.lock import RootLock
from tidelog.storage.metadata import (
    MetaProperties,
    format_id,
    random_id,
    read_clean_shutdown,
    read_meta_properties,
    write_clean_shutdown,
    write_meta_properties,
)
from tidelog.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    PartitionDirectoryName,
    parse_partition_directory,
)
from tidelog.types import TopicPartition

__all__ = ["NO_BROKER_EPOCH", "Checkpoint", "Contents", "Identity", "Root", "Skipped", "open_root"]

_logger = logging.getLogger(__name__)

NO_BROKER_EPOCH = -1
FIRST_NODE_ID = 1
"""The node id of a root that is told none."""

_KAFKAS_OWN = frozenset({"remote-log-index-cache"})

_T = TypeVar("_T")
Offsets = Mapping[TopicPartition, int]


class Checkpoint(enum.Enum):
    """The checkpoints that a store keeps; the value is the file's name."""

    RECOVERY_POINTS = "recovery-point-offset-checkpoint"
    LOG_STARTS = "log-start-offset-checkpoint"
    HIGH_WATERMARKS = "replication-offset-checkpoint"
    CLEANED = "cleaner-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in a root that was passed over, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What a root held when it was opened."""

    clean: bool
    """Whether it was left in order."""
    directories: Mapping[str, PartitionDirectoryName]
    """The partitions' directories by name."""
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose a root is, as `meta.properties` says."""

    node_id: int
    cluster_id: str
    directory_id: uuid.UUID


class Root:
    """A root directory that is held by this process."""

    def __init__(self, path: str, fs: FileSystem, lock: RootLock | None, identity: Identity) -> None:
        self.path = path
        self.fs = fs
        self.identity = identity
        """Whose it is."""
        self.broker_epoch = NO_BROKER_EPOCH
        """What the last clean-shutdown file said; the next one says it again."""
        self.offline: BaseException | None = None
        """Why it is no longer used."""
        self.checkpoints: dict[Checkpoint, Offsets] = {kind: {} for kind in Checkpoint}
        """What the checkpoints say."""
        self._lock = lock
        self._writing = threading.Lock()  # held from before a checkpoint is computed until it is written
        watch(self)

    def __repr__(self) -> str:
        """With its path."""
        return f"Root({self.path!r})"

    def file(self, name: str) -> str:
        """The path of something in here."""
        return f"{self.path}/{name}"

    def read(self) -> Contents:
        """Look at what there is, and take the clean-shutdown file away."""
        clean, self.broker_epoch = self._take_clean_shutdown()
        directories, skipped = {}, []
        for entry in sorted(self.fs.list(self.path)):
            if not entry.is_directory or entry.name in _KAFKAS_OWN:
                continue
            if entry.is_link:
                skipped.append(Skipped(self.file(entry.name), LINK_REFUSED))
                continue
            try:
                directories[entry.name] = parse_partition_directory(entry.name)
            except InvalidInputError as error:
                skipped.append(Skipped(self.file(entry.name), str(error)))
        for kind in Checkpoint:
            try:
                self.checkpoints[kind] = read_offset_checkpoint(self.fs, self.file(kind.value))
            except InvalidIndexError as error:
                # Without it, more is recovered than needed, but nothing is lost.
                skipped.append(Skipped(self.file(kind.value), f"{error}; taken as empty"))
        return Contents(clean, directories, tuple(skipped))

    def _take_clean_shutdown(self) -> tuple[bool, int]:
        path = self.file(CLEAN_SHUTDOWN_FILE)
        if not self.fs.exists(path):
            return False, NO_BROKER_EPOCH
        epoch = read_clean_shutdown(self.fs, path)
        self.fs.unlink(path)
        self.fs.sync_directory(self.path)
        return True, NO_BROKER_EPOCH if epoch is None else epoch

    def update_checkpoint(self, kind: Checkpoint, change: Callable[[Offsets], Offsets]) -> None:
        """Replace a checkpoint, durably, by what `change` makes of it.

        One thread at a time computes and writes, so that the newest state is the one that stays. `change`
        may take no lock that is held by somebody who writes a checkpoint.
        """
        with self._writing:
            self.ensure_lock()
            offsets = dict(change(self.checkpoints[kind]))
            write_offset_checkpoint(self.fs, self.file(kind.value), offsets)
            self.checkpoints[kind] = offsets

    def add_to_checkpoint(self, kind: Checkpoint, offsets: Offsets) -> None:
        """Say this of some partitions in a checkpoint, durably, and of the others what it says."""
        self.update_checkpoint(kind, lambda known: {**known, **offsets})

    def write_clean_shutdown(self) -> None:
        """Say that all is in order: the very last thing that is done."""
        write_clean_shutdown(self.fs, self.file(CLEAN_SHUTDOWN_FILE), self.broker_epoch)

    def ensure_lock(self) -> None:
        """Make sure that it is still held; see `RootLock.ensure`."""
        if self._lock is not None:
            self._lock.ensure()

    def go_offline(self, why: BaseException) -> None:
        """Use it no more."""
        if self.offline is None:
            self.offline = why
            _logger.error("root %s goes offline: %s", self.path, why)

    def release(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            self._lock.release()


def open_root(
    path: str, fs: FileSystem, *, create: bool, node_id: int | None = None, cluster_id: str | None = None
) -> Root:
    """Take hold of a root, making it where it is missing and may be; `meta.properties` is written if absent.

    A `node_id` or `cluster_id` other than the root's own is refused: the root is someone else's.
    """
    if not fs.exists(path):
        if not create:
            raise FileNotFoundError(2, "no such root directory", path)
        fs.make_directory(path)
        fs.sync_directory(parent(path))
    lock = RootLock(path) if isinstance(fs, LocalFileSystem) else None
    try:
        return Root(path, fs, lock, _identity(path, fs, node_id, cluster_id))
    except (OSError, TidelogError):
        if lock is not None:
            lock.release()
        raise


def _identity(path: str, fs: FileSystem, node_id: int | None, cluster_id: str | None) -> Identity:
    file = f"{path}/{META_PROPERTIES_FILE}"
    found = read_meta_properties(fs, file) if fs.exists(file) else MetaProperties(1, None, None)
    for key, ours, theirs in (
        ("node.id", node_id, found.node_id),
        ("cluster.id", cluster_id, found.cluster_id),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            raise InvalidInputError(f"{file} says {key}={theirs}, not {ours}: the root is another's")
    identity = Identity(
        node_id=_first(found.node_id, node_id, FIRST_NODE_ID),
        cluster_id=_first(found.cluster_id, cluster_id, format_id(random_id())),
        directory_id=found.directory_id or random_id(),
    )
    whole = MetaProperties(1, identity.cluster_id, identity.node_id, identity.directory_id)
    if found != whole:
        write_meta_properties(fs, file, whole)
    return identity


def _first(*choices: _T | None) -> _T:
    return next(choice for choice in choices if choice is not None)
