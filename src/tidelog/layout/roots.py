"""One root directory: whose it is, who holds it, what is in it and what its checkpoints say.

    .lock                                the hold on it (`storage.lock`)
    meta.properties                      node, cluster and directory id
    .kafka_cleanshutdown                 there only between an orderly stop and the next start
    recovery-point-offset-checkpoint     below it a log is on the disk
    log-start-offset-checkpoint          where a log starts, if not with its first segment
    replication-offset-checkpoint        high watermarks
    cleaner-offset-checkpoint            how far a log is compacted
    tidelog-journal                      a bulk write that is being published (`storage.write_journal`)
    <topic>-<partition>[...]             partitions; other directories are passed over and reported

A root is looked at (`look_at`: nothing changes) or held (`hold_root`: this process has its lock). A held root
changes only when it is claimed: `meta.properties` is completed and the clean-shutdown file is taken away,
durably, before anything else changes, so that a crash from then on is a crash. Code that may only refuse a
root holds it, looks at it and releases it.
"""

from __future__ import annotations

import enum
import errno
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from tidelog.errors import InvalidIndexError, InvalidInputError, UncleanShutdownError
from tidelog.layout.partitions import list_partition
from tidelog.storage import (
    FileSystem,
    LocalFileSystem,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from tidelog.storage.files import make_directories
from tidelog.storage.forks import watch
from tidelog.storage.local import LINK_REFUSED
from tidelog.storage.lock import RootLock, check_lock_file
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
    CLUSTER_METADATA_TOPIC,
    META_PROPERTIES_FILE,
    DirectoryState,
    FileKind,
    PartitionDirectoryName,
    Transient,
    parse_partition_directory,
)
from tidelog.types import TopicPartition

__all__ = [
    "NO_BROKER_EPOCH",
    "TAKEN_AS_EMPTY",
    "Checkpoint",
    "Identity",
    "Offsets",
    "Root",
    "RootFacts",
    "Skipped",
    "check_claimable",
    "check_clean",
    "check_holdable",
    "hold_root",
    "look_at",
    "read_checkpoint",
    "unclean",
    "warn_once",
]

_logger = logging.getLogger(__name__)

NO_BROKER_EPOCH = -1
FIRST_NODE_ID = 1
"""The node id of a root that is told none."""

TAKEN_AS_EMPTY = "the checkpoint is taken as empty, as a broker takes it"
"""What is said of a checkpoint that cannot be read."""

_KAFKAS_OWN = frozenset({"remote-log-index-cache"})

_T = TypeVar("_T")
Offsets = Mapping[TopicPartition, int]


class Checkpoint(enum.Enum):
    """The checkpoints of a root; the value is the file's name."""

    RECOVERY_POINTS = "recovery-point-offset-checkpoint", "recovery point", False
    LOG_STARTS = "log-start-offset-checkpoint", "log start", True
    HIGH_WATERMARKS = "replication-offset-checkpoint", "high watermark", False
    CLEANED = "cleaner-offset-checkpoint", "cleaner's offset", True

    label: str
    """What messages call one of its offsets."""
    falls_to_start: bool
    """Whether an offset past the log end is set to the first offset of the log, not to its end."""

    def __new__(cls, file: str, label: str, falls_to_start: bool) -> Checkpoint:
        """A member whose value is the file's name."""
        made = object.__new__(cls)
        made._value_, made.label, made.falls_to_start = file, label, falls_to_start
        return made


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in a root that was skipped, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose a root is, as `meta.properties` says."""

    node_id: int
    cluster_id: str
    directory_id: uuid.UUID


# ---- looking


@dataclass(frozen=True, slots=True)
class RootFacts:
    """What a root held when it was looked at."""

    path: str
    meta: MetaProperties | None
    """What `meta.properties` says; None if there is none: nobody's root."""
    clean: bool
    """Whether it was closed cleanly."""
    broker_epoch: int
    """What the clean-shutdown file says."""
    directories: Mapping[str, PartitionDirectoryName]
    """The partitions' directories by name."""
    checkpoints: Mapping[Checkpoint, Offsets]
    skipped: tuple[Skipped, ...]

    @property
    def partitions(self) -> dict[str, TopicPartition]:
        """The live partitions by their directories' names, the metadata log aside."""
        return {
            name: parsed.topic_partition
            for name, parsed in self.directories.items()
            if parsed.state is DirectoryState.LIVE and parsed.topic_partition.topic != CLUSTER_METADATA_TOPIC
        }

    @property
    def logs(self) -> list[str]:
        """The directories of which a clean-shutdown file says that they are in order, the metadata log aside.

        A broker goes on with a copy that a move had begun (`-future`) where it ends, and with the file there
        it trusts that end.
        """
        in_use = (DirectoryState.LIVE, DirectoryState.FUTURE)
        return [
            name
            for name, parsed in self.directories.items()
            if parsed.state in in_use and parsed.topic_partition.topic != CLUSTER_METADATA_TOPIC
        ]


