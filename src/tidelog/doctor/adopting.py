"""Adopting a topic: partitions of another cluster's disks become a topic of this root, with their offsets.

1. The copies of the topic's partitions are found, and what the metadata beside them says of the topic.
2. The target is looked at: whose it is, whether it is in order and in use, where its metadata is, and whether
   it has a topic of this name or id. Everything that would stand in the way is refused here.
3. The logs are written anew beside the target (where that is a mount point, in the directory of one of its
   partitions), batch by batch as they are (`manager.reconciling`): every checksum is checked, and indexes,
   leader epochs and producer snapshots are made by the log itself.
4. Committed offsets of groups are written to the target's `__consumer_offsets`.
5. The target's checkpoints learn of the new logs, their directories get their names in the target, and the
   metadata gets the topic: its id and configs, and leader epochs that come after those in the logs.

Until the metadata has the topic it is not there. `.tidelog-adopting.json` names the directories meanwhile:
after a crash the next adoption removes them, and begins anew. The sources are only read.
"""

from __future__ import annotations

import errno
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from tidelog.config import LogConfig
from tidelog.doctor.adopted_groups import GroupCommit, find_commits, write_commits
from tidelog.errors import InvalidInputError, LogError, TopicExistsError
from tidelog.layout.config import known_config
from tidelog.layout.roots import (
    NO_BROKER_EPOCH,
    Checkpoint,
    Root,
    check_claimable,
    check_clean,
    hold_root,
    look_at,
)
from tidelog.log import Log
from tidelog.log.log import clock_ms
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import METADATA_DIRECTORY, home_of_metadata
from tidelog.manager.metadata.registration import Place, Registration
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.reconciling.outcome import Outcome
from tidelog.manager.reconciling.rooting import Job, Sources, find_sources, run_job, staged_directory
from tidelog.manager.store.directories import find_unknown
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.lock import LOCK_FILE, holder_of
from tidelog.storage.metadata import MetaProperties, format_id, random_id, read_partition_metadata
from tidelog.storage.names import (
    PARTITION_METADATA_FILE,
    colliding_topic,
    is_internal_topic,
    parse_partition_directory,
    validate_topic,
)
from tidelog.storage.removal import remove_tree
from tidelog.storage.write_journal import read_journal
from tidelog.types import TopicPartition

__all__ = ["MANIFEST_FILE", "Adoption", "adopt", "plan_adoption"]

MANIFEST_FILE = ".tidelog-adopting.json"
_STAGING = ".tidelog-adopting"
_MOST_TOLD = 20
_MOST_FILLED = 10_000


@dataclass(frozen=True, slots=True)
class Adoption:
    """A plan: what becomes which topic of which root."""

    roots: tuple[str, ...]
    """The roots of the target's node; the topic goes into the first."""
    source_topic: str
    topic: str
    topic_id: uuid.UUID
    config: Mapping[str, str]
    jobs: tuple[Job, ...]
    """The partitions that are there."""
    missing: tuple[int, ...]
    """Partitions that are not, and are made empty."""
    commits: tuple[GroupCommit, ...]
    next_producer_id: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def root(self) -> str:
        """Where the topic goes."""
        return self.roots[0]

    @property
    def size(self) -> int:
        """Bytes of the copies."""
        return sum(job.size for job in self.jobs)


