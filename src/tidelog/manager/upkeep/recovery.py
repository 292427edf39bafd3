"""Recovering a root or a single partition, without opening a store on it.

Every log is opened as after a crash, whatever a clean-shutdown file says, from its recovery point on (the
root's checkpoint, or one that is given), and closed in order. A root then gets new checkpoints and, if all
logs could be recovered, its clean-shutdown file; nothing else in it is touched. The metadata log is a
broker's own: it recovers it at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, TidelogError
from tidelog.log import Log
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.store.events import Event
from tidelog.manager.store.loading import LoadJob, load_logs
from tidelog.manager.store.root import NO_BROKER_EPOCH, Checkpoint
from tidelog.manager.store.topics import known_config
from tidelog.manager.upkeep.recovery_plan import plan_recovery
from tidelog.storage import FileSystem, read_offset_checkpoint, write_offset_checkpoint
from tidelog.storage.files import parent
from tidelog.storage.lock import RootLock
from tidelog.storage.metadata import write_clean_shutdown
from tidelog.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    META_PROPERTIES_FILE,
    DirectoryState,
    FileKind,
    Transient,
    parse_partition_directory,
    parse_segment_file,
)
from tidelog.types import TopicPartition

__all__ = ["Recovered", "recover_partition", "recover_root"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of a log. With an `error` it could not be recovered; what was done is not known then."""

    partition: TopicPartition
    path: str
    recovery_point: int
    segments_before: int
    bytes_before: int
    segments: int = 0
    size_bytes: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    error: str | None = None
    cause: str | None = None
    """Why something would be cut; only a dry run tells."""

    @property
    def bytes_cut(self) -> int:
        """How much of its logs was cut off."""
        return 0 if self.error is not None else self.bytes_before - self.size_bytes


def recover_partition(
    fs: FileSystem,
    path: str,
    *,
    recovery_point: int | None = None,
    tell: Callable[[Event], None] = lambda event: None,
    lock: bool = True,
    dry_run: bool = False,
) -> Recovered:
    """Recover one log; its root, if it is in one, is locked meanwhile, unless told not to.

    With `dry_run` it is only read, and the answer says what would be left (`recovery_plan`).
    """
    recovery = _Recovery(fs, parent(path), recovery_point, tell, lock)
    names = [path.rpartition("/")[2]]
    return (recovery.plan(names) if dry_run else recovery.run(names))[0]


def recover_root(
    fs: FileSystem,
    path: str,
    *,
    recovery_point: int | None = None,
    threads: int = 1,
    tell: Callable[[Event], None] = lambda event: None,
    lock: bool = True,
    dry_run: bool = False,
) -> list[Recovered]:
    """Recover every log of a root, `threads` at a time; see `recover_partition`."""
    names = []
    for entry in sorted(fs.list(path)):
        try:
            parsed = parse_partition_directory(entry.name) if entry.is_directory else None
        except InvalidInputError:
            continue
        if parsed is None or parsed.state is not DirectoryState.LIVE:
            continue
        if parsed.topic_partition.topic != CLUSTER_METADATA_TOPIC:
            names.append(entry.name)
    recovery = _Recovery(fs, path, recovery_point, tell, lock)
    return recovery.plan(names) if dry_run else recovery.run(names, threads=threads, whole=True)