def look_at(fs: FileSystem, path: str) -> RootFacts:
    """Look at what there is; nothing is locked or changed."""
    meta_file, clean_file = f"{path}/{META_PROPERTIES_FILE}", f"{path}/{CLEAN_SHUTDOWN_FILE}"
    meta = read_meta_properties(fs, meta_file) if fs.exists(meta_file) else None
    clean, epoch = fs.exists(clean_file), None
    if clean:
        epoch = read_clean_shutdown(fs, clean_file)
    directories: dict[str, PartitionDirectoryName] = {}
    skipped = []
    for entry in sorted(fs.list(path)):
        if not entry.is_directory or entry.name in _KAFKAS_OWN:
            continue
        if entry.is_link:
            skipped.append(Skipped(f"{path}/{entry.name}", LINK_REFUSED))
            continue
        try:
            directories[entry.name] = parse_partition_directory(entry.name)
        except InvalidInputError as error:
            skipped.append(Skipped(f"{path}/{entry.name}", str(error)))
    unreadable: list[Skipped] = []
    checkpoints = {kind: read_checkpoint(fs, path, kind, unreadable.append) for kind in Checkpoint}
    for one in unreadable:
        warn_once(one.reason)
    skipped += unreadable
    return RootFacts(
        path,
        meta,
        clean,
        NO_BROKER_EPOCH if epoch is None else epoch,
        directories,
        checkpoints,
        tuple(skipped),
    )


def read_checkpoint(
    fs: FileSystem, root: str, kind: Checkpoint, report: Callable[[Skipped], object] | None = None
) -> Offsets:
    """What a root's checkpoint says. One that cannot be read is taken as empty, as by Kafka, and reported.

    Without `report`, that is a warning, once for each file.
    """
    path = f"{root}/{kind.value}"
    try:
        return read_offset_checkpoint(fs, path)
    except (InvalidIndexError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in {*_NO_FILE, errno.EACCES, errno.EPERM}:
            raise  # the disk fails
        # Without it, more is recovered than needed, but nothing is lost.
        why = f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)
        said = f"{why}; {TAKEN_AS_EMPTY}"
        if report is not None:
            report(Skipped(path, said))
        else:
            warn_once(said)
        return {}


_NO_FILE = {errno.EISDIR, errno.EINVAL}
"""What says that a directory, a FIFO or a device is in the place of a file."""


def _is_file(fs: FileSystem, path: str) -> bool:
    try:
        fs.open(path).close()
    except OSError as error:
        return error.errno not in _NO_FILE
    return True


_warned: set[str] = set()
_MANY_WARNINGS = 1000


def warn_once(said: str) -> None:
    """Log a warning, unless this process has done so: a command looks at a root more than once."""
    if said not in _warned:
        if len(_warned) >= _MANY_WARNINGS:
            _warned.clear()
        _warned.add(said)
        _logger.warning("%s", said)


def unclean(fs: FileSystem, facts: RootFacts) -> list[str]:
    """The logs of a root that was not closed cleanly and that were written to: they need recovery."""
    if facts.clean:
        return []
    return [name for name in facts.logs if _was_written_to(fs, f"{facts.path}/{name}")]


def check_clean(fs: FileSystem, facts: RootFacts) -> None:
    """Refuse a root that was not closed cleanly, and say what to do."""
    names = unclean(fs, facts)
    if names:
        raise UncleanShutdownError(
            f"{facts.path} was not closed cleanly (it has no {CLEAN_SHUTDOWN_FILE}): its {len(names)} logs "
            "must be recovered first, which cuts off what is damaged at their ends. See what that would do "
            f"with `tidelog recover --dry-run {facts.path}`, then run `tidelog recover {facts.path}`, or "
            "open it with recover=True"
        )


def check_holdable(facts: RootFacts) -> None:
    """Refuse a root that could not be held.

    Its meta.properties does not tell whose it is, or what is in the place of its lock file cannot be opened.
    """
    check_lock_file(facts.path)
    _identity(facts, None, None)


def check_claimable(fs: FileSystem, facts: RootFacts) -> None:
    """Refuse a root that could not be held, or that could not be claimed.

    FileExistsError where a directory or a FIFO is in the place of a checkpoint, which has to be written.
    """
    check_holdable(facts)
    for path in (f"{facts.path}/{kind.value}" for kind in Checkpoint):
        if fs.exists(path) and not _is_file(fs, path):
            what = "what is where a checkpoint has to be written is no file; move it away"
            raise FileExistsError(errno.EEXIST, what, path)


def _was_written_to(fs: FileSystem, path: str) -> bool:
    """Whether a partition has more than the one empty segment that it was made with.

    Logs may be empty because a crash has lost their bytes: other segments and snapshots tell that there were
    some, and must not be trusted.
    """
    bases = set()
    for name, file in list_partition(fs, path).parsed.items():
        if file.transient is Transient.DELETED:
            continue
        if file.kind in (FileKind.SNAPSHOT, FileKind.TXN_INDEX):
            return True
        bases.add(file.offset)
        if file.kind is FileKind.LOG:
            with suppress(FileNotFoundError):
                if fs.stat(f"{path}/{name}").size:
                    return True
    return len(bases) > 1


