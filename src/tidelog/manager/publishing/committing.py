"""Publishing a staged write: into all of its partitions, or into none.

1. A batch that was published before is over.
2. Everything that a log could refuse is checked; topics that are missing are made.
3. The intent goes into the journal (`storage.write_journal`): from here on the write will be carried out.
4. It is carried out (`applying`). If that fails, the journal says so, and it is taken back.
5. Once all of it is on the disk, log starts are raised, and the journal says that it is done; the staged
   files go. If that fails, its partitions are not used until the next opening, which does 5 again.

All of it happens in an open store: the clean-shutdown file went before 1, and comes back when the store is
closed. What a writer before us left unfinished was finished when the store was opened.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, LogError, TidelogError
from tidelog.layout.roots import Root
from tidelog.manager.publishing.applying import Find, apply_write, checksums_in, complete, take_back
from tidelog.manager.publishing.checks import check_piece, check_topic
from tidelog.manager.publishing.mark import (
    claim,
    discard_staging,
    has_lost_owner,
    is_just_begun,
    is_ours,
    remove_staged,
)
from tidelog.manager.publishing.staged import Manifest, StagedRun, load_runs, read_manifest
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.store import Store
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.metadata import format_id, read_meta_properties
from tidelog.storage.names import META_PROPERTIES_FILE
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    PendingPartition,
    PendingWrite,
    read_journal,
    staging_name,
    write_journal,
)
from tidelog.types import TopicPartition

__all__ = ["Published", "Write", "publish", "sweep_staging"]

_STALE_MS = 24 * 60 * 60 * 1000
_MOST_CHECKSUMS = 1 << 22
"""More would make the journal larger than it can be read."""

Runs = Mapping[TopicPartition, Sequence[StagedRun]]


@dataclass(frozen=True, slots=True)
class Write:
    """A write whose data is staged."""

    staging: str
    """The directory with its files."""
    manifests: tuple[str, ...]
    """The tasks' manifests in it, in the order in which their records are to come."""
    query: str = ""
    """Who writes, so that a batch that comes again is known; empty for nobody in particular."""
    batch: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """The configuration of topics that are made."""
    overwrite: bool = False
    """Whether the topics' older records go."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Topics, with their number of partitions, that are to be there even if nothing is written to them."""


@dataclass(frozen=True, slots=True)
class Published:
    """What was published."""

    ranges: Mapping[TopicPartition, range]
    """The offsets of the records in each partition."""
    is_replay: bool = False
    """Whether the batch had been published before; nothing was added then."""

    @property
    def records(self) -> int:
        """How many records."""
        return sum(len(one) for one in self.ranges.values())


def publish(store: Store, write: Write, fs: FileSystem = LOCAL) -> Published:
    """Publish a staged write into an open store; then the staged files are gone.

    Raises InvalidInputError, naming topic and limit, for what a topic does not take. Whatever is raised,
    nothing was published, and topics that were made for it are gone again; but where a note of the error says
    so, the write stays in the journal, its partitions are offline, and the next opening settles it.
    """
    root = store.roots[0]
    journal = read_journal(fs, root.path)
    if journal.has(write.query, write.batch):
        remove_staged(fs, write.staging, root.identity.directory_id)
        return Published({}, is_replay=True)
    if journal.pending is not None:
        raise LogError(
            f"{root.file(JOURNAL_FILE)} has a write that failed before; nothing was changed. Close the store "
            "and open it again: that settles it"
        )
    made: set[str] = set()
    try:
        return _publish(store, write, fs, made)
    except Exception:
        _unmake_topics(store, made, fs)
        raise


def _publish(store: Store, write: Write, fs: FileSystem, made: set[str]) -> Published:
    """Topics that are made are added to `made`."""
    root = store.roots[0]
    journal = read_journal(fs, root.path)
    manifests = [read_manifest(fs, write.staging, name) for name in write.manifests]
    runs = load_runs(fs, write.staging, manifests)
    topics = _prepare_topics(store, write, manifests, runs, made)
    pending = _intent(store, write, topics, runs)

    def find(name: TopicPartition) -> Partition:
        return store.partition(name.topic, name.partition)

    for partition in (find(one.topic_partition) for one in pending.partitions):
        if partition.log.recovery_point < partition.log_end_offset:
            partition.flush()
    root.ensure_lock()
    claim(fs, write.staging, root.identity.directory_id)
    ours = format_id(root.identity.directory_id)
    try:
        write_journal(fs, root.path, replace(journal, pending=pending, root=ours))
        apply_write(fs, pending, runs, find)
    except Exception as error:
        try:
            if read_journal(fs, root.path).pending is not None:  # else it failed before anything was changed
                take_back(fs, root, pending, find)
        except Exception as second:
            then = f"it could not be taken back ({second}): the next opening does so"
            _leave_pending(root, pending, find, error, then)
        raise
    made.clear()  # there is no way back: topics stay
    try:
        complete(fs, root, pending, find)
    except Exception as error:
        _leave_pending(root, pending, find, error, "all of it is written: the next opening completes it")
        raise
    remove_staged(fs, write.staging, root.identity.directory_id)
    return Published(
        {
            one.topic_partition: range(one.base_offset, one.base_offset + one.records)
            for one in pending.partitions
            if one.records
        }
    )


