"""A root rewritten, from its lock to its clean shutdown.

1. The root is held; its clean-shutdown file is taken away. A root that was not closed cleanly, or whose last
   rewrite or repair was cut short, is refused.
2. Every segment is a task, which makes a new one beside the log if something in it changes (`segments`).
   Tasks run here, on threads, or on a cluster.
3. The originals are kept in the quarantine, unless they are to be discarded (`originals`).
4. Partition by partition, the new segments are swapped in (`partitions`).
5. The clean-shutdown file is put back.

A crash before 4 leaves the logs as they were. A crash in 4 leaves some segments rewritten and the others not;
the next opening finishes or undoes the one that was being swapped. Done again, the rest is rewritten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tidelog.config import LogConfig
from tidelog.doctor.quarantine import RunState, find_runs, new_run
from tidelog.errors import InvalidInputError, LogError
from tidelog.layout.config import known_config
from tidelog.layout.roots import Checkpoint, look_at, read_checkpoint
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.upkeep.compacting import RootHold, check_compactable
from tidelog.manager.verification.root import partition_directories
from tidelog.rewriting.batches import EditStats
from tidelog.rewriting.edits import Edits
from tidelog.rewriting.evidence import evidence
from tidelog.rewriting.originals import finish_run, keep_originals
from tidelog.rewriting.partitions import OpenedAt, PartitionPlan, plan_partition, swap_in
from tidelog.rewriting.segments import SegmentDone, SegmentTask, rewrite_segment
from tidelog.storage import FileSystem
from tidelog.storage.files import parent
from tidelog.storage.lock import holder_of
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    META_PROPERTIES_FILE,
    is_internal_topic,
    parse_partition_directory,
)
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

__all__ = [
    "Rewriting",
    "Rewritten",
    "RewrittenPartition",
    "Runner",
    "partitions_in",
    "plan_rewrite",
    "rewrite_root",
    "threads",
]

Runner = Callable[[Sequence[SegmentTask], Edits], list[SegmentDone]]
"""Runs tasks wherever; the answers in their order."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is to be rewritten, and how."""

    fs: FileSystem
    root: str
    names: tuple[str, ...]
    """The partitions' directories."""
    edits: Edits
    discard: bool = False
    """Whether the originals are deleted rather than kept in the quarantine."""
    with_digests: bool = False
    defaults: LogConfig = field(default_factory=LogConfig)
    """The broker's defaults, under what the metadata says."""
    metadata: str | None = None
    """The root whose metadata counts, where it is another disk of the same broker."""


@dataclass(frozen=True, slots=True)
class RewrittenPartition:
    """What became of a partition, or would become of it."""

    partition: TopicPartition
    path: str
    log_end_offset: int
    segments: Sequence[SegmentDone]

    @property
    def changed(self) -> int:
        """How many segments changed."""
        return sum(one.changed for one in self.segments)

    @property
    def stats(self) -> EditStats:
        """What was done in all segments."""
        return sum((one.stats for one in self.segments), EditStats())

    @property
    def bytes_before(self) -> int:
        """Of the logs."""
        return sum(one.size_before for one in self.segments)

    @property
    def bytes_after(self) -> int:
        """Of the logs."""
        return sum(one.size_after for one in self.segments)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rewrite did to a root."""

    partitions: Sequence[RewrittenPartition]
    run: str | None
    """The name in the quarantine; None if nothing is kept there."""
    evidence: dict[str, Any]


def threads(fs: FileSystem, count: int = 1, advance: Callable[[int], None] = lambda size: None) -> Runner:
    """Runs tasks in this process, on so many threads."""

    def run(tasks: Sequence[SegmentTask], edits: Edits) -> list[SegmentDone]:
        if count <= 1:
            return [rewrite_segment(fs, task, edits, advance) for task in tasks]
        with ThreadPoolExecutor(count, thread_name_prefix="tidelog-rewrite") as pool:
            futures = [pool.submit(rewrite_segment, fs, task, edits, advance) for task in tasks]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    return run


def plan_rewrite(request: Rewriting, run: Runner) -> list[RewrittenPartition]:
    """What a rewrite would do: the same work, but nothing is written. The root is not locked."""
    fs, root = request.fs, request.root
    if _is_root(request):
        holder = holder_of(root)
        if holder is not None:
            raise LogError(f"{root} is in use: stop the process that has it open first")
        check_compactable(fs, look_at(fs, root))
    starts, points = (
        read_checkpoint(fs, root, kind) for kind in (Checkpoint.LOG_STARTS, Checkpoint.RECOVERY_POINTS)
    )
    plans = _plans(request, lambda name: OpenedAt(starts.get(name, 0), points.get(name, 0)), write=False)
    return _done(plans, run, request.edits)


def rewrite_root(request: Rewriting, run: Runner, *, now_ms: int | None = None) -> Rewritten:
    """Rewrite partitions of a root, as above. What is wrong with the bytes is raised before a log changes."""
    fs, root = request.fs, request.root
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    with RootHold(fs, root) as hold:
        _check_runs(fs, root)

        def opened_at(name: TopicPartition) -> OpenedAt:
            return OpenedAt(
                hold.checkpoint(Checkpoint.LOG_STARTS).get(name, 0),
                hold.checkpoint(Checkpoint.RECOVERY_POINTS).get(name, 0),
            )

        plans = _plans(request, opened_at, write=True)
        with _staging(fs, plans):
            done = _done(plans, run, request.edits)
            changes = [(plan, one.segments) for plan, one in zip(plans, done, strict=True) if one.changed]
            name = None if request.discard or not changes else new_run()
            manifest = keep_originals(fs, root, name, changes) if name is not None else None
            for plan, segments in changes:
                hold.opening()
                swap_in(fs, plan, segments)
                hold.closed()
            if manifest is not None:
                finish_run(fs, manifest)
    told = evidence(root, request.edits, done, run=name, now_ms=now_ms)
    return Rewritten(done, name, told)


def partitions_in(fs: FileSystem, root: str, topics: Collection[str] | None = None) -> list[str]:
    """The partitions' directories of some topics in a root; None: of all but internal ones."""
    found = partition_directories(fs, root)[0]
    return [
        name
        for name, one in found.items()
        if (one.topic in topics if topics is not None else not is_internal_topic(one.topic))
        and (topics is not None or one.topic != CLUSTER_METADATA_TOPIC)
    ]