def plan_adoption(
    fs: FileSystem,
    paths: Sequence[str],
    roots: Sequence[str],
    *,
    topic: str | None = None,
    rename: str | None = None,
    config: Mapping[str, str] | None = None,
    groups: bool = False,
    fill: bool = False,
    broker: BrokerConfig | None = None,
) -> Adoption:
    """What adopting a topic from under `paths` into the first of a node's `roots` comes to.

    InvalidInputError or LogError if it cannot be done, and why. Nothing is changed.
    """
    sources = find_sources(paths, None if topic is None else [topic])
    chosen = _one_topic(sources, topic)
    name = chosen if rename is None else rename
    validate_topic(name)
    if is_internal_topic(name):
        raise InvalidInputError(f"{name} is a topic of Kafka's own: its records are about the old cluster")
    jobs = [job for job in sources.jobs if job.partition.topic == chosen]
    numbers = [job.partition.partition for job in jobs]
    missing = _missing(chosen, numbers, paths, fill=fill)
    told = sources.configs.get(chosen, {})
    known, faults = known_config(told, (broker or BrokerConfig()).topic_defaults)
    LogConfig.from_properties(config or {}, known)
    settings = {**told, **(config or {})}
    topic_id = jobs[0].topic_id if rename is None else random_id()
    for one in roots:
        holder = holder_of(one)
        if holder is not None:
            raise LogError(
                f"{one} is in use by {f'process {holder}' if holder else 'another'}: stop it first"
            )
    _check_target(fs, roots, name, topic_id)
    commits = find_commits(sources.roots, chosen, name) if groups else []
    return Adoption(
        tuple(roots),
        chosen,
        name,
        topic_id,
        settings,
        tuple(
            replace(job, partition=TopicPartition(name, job.partition.partition), topic_id=topic_id)
            for job in jobs
        ),
        missing,
        tuple(commits),
        sources.next_producer_id,
        (
            *sources.notes,
            *(f"{fault}: it stays with the topic, and Kafka 4.3 ignores it" for fault in faults),
        ),
    )


def _missing(topic: str, numbers: Sequence[int], paths: Sequence[str], *, fill: bool) -> tuple[int, ...]:
    """The partitions below the largest that are not there, if they may be made; InvalidInputError else.

    A directory's name can have any number, so they are counted before they are listed.
    """
    there = set(numbers)
    count = max(numbers) + 1 - len(there)
    found = (number for number in range(max(numbers)) if number not in there)
    if count and not fill:
        told = [*map(str, islice(found, _MOST_TOLD)), *([f"{count} in all,"] if count > _MOST_TOLD else [])]
        raise InvalidInputError(
            f"partitions {', '.join(told)} of {topic} are not under {', '.join(paths)}: name "
            "the disks that have them too, or create them empty (--fill)"
        )
    if count > _MOST_FILLED:
        raise InvalidInputError(
            f"{count} partitions of {topic} below {max(numbers)} would have to be created empty: look at the "
            f"directory {topic}-{max(numbers)}, and leave it out if it does not belong to this topic"
        )
    return tuple(found)


def _one_topic(sources: Sources, wanted: str | None) -> str:
    topics = sorted({job.partition.topic for job in sources.jobs})
    own = [one for one in topics if not is_internal_topic(one)]
    if wanted is not None:
        return wanted
    if len(own) != 1:
        raise InvalidInputError(f"name one of the topics {', '.join(topics)} with --topic")
    return own[0]


def _check_target(fs: FileSystem, roots: Sequence[str], name: str, topic_id: uuid.UUID) -> None:
    """Refuse a target that cannot take the topic."""
    root = roots[0]
    left = _left_behind(fs, root).names
    there = [one for one in roots if fs.exists(one)]
    for one in there:
        facts = look_at(fs, one)
        check_claimable(fs, facts)
        check_clean(fs, facts)
        if read_journal(fs, one).pending is not None:
            raise LogError(f"a bulk write to {one} was cut short: open it once with tidelog first")
        for directory, parsed in facts.directories.items():
            if parsed.topic_partition.topic == name and directory not in left:
                raise TopicExistsError(
                    f"{one}/{directory} exists already: give the topic another name (--rename), or see "
                    f"`tidelog doctor {one}` for what this directory is"
                )
    is_new = root not in there or look_at(fs, root).meta is None
    if is_new and root in there and any(entry.name != LOCK_FILE for entry in fs.list(root)):
        raise InvalidInputError(f"{root} is not the root of a broker or store (it has no meta.properties)")
    if _known_identity(fs, there) is not None:
        _check_metadata(fs, there, name, topic_id)


def _staging_place(fs: FileSystem, root: str) -> str:
    """Where logs can be built that a rename takes into the root: beside it, unless it is a mount point.

    Then it is in a partition's directory, where a broker overlooks what a crash leaves. LogError if there is
    neither.
    """
    beside = f"{root}{_STAGING}"
    if _can_rename(fs, beside, root):
        return beside
    within = [f"{root}/{name}" for name in look_at(fs, root).directories]
    if not within:
        raise LogError(
            f"{root} is a mount point, or the directory that it is in cannot be written, and it has no "
            "partition yet: make a topic in it first, or use a directory below it"
        )
    return f"{within[0]}/{_STAGING}"