# ---- holding


class Root:
    """A root directory that is held by this process."""

    def __init__(self, fs: FileSystem, lock: RootLock | None, identity: Identity, facts: RootFacts) -> None:
        self.path = facts.path
        self.fs = fs
        self.facts = facts
        """What it held when it was taken."""
        self.identity = identity
        """Whose it is."""
        self.broker_epoch = facts.broker_epoch
        """What the last clean-shutdown file said; the next one says it again."""
        self.in_order = facts.clean
        """Whether everything in it that nobody here opens can be vouched for."""
        self.offline: BaseException | None = None
        """Why it is no longer used."""
        self.checkpoints: dict[Checkpoint, Offsets] = dict(facts.checkpoints)
        """What the checkpoints say."""
        self._lock = lock
        self._writing = threading.Lock()  # held from before a checkpoint is computed until it is written
        watch(self)

    def __repr__(self) -> str:
        """With its path."""
        return f"Root({self.path!r})"

    def __enter__(self) -> Self:
        """Itself; leaving lets go of it, and says nothing about its order."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go."""
        self.release()

    def file(self, name: str) -> str:
        """The path of something in here."""
        return f"{self.path}/{name}"

    def claim(self) -> None:
        """Begin to change it: say whose it is, and that it is no longer in order."""
        identity = self.identity
        whole = MetaProperties(1, identity.cluster_id, identity.node_id, identity.directory_id)
        if self.facts.meta != whole:
            write_meta_properties(self.fs, self.file(META_PROPERTIES_FILE), whole)
        self.take_clean_shutdown()

    def take_clean_shutdown(self) -> None:
        """From here on a crash is a crash, and the checkpoints that were read are on the disk.

        Refused as `check_claimable` says.
        """
        check_claimable(self.fs, self.facts)
        if self.fs.exists(self.file(CLEAN_SHUTDOWN_FILE)):
            self.fs.unlink(self.file(CLEAN_SHUTDOWN_FILE))
        self.fs.sync_directory(self.path)

    def update_checkpoint(self, kind: Checkpoint, change: Callable[[Offsets], Offsets]) -> None:
        """Replace a checkpoint, durably, by what `change` makes of it; one that says so already stays.

        One thread at a time computes and writes, so that the newest state is the one that stays. `change`
        may take no lock that is held by somebody who writes a checkpoint.
        """
        with self._writing:
            self.ensure_lock()
            offsets = dict(change(self.checkpoints[kind]))
            if offsets == self.checkpoints[kind] and self.fs.exists(self.file(kind.value)):
                return
            write_offset_checkpoint(self.fs, self.file(kind.value), offsets)
            self.checkpoints[kind] = offsets

    def add_to_checkpoint(self, kind: Checkpoint, offsets: Offsets) -> None:
        """Say this of some partitions in a checkpoint, durably, and of the others what it says."""
        self.update_checkpoint(kind, lambda known: {**known, **offsets})

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Remove some partitions from all checkpoints, durably, because new logs take their names."""
        for kind in Checkpoint:
            if not self.checkpoints[kind].keys().isdisjoint(partitions):
                self.update_checkpoint(
                    kind, lambda known: {name: known[name] for name in known if name not in partitions}
                )

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


def hold_root(
    path: str,
    fs: FileSystem,
    *,
    create: bool = False,
    node_id: int | None = None,
    cluster_id: str | None = None,
    lock: bool = True,
) -> Root:
    """Take hold of a root, making it if it is missing and may be; nothing else changes before `claim`.

    A `node_id` or `cluster_id` other than the root's own is refused: the root is someone else's. Without
    `lock` somebody above holds it already.
    """
    if not fs.exists(path):
        if not create:
            raise FileNotFoundError(2, "no such root directory", path)
        make_directories(fs, path)
    held = RootLock(path) if lock and isinstance(fs, LocalFileSystem) else None
    try:
        facts = look_at(fs, path)
        return Root(fs, held, _identity(facts, node_id, cluster_id), facts)
    except BaseException:
        if held is not None:
            held.release()
        raise


def _identity(facts: RootFacts, node_id: int | None, cluster_id: str | None) -> Identity:
    file = f"{facts.path}/{META_PROPERTIES_FILE}"
    found = facts.meta or MetaProperties(1, None, None)
    if facts.meta is not None and found.node_id is None and found.cluster_id is None:
        raise InvalidInputError(
            f"{file} names neither a node nor a cluster, so it does not tell whose the root is: restore "
            "it, or remove it if this is to become a new root"
        )
    for key, ours, theirs in (
        ("node.id", node_id, found.node_id),
        ("cluster.id", cluster_id, found.cluster_id),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            raise InvalidInputError(f"{file} says {key}={theirs}, not {ours}: the root is another's")
    return Identity(
        node_id=_first(found.node_id, node_id, FIRST_NODE_ID),
        cluster_id=_first(found.cluster_id, cluster_id, format_id(random_id())),
        directory_id=found.directory_id or random_id(),
    )


def _first(*choices: _T | None) -> _T:
    return next(choice for choice in choices if choice is not None)