def _is_root(request: Rewriting) -> bool:
    return request.fs.exists(f"{request.root}/{META_PROPERTIES_FILE}")


def _check_runs(fs: FileSystem, root: str) -> None:
    for run in find_runs(fs, root):
        if run.state is RunState.APPLYING and run.after:
            raise LogError(
                f"a rewrite of {root} was cut short: undo it with tidelog fix --undo {root}, or accept what "
                f"it did with tidelog fix --empty-quarantine {root}"
            )
        if run.state is not RunState.APPLIED:
            raise LogError(f"a repair of {root} was cut short: undo it with tidelog fix --undo {root}")


def _plans(
    request: Rewriting, opened_at: Callable[[TopicPartition], OpenedAt], *, write: bool
) -> list[PartitionPlan]:
    image = read_cluster_metadata(request.fs, request.metadata or request.root).image
    plans = []
    for name in request.names:
        partition = parse_partition_directory(name).topic_partition
        plans.append(
            plan_partition(
                request.fs,
                f"{request.root}/{name}",
                partition,
                _config(request, partition, image),
                opened_at(partition),
                write=write,
                with_digests=request.with_digests,
            )
        )
    return plans


def _config(request: Rewriting, partition: TopicPartition, image: MetadataImage) -> LogConfig:
    if partition.topic == CLUSTER_METADATA_TOPIC:
        raise InvalidInputError(f"{partition} is a broker's own metadata log, which is never rewritten")
    config = request.defaults
    if partition.topic in image.topics:
        config, _ = known_config(image.topic_config(partition.topic), request.defaults)
    if config.compact and "key" in request.edits.redact and request.edits.replacement is None:
        raise InvalidInputError(
            f"topic {partition.topic} is compacted, which removes records without a key: give redacted keys "
            "some bytes instead of null, or erase the records"
        )
    return config


def _done(plans: Sequence[PartitionPlan], run: Runner, edits: Edits) -> list[RewrittenPartition]:
    answers = iter(run([task for plan in plans for task in plan.tasks], edits))
    return [
        RewrittenPartition(
            plan.partition, plan.path, plan.log_end_offset, [next(answers) for _ in plan.tasks]
        )
        for plan in plans
    ]


@contextmanager
def _staging(fs: FileSystem, plans: Sequence[PartitionPlan]) -> Iterator[None]:
    """Empty directories for new segments, which go with all that was not swapped in."""
    for plan in plans:
        _sweep(fs, plan)
    try:
        yield
    finally:
        for plan in plans:
            _sweep(fs, plan)


def _sweep(fs: FileSystem, plan: PartitionPlan) -> None:
    for place in (parent(plan.staging), plan.staging):
        if fs.is_link(place):
            raise LogError(
                f"{place} is a symbolic link, and what is behind it is not known to be this partition's: "
                "remove the link, then run the rewrite again"
            )
    if not fs.exists(plan.staging):
        return
    remove_tree(fs, plan.staging)
    above = parent(plan.staging)
    if not fs.list(above):
        fs.remove_directory(above)
        fs.sync_directory(plan.path)