def _can_rename(fs: FileSystem, beside: str, root: str) -> bool:
    """Try it with an empty file: a bind mount is no other device, and yet no rename crosses it."""
    probe, target = f"{beside}.probe", f"{root}/{_STAGING}.probe"
    try:
        fs.open(probe, create=True).close()
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return False
    try:
        fs.rename(probe, target)
    except OSError as error:
        fs.unlink(probe)
        if error.errno != errno.EXDEV:
            raise
        return False
    fs.unlink(target)
    return True


def _check_metadata(fs: FileSystem, roots: Sequence[str], name: str, topic_id: uuid.UUID) -> None:
    home = home_of_metadata(fs, roots)
    facts = look_at(fs, home)
    registry = _registry(fs, home)
    registry.check_writable()
    elsewhere = find_unknown(fs, roots).elsewhere
    is_brokers = any(look_at(fs, one).broker_epoch != NO_BROKER_EPOCH for one in roots)
    if elsewhere is None and is_brokers and not fs.exists(f"{home}/{METADATA_DIRECTORY}"):
        elsewhere = "a broker has used it, and its metadata log is not here"
    if elsewhere is not None:
        raise LogError(
            f"{facts.path} is one of several disks of a broker ({elsewhere}). Name all of them with "
            "--server-properties"
        )
    image = registry.image
    if name in image.topics:
        raise TopicExistsError(f"{home} has a topic {name!r} already: give it another name with --rename")
    other = colliding_topic(name, image.topics)
    if other is not None:
        raise InvalidInputError(
            f"{name!r} collides with the topic {other!r} of {home}: in a broker's metrics '.' and '_' are "
            "the same. Give it another name with --rename"
        )
    taken = [one.name for one in image.topics.values() if one.topic_id == topic_id]
    if taken:
        raise TopicExistsError(
            f"{home} has the topic id {format_id(topic_id)} already, as {taken[0]!r}: --rename gives the "
            "adopted topic an id of its own"
        )


def _known_identity(fs: FileSystem, roots: Sequence[str]) -> MetaProperties | None:
    """What the roots of a node say of it; None if all of them are new."""
    found = (look_at(fs, one).meta for one in roots if fs.exists(one))
    return next((one for one in found if one is not None), None)


def _registry(fs: FileSystem, home: str) -> Registry:
    meta = look_at(fs, home).meta
    node_id = 1 if meta is None or meta.node_id is None else meta.node_id
    return Registry(fs, home, node_id, clock_ms)


def adopt(
    fs: FileSystem,
    plan: Adoption,
    *,
    broker: BrokerConfig | None = None,
    groups_partitions: int = 50,
    advance: Callable[[int], None] = lambda size: None,
) -> list[Outcome]:
    """Carry a plan out; what became of each partition.

    LogError if a copy is damaged where no other is sound: nothing is adopted then.
    """
    with _held_roots(fs, plan.roots) as roots:
        _revert(fs, roots)
        _check_target(fs, plan.roots, plan.topic, plan.topic_id)
        place = _staging_place(fs, plan.root)
    with staged_directory(fs, place) as staging:
        outcomes = [run_job(replace(job, target=staging), fs, advance) for job in plan.jobs]
        for job, one in zip(plan.jobs, outcomes, strict=True):
            if one.lost:
                raise LogError(
                    f"{job.urls[0]} has lost offsets {one.lost[0].first_offset} to "
                    f"{one.lost[0].end_offset - 1} ({one.lost[0].reason}). Bring sound copies, or save "
                    "what is there with tidelog salvage first"
                )
        for number in plan.missing:
            Log.open(f"{staging}/{plan.topic}-{number}", clean=True, topic_id=plan.topic_id, fs=fs).close()
        if plan.commits:
            write_commits(fs, plan.roots, plan.commits, broker, groups_partitions)
        with _held_roots(fs, plan.roots) as roots:
            _check_target(fs, plan.roots, plan.topic, plan.topic_id)
            _publish(fs, roots, plan, outcomes, staging)
    return outcomes