def _leave_pending(root: Root, pending: PendingWrite, find: Find, error: Exception, then: str) -> None:
    """Leave a write in the journal, and its partitions as they are: what is appended to them now would be in
    its way.
    """
    why = LogError(
        f"a write into it failed ({error}) and is still in {root.file(JOURNAL_FILE)}; {then}. Close the "
        "store and open it again"
    )
    for one in pending.partitions:
        find(one.topic_partition).park(why)
    error.add_note(f"{then}; until then its partitions are offline")


def _prepare_topics(
    store: Store, write: Write, manifests: Sequence[Manifest], runs: Runs, made: set[str]
) -> set[str]:
    """Check what is to be written, then make the topics that are missing; all topics of the write."""
    wanted = dict(write.topics)
    for manifest in manifests:
        for topic, partitions in manifest.partitions.items():
            if wanted.setdefault(topic, partitions) != partitions:
                raise _changed(topic, partitions, wanted[topic])
    configs: dict[str, LogConfig] = {}
    missing: dict[str, int | None] = {}
    for topic, partitions in wanted.items():
        check_topic(topic)
        if topic not in store.topics:
            missing[topic] = partitions
            configs[topic] = LogConfig.from_properties(write.config, store.config.topic_defaults)
            continue
        if len(store.topic(topic)) != partitions:
            raise _changed(topic, partitions, len(store.topic(topic)))
        configs[topic] = store.partition(topic).log.config
    now_ms = time.time_ns() // 1_000_000
    for name, staged in runs.items():
        if name.topic not in configs or not 0 <= name.partition < wanted[name.topic]:
            raise InvalidInputError(f"staged data is of {name}, which the write does not name")
        for run in staged:
            check_piece(run.piece, configs[name.topic], now_ms)
    made.update(missing)
    store.create_topics(missing, write.config)
    return set(wanted)


def _unmake_topics(store: Store, made: Iterable[str], fs: FileSystem) -> None:
    """Delete topics that a failed write has made, as far as they are empty and no write is pending."""
    with contextlib.suppress(TidelogError, OSError):  # what is told is why the write failed
        if read_journal(fs, store.roots[0].path).pending is not None:
            return  # finished, or taken back, when the root is opened next
        there = store.topics
        for topic in sorted(made & there.keys()):
            if not any(partition.log_end_offset for partition in there[topic]):
                store.delete_topic(topic)


def _changed(topic: str, before: int, after: int) -> InvalidInputError:
    return InvalidInputError(
        f"topic {topic!r} was taken to have {before} partitions and has {after}: "
        "it changed in the meantime; write again"
    )


def _intent(store: Store, write: Write, topics: set[str], runs: Runs) -> PendingWrite:
    """Where every partition stands, and what it is to be given."""
    names = set(runs)
    if write.overwrite:
        names |= {partition.topic_partition for topic in topics for partition in store.topic(topic)}
    partitions = []
    tells = sum(len(run.rows) for listed in runs.values() for run in listed) <= _MOST_CHECKSUMS
    for name in sorted(names):
        partition = store.partition(name.topic, name.partition)
        log = partition.log
        partitions.append(
            PendingPartition(
                name,
                log.log_end_offset,
                sum(run.piece.records for run in runs.get(name, ())),
                partition.leader_epoch,
                log.log_start_offset,
                log.log_end_offset if write.overwrite else log.log_start_offset,
                partition.topic_id,
                checksums_in(log, runs.get(name, ())) if tells else None,
            )
        )
    staging = staging_name(store.roots[0].path, write.staging)
    return PendingWrite(write.query, write.batch, staging, write.manifests, tuple(partitions))


def sweep_staging(
    staging: str,
    now_ms: int = 0,
    fs: FileSystem = LOCAL,
    stale_ms: int = _STALE_MS,
    *,
    root: str | None = None,
    prefix: str | None = None,
) -> list[str]:
    """Remove what dead writers left in a directory of staged writes; the directories that went.

    A write whose process is gone is dead, and so is one in whose directory nothing was changed for a day:
    where a write's process is another machine's, nothing else tells. With `prefix`, which nobody else's names
    begin with, writes whose name begins so go instead, at once. Only what a writer has marked goes (`mark`):
    for nobody yet, or for this root; and of a writer that is known to be dead, what it had no time to mark.
    The directory may be shared with others, and with anything else.
    """
    if not fs.exists(staging):
        return []
    owner = None if root is None else _directory_id(fs, root)
    gone = []
    for entry in fs.list(staging):
        path = f"{staging}/{entry.name}"
        if entry.is_link or not entry.is_directory:
            continue
        is_known_dead = has_lost_owner(fs, path) if prefix is None else entry.name.startswith(prefix)
        if is_ours(fs, path, owner):
            is_dead = is_known_dead or (prefix is None and now_ms - _last_change_ms(fs, path) > stale_ms)
        else:
            is_dead = is_known_dead and is_just_begun(fs, path)
        if is_dead:
            discard_staging(fs, path)
            gone.append(path)
    return gone


def _directory_id(fs: FileSystem, root: str) -> uuid.UUID | None:
    path = f"{root}/{META_PROPERTIES_FILE}"
    return read_meta_properties(fs, path).directory_id if fs.exists(path) else None


def _last_change_ms(fs: FileSystem, path: str) -> int:
    times = [fs.stat(path).mtime_ms]
    for entry in fs.list(path):
        inner = f"{path}/{entry.name}"
        if entry.is_directory and not entry.is_link:
            times.append(_last_change_ms(fs, inner))
        elif not entry.is_link:
            times.append(fs.stat(inner).mtime_ms)
    return max(times)