class _Recovery:
    def __init__(
        self, fs: FileSystem, root: str, recovery_point: int | None, tell: Callable[[Event], None], lock: bool
    ) -> None:
        self._lock = lock
        self._fs = fs
        self._root = root
        self._point = recovery_point
        self._tell = tell

    def run(self, names: Sequence[str], *, threads: int = 1, whole: bool = False) -> list[Recovered]:
        with ExitStack() as stack:
            known = self._fs.exists(f"{self._root}/{META_PROPERTIES_FILE}")
            if known and self._lock:
                stack.enter_context(RootLock(self._root))
            clean = f"{self._root}/{CLEAN_SHUTDOWN_FILE}"
            was_clean = known and self._fs.exists(clean)
            if was_clean:  # from here on a crash is a crash
                self._fs.unlink(clean)
                self._fs.sync_directory(self._root)
            recovered = self._recover(names, threads)
            if known:
                self._checkpoint(recovered)
                if all(one.error is None for one in recovered) and (whole or was_clean):
                    write_clean_shutdown(self._fs, clean, NO_BROKER_EPOCH)
            return recovered

    def plan(self, names: Sequence[str]) -> list[Recovered]:
        """What `run` would do; nothing is locked or changed."""
        points, starts = self._read(Checkpoint.RECOVERY_POINTS), self._read(Checkpoint.LOG_STARTS)
        planned = []
        for name in names:
            partition = parse_partition_directory(name).topic_partition
            path = f"{self._root}/{name}"
            point = points.get(partition, 0) if self._point is None else self._point
            before = Recovered(partition, path, point, *_logs(self._fs, path))
            start = starts.get(partition, 0)
            try:
                plan = plan_recovery(self._fs, path, recovery_point=point, log_start_offset=start)
            except (OSError, TidelogError) as error:
                planned.append(replace(before, error=str(error)))
                continue
            planned.append(
                replace(
                    before,
                    segments=plan.segments,
                    size_bytes=plan.size_bytes,
                    log_start_offset=plan.log_start_offset,
                    log_end_offset=plan.log_end_offset,
                    cause=plan.cause,
                )
            )
        return planned

    def _recover(self, names: Sequence[str], threads: int) -> list[Recovered]:
        points, starts = self._read(Checkpoint.RECOVERY_POINTS), self._read(Checkpoint.LOG_STARTS)
        image = read_cluster_metadata(self._fs, self._root).image
        before: dict[TopicPartition, tuple[int, int]] = {}
        jobs = []
        for name in names:
            partition = parse_partition_directory(name).topic_partition
            path = f"{self._root}/{name}"
            before[partition] = _logs(self._fs, path)
            point = points.get(partition, 0) if self._point is None else self._point
            jobs.append(self._job(path, partition, point, starts.get(partition, 0), image))
        loaded = load_logs(self._root, jobs, fs=self._fs, clean=False, threads=threads, tell=self._tell)
        results = []
        for one in loaded:
            job = one.job
            done = Recovered(job.partition, job.path, job.recovery_point, *before[job.partition])
            results.append(_closed(done, one.log, one.error))
        return results

    def _read(self, kind: Checkpoint) -> Mapping[TopicPartition, int]:
        return read_offset_checkpoint(self._fs, f"{self._root}/{kind.value}")

    def _job(
        self, path: str, partition: TopicPartition, point: int, start: int, image: MetadataImage
    ) -> LoadJob:
        config, _ = known_config(image.topic_config(partition.topic), LogConfig())

        def load(recovered: Callable[[int], None]) -> Log:
            return Log.open(
                path,
                config,
                log_start_offset=start,
                recovery_point=point,
                fs=self._fs,
                recovered=recovered,
            )

        return LoadJob(partition, path, point, load)

    def _checkpoint(self, recovered: Sequence[Recovered]) -> None:
        done = [one for one in recovered if one.error is None]
        ends = {one.partition: one.log_end_offset for one in done}
        write_offset_checkpoint(
            self._fs,
            f"{self._root}/{Checkpoint.RECOVERY_POINTS.value}",
            dict(self._read(Checkpoint.RECOVERY_POINTS)) | ends,
        )
        marks = dict(self._read(Checkpoint.HIGH_WATERMARKS))
        lowered = {one: min(mark, ends.get(one, mark)) for one, mark in marks.items()}
        if lowered != marks:
            write_offset_checkpoint(self._fs, f"{self._root}/{Checkpoint.HIGH_WATERMARKS.value}", lowered)


def _logs(fs: FileSystem, path: str) -> tuple[int, int]:
    """How many log files a partition has, and their bytes."""
    sizes = []
    for entry in fs.list(path):
        file = parse_segment_file(entry.name)
        if file is not None and file.kind is FileKind.LOG and file.transient is Transient.NONE:
            sizes.append(fs.stat(f"{path}/{entry.name}").size)
    return len(sizes), sum(sizes)


def _closed(done: Recovered, log: Log | None, error: Exception | None) -> Recovered:
    """Close a recovered log; the facts about it."""
    if log is None:
        return replace(done, error=str(error))
    done = replace(
        done,
        segments=len(log.segments),
        size_bytes=log.size,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
    )
    try:
        log.close()
    except (OSError, TidelogError) as failure:
        return replace(done, error=str(failure))
    return done