@contextmanager
def _held_roots(fs: FileSystem, paths: Sequence[str]) -> Iterator[list[Root]]:
    """The roots of one node under their locks; the first is made if it is missing."""
    with ExitStack() as stack:
        roots: list[Root] = []
        told = _known_identity(fs, paths)
        for path in paths:
            known = roots[0].identity if roots else told
            roots.append(
                stack.enter_context(
                    hold_root(
                        path,
                        fs,
                        create=not roots,
                        node_id=None if known is None else known.node_id,
                        cluster_id=None if known is None else known.cluster_id,
                    )
                )
            )
        yield roots


def _publish(
    fs: FileSystem, roots: Sequence[Root], plan: Adoption, outcomes: Sequence[Outcome], staging: str
) -> None:
    """Step 5: checkpoints, names, metadata."""
    root = roots[0]
    if root.facts.meta is None:
        root.claim()
        root.write_clean_shutdown()
    partitions = {job.partition: one for job, one in zip(plan.jobs, outcomes, strict=True)}
    names = [*partitions, *(TopicPartition(plan.topic, number) for number in plan.missing)]
    manifest = {"topic": plan.topic, "topic_id": format_id(plan.topic_id), "directories": [*map(str, names)]}
    atomic_write(fs, root.file(MANIFEST_FILE), json.dumps(manifest).encode())
    ends = {name: one.log_end_offset for name, one in partitions.items()}
    starts = {name: one.log_start_offset for name, one in partitions.items()}
    root.forget(names)
    root.add_to_checkpoint(Checkpoint.RECOVERY_POINTS, ends)
    root.add_to_checkpoint(Checkpoint.HIGH_WATERMARKS, ends)
    root.add_to_checkpoint(Checkpoint.LOG_STARTS, starts)
    for name in names:
        fs.rename(f"{staging}/{name}", root.file(str(name)))
    fs.sync_directory(root.path)
    epochs = {name: one.leader_epoch for name, one in partitions.items()}
    places = {name.partition: Place(root.identity.directory_id, epochs.get(name, -1) + 1) for name in names}
    registry = Registry(
        fs, home_of_metadata(fs, [one.path for one in roots]), root.identity.node_id, clock_ms
    )
    largest = max([plan.next_producer_id - 1, *(one.largest_producer_id for one in outcomes)])
    registry.register(
        [Registration(plan.topic, plan.topic_id, plan.config, places)], largest_producer_id=largest
    )
    fs.unlink(root.file(MANIFEST_FILE))
    fs.sync_directory(root.path)


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What an adoption was about to add."""

    topic: str = ""
    topic_id: str = ""
    names: tuple[str, ...] = ()


def _left_behind(fs: FileSystem, root: str) -> _Manifest:
    """What an adoption that was cut short may have left in a root."""
    path = f"{root}/{MANIFEST_FILE}"
    if not fs.exists(path):
        return _Manifest()
    try:
        left = json.loads(read_file(fs, path))
        topic, names = str(left["topic"]), tuple(map(str, left["directories"]))
        for name in names:
            if str(TopicPartition(topic, parse_partition_directory(name).topic_partition.partition)) != name:
                raise ValueError(name)
        return _Manifest(topic, str(left["topic_id"]), names)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LogError(f"{path} is not what tidelog adopt writes: look at it, and remove it") from None


def _revert(fs: FileSystem, roots: Sequence[Root]) -> None:
    """Remove what an adoption that was cut short has left; a topic that is registered stays."""
    root = roots[0]
    left = _left_behind(fs, root.path)
    if not left.topic:
        return
    known = _registry(fs, home_of_metadata(fs, [one.path for one in roots])).image.topics.get(left.topic)
    if known is None or format_id(known.topic_id) != left.topic_id:
        for name in left.names:
            metadata = root.file(f"{name}/{PARTITION_METADATA_FILE}")
            if (
                fs.exists(metadata)
                and format_id(read_partition_metadata(fs, metadata).topic_id) == left.topic_id
            ):
                remove_tree(fs, root.file(name))
    fs.unlink(root.file(MANIFEST_FILE))
    fs.sync_directory(root.path)
