"""All partitions of several disks, as a new root.

1. The partitions that the sources hold are listed; those of the same name and topic id are copies.
2. Each is reconciled on its own (`reconciling`), here or on Spark, into a directory beside the target.
3. The new root gets an identity, checkpoints, and metadata that tells a broker of its topics: their ids, what
   is set for them as far as the sources' metadata says so, and leader epochs after those in the logs.
4. The directory is given the target's name: the new root is there wholly or not at all.

The metadata log of the sources is not merged: the new root is one node's. The sources are only read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.errors import InvalidInputError, LogError
from tidelog.layout.roots import Checkpoint, Root, hold_root, look_at
from tidelog.log.log import clock_ms
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.manager.metadata.registration import Place, Registration
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.reconciling.outcome import Outcome
from tidelog.manager.reconciling.reconciling import LogStart, reconcile_partition
from tidelog.scanning.partitions import Partition, find_partitions, in_words
from tidelog.storage import LOCAL, FileSystem, LocalFileSystem
from tidelog.storage.files import make_directories, parent
from tidelog.storage.lock import LOCK_FILE, RootLock, holder_of
from tidelog.storage.metadata import format_id, random_id
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

__all__ = ["Job", "Sources", "find_sources", "finish_root", "run_job", "staged_directory", "staged_root"]

_STAGING = ".tidelog-reconciling"


@dataclass(frozen=True, slots=True)
class Job:
    """The copies of one partition, and where they go; without a target they are only looked at."""

    partition: TopicPartition
    topic_id: uuid.UUID
    urls: tuple[str, ...]
    size: int
    start: LogStart | None = None
    target: str | None = None
    """The new root while it is being made."""
    truncated_to: str | None = None
    """A directory for what copies have besides the history."""


def run_job(job: Job, fs: FileSystem = LOCAL, advance: Callable[[int], None] = lambda size: None) -> Outcome:
    """Reconcile one partition."""
    partitions = [find_partitions(url)[0] for url in job.urls]

    def beside(copy_number: int) -> str:
        made = f"{job.truncated_to}/{job.partition}/copy-{copy_number + 1}"
        make_directories(fs, made)
        return f"{made}/{job.partition}"

    return reconcile_partition(
        fs,
        partitions,
        None if job.target is None else f"{job.target}/{job.partition}",
        topic_id=job.topic_id,
        start=job.start,
        advance=advance,
        truncated_to=None if job.truncated_to is None else lambda copy: beside(copy.number),
    )


@dataclass(frozen=True, slots=True)
class Sources:
    """What disks hold together."""

    jobs: tuple[Job, ...]
    configs: Mapping[str, Mapping[str, str]]
    """What is set for topics."""
    cluster_id: str | None
    next_producer_id: int = 0
    roots: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())
    """What to know about the disks before they are trusted."""


def find_sources(
    paths: Sequence[str], topics: Sequence[str] | None = None, start: LogStart | None = None
) -> Sources:
    """List the copies of partitions under several roots or partition directories."""
    found: dict[TopicPartition, list[Partition]] = {}
    roots: dict[str, None] = {}
    for path in dict.fromkeys(paths):
        for one in find_partitions(path):
            if "://" in one.url:
                raise InvalidInputError(f"{one.url} is not on this machine: copy it here first")
            roots[parent(one.url)] = None
            name = one.topic_partition
            if not one.is_metadata_log and (topics is None or name.topic in topics):
                found.setdefault(name, []).append(one)
    missing = set(topics or ()) - {name.topic for name in found}
    if missing or not found:
        what = f"of topic {', '.join(sorted(missing))} " if missing else ""
        raise InvalidInputError(f"no partition {what}under {in_words(paths)}")
    in_use = [root for root in roots if holder_of(root) is not None]
    images = [look_at_metadata(LOCAL, root).image for root in roots]
    ids = _topic_ids(found)
    configs: dict[str, Mapping[str, str]] = {}
    for name in found:
        known = [image for image in images if name.topic in image.topics]
        told = [image for image in known if ids.get(name.topic) in (None, image.topics[name.topic].topic_id)]
        if name.topic not in ids:
            ids[name.topic] = told[0].topics[name.topic].topic_id if told else random_id()
        configs.setdefault(name.topic, told[0].topic_config(name.topic) if told else {})
    jobs = [
        Job(
            name,
            ids[name.topic],
            tuple(one.url for one in copies),
            sum(segment.size for one in copies for segment in one.segments),
            start,
        )
        for name, copies in sorted(found.items())
    ]
    clusters = {meta.cluster_id for root in roots if (meta := look_at(LOCAL, root).meta) is not None}
    return Sources(
        tuple(jobs),
        configs,
        clusters.pop() if len(clusters) == 1 else None,
        max((image.next_producer_id for image in images), default=0),
        tuple(roots),
        tuple(f"{root} is in use: what is written to it from now on is not taken" for root in in_use),
    )


def _topic_ids(found: Mapping[TopicPartition, Sequence[Partition]]) -> dict[str, uuid.UUID]:
    """The id of each topic; InvalidInputError if copies are of topics of the same name."""
    ids: dict[str, tuple[uuid.UUID, str]] = {}
    for name, copies in found.items():
        for one in copies:
            if one.topic_id is None:
                continue
            known, where = ids.setdefault(name.topic, (one.topic_id, one.url))
            if known != one.topic_id:
                raise InvalidInputError(
                    f"{where} has topic id {format_id(known)}, {one.url} has {format_id(one.topic_id)}: the "
                    "topic was deleted and created again. Name only copies of one of them"
                )
    return {topic: known for topic, (known, _) in ids.items()}


@contextmanager
def staged_directory(fs: FileSystem, path: str) -> Iterator[str]:
    """An empty directory under a lock, to build something in; it is removed in the end.

    What an earlier attempt left in it is removed first. LogError if a link has its name.
    """
    if fs.is_link(path):
        raise LogError(
            f"{path} is a symbolic link, and what is behind it is not known to be an earlier attempt's: "
            "remove the link"
        )
    make_directories(fs, path)
    lock = RootLock(path) if isinstance(fs, LocalFileSystem) else None
    try:
        for entry in fs.list(path):
            if entry.is_directory:
                remove_tree(fs, f"{path}/{entry.name}")
            elif entry.name != LOCK_FILE:
                fs.unlink(f"{path}/{entry.name}")
        yield path
    finally:
        if lock is not None:
            lock.release()
        remove_tree(fs, path)


@contextmanager
def staged_root(fs: FileSystem, target: str) -> Iterator[str]:
    """A directory for a new root, which has the target's name when the `with` ends well.

    InvalidInputError if there is something at the target.
    """
    if fs.exists(target) and (not fs.stat(target).is_directory or fs.list(target)):
        raise InvalidInputError(f"{target} exists already: name a new or empty directory")
    if Path(target).is_mount():
        raise InvalidInputError(
            f"{target} is a mount point, which no rename replaces: name a directory in it"
        )
    with staged_directory(fs, f"{target.rstrip('/')}{_STAGING}") as staging:
        yield staging
        fs.rename(staging, target)
        fs.sync_directory(parent(target))


def finish_root(
    fs: FileSystem, root: str, sources: Sources, outcomes: Sequence[Outcome], *, node_id: int | None = None
) -> None:
    """Make a directory of reconciled partitions a root that a broker boots."""
    held = hold_root(root, fs, node_id=node_id, cluster_id=sources.cluster_id, lock=False)
    held.claim()
    ends = {one.partition: one.log_end_offset for one in outcomes}
    held.add_to_checkpoint(Checkpoint.RECOVERY_POINTS, ends)
    held.add_to_checkpoint(Checkpoint.HIGH_WATERMARKS, ends)
    held.add_to_checkpoint(Checkpoint.LOG_STARTS, {one.partition: one.log_start_offset for one in outcomes})
    _register(fs, held, sources, outcomes)
    held.write_clean_shutdown()


def _register(fs: FileSystem, root: Root, sources: Sources, outcomes: Sequence[Outcome]) -> None:
    topics: dict[str, Registration] = {}
    ids = {job.partition.topic: job.topic_id for job in sources.jobs}
    for one in outcomes:
        name = one.partition.topic
        known = topics.get(name) or Registration(name, ids[name], sources.configs.get(name, {}), {})
        place = Place(root.identity.directory_id, one.leader_epoch + 1)
        topics[name] = Registration(
            name, known.topic_id, known.config, {**known.partitions, one.partition.partition: place}
        )
    largest = max([sources.next_producer_id - 1, *(one.largest_producer_id for one in outcomes)])
    registry = Registry(fs, root.path, root.identity.node_id, clock_ms)
    registry.register(topics.values(), largest_producer_id=largest)
