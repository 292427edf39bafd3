"""Recovering a root or a single partition, without opening a store on it.

Every log is opened as after a crash, whatever a clean-shutdown file says, from its recovery point on (the
root's checkpoint, or one that is given), and closed cleanly. A root then gets new checkpoints and, if all
logs could be recovered, its clean-shutdown file; nothing else in it is touched. The metadata log is a
broker's own: it recovers it at every start.

A directory that its name says is set aside, moving or to be deleted has the partition's name in common with
the log in use, and nothing else: what the checkpoints say is of the latter. It is recovered from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidelog.errors import TidelogError
from tidelog.layout.config import log_config
from tidelog.layout.partitions import log_sizes
from tidelog.layout.roots import Checkpoint, Offsets, Root, check_claimable, hold_root, look_at
from tidelog.log import Log
from tidelog.log.log import clock_ms
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.store.events import Event
from tidelog.manager.store.loading import LoadJob, load_logs
from tidelog.manager.upkeep.cuts import why_cut
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.storage import FileSystem
from tidelog.storage.files import parent
from tidelog.storage.names import (
    META_PROPERTIES_FILE,
    DirectoryState,
    parse_partition_directory,
)
from tidelog.types import TopicPartition

__all__ = ["Recovered", "recover_logs", "recover_partition", "recover_root"]

Checkpoints = Mapping[Checkpoint, Offsets]
_SAY_NOTHING: Checkpoints = {kind: {} for kind in Checkpoint}


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
    def segments_removed(self) -> int:
        """How many of its segments were removed."""
        return 0 if self.error is not None else max(self.segments_before - self.segments, 0)

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
    dry_run: bool = False,
    broker: BrokerConfig | None = None,
    settings: Mapping[str, str] | None = None,
) -> Recovered:
    """Recover one log; its root, if it is in one, is held in the meantime.

    `settings` are topic configs instead of the metadata's. With `dry_run` all is done on a file system that
    changes nothing (`rehearsal`).
    """
    root, name = parent(path), path.rpartition("/")[2]
    work = _Work(fs, recovery_point, tell, broker or BrokerConfig(), settings or {})
    return work.run(root, [name], threads=1, whole=False, dry_run=dry_run)[0]


def recover_root(
    fs: FileSystem,
    path: str,
    *,
    recovery_point: int | None = None,
    threads: int = 1,
    tell: Callable[[Event], None] = lambda event: None,
    dry_run: bool = False,
    broker: BrokerConfig | None = None,
    settings: Mapping[str, str] | None = None,
) -> list[Recovered]:
    """Recover every log of a root, `threads` at a time; see `recover_partition`."""
    work = _Work(fs, recovery_point, tell, broker or BrokerConfig(), settings or {})
    names = look_at(fs, path).logs
    return work.run(path, names, threads=threads, whole=True, dry_run=dry_run)


def recover_logs(
    fs: FileSystem,
    root: Root,
    names: Sequence[str],
    *,
    image: MetadataImage,
    broker: BrokerConfig,
    settings: Mapping[str, str] | None = None,
    recovery_point: int | None = None,
    threads: int = 1,
    tell: Callable[[Event], None] = lambda event: None,
    now_ms: Callable[[], int] = clock_ms,
) -> list[Recovered]:
    """Recover logs of a root that the caller holds, and write down how far they are; `fs` may keep things."""
    work = _Work(fs, recovery_point, tell, broker, settings or {}, now_ms)
    recovered = work.recover(root.path, root.checkpoints, names, image, threads)
    live = {f"{root.path}/{name}" for name in names if _is_live(name)}
    done = {one.partition: one.log_end_offset for one in recovered if one.error is None and one.path in live}
    root.add_to_checkpoint(Checkpoint.RECOVERY_POINTS, done)
    marks = root.checkpoints[Checkpoint.HIGH_WATERMARKS]
    lowered = {name: done[name] for name, mark in marks.items() if done.get(name, mark) < mark}
    if lowered:
        root.add_to_checkpoint(Checkpoint.HIGH_WATERMARKS, lowered)
    return recovered


@dataclass(frozen=True, slots=True)
class _Work:
    """How logs are recovered."""

    fs: FileSystem
    point: int | None
    tell: Callable[[Event], None]
    broker: BrokerConfig
    settings: Mapping[str, str]
    now_ms: Callable[[], int] = clock_ms

    def run(
        self, path: str, names: Sequence[str], *, threads: int, whole: bool, dry_run: bool
    ) -> list[Recovered]:
        """Recover logs of a directory, or only look; hold the root that it is."""
        image = look_at_metadata(self.fs, path).image
        if dry_run:
            if self.fs.exists(f"{path}/{META_PROPERTIES_FILE}"):
                check_claimable(self.fs, look_at(self.fs, path))
            return self._rehearse(path, names, image)
        if not self.fs.exists(f"{path}/{META_PROPERTIES_FILE}"):
            return self.recover(path, look_at(self.fs, path).checkpoints, names, image, threads)
        held = self.fs.inner if isinstance(self.fs, KeepingFileSystem) else self.fs
        with hold_root(path, held) as root:
            root.take_clean_shutdown()  # from here on a crash is a crash
            recovered = recover_logs(
                self.fs,
                root,
                names,
                image=image,
                broker=self.broker,
                settings=self.settings,
                recovery_point=self.point,
                threads=threads,
                tell=self.tell,
                now_ms=self.now_ms,
            )
            if all(one.error is None for one in recovered) and (whole or root.facts.clean):
                root.write_clean_shutdown()
        return recovered

    def recover(
        self,
        root: str,
        checkpoints: Checkpoints,
        names: Sequence[str],
        image: MetadataImage,
        threads: int,
    ) -> list[Recovered]:
        """Open each log as after a crash, and close it."""
        before: dict[str, tuple[int, int]] = {}
        jobs = []
        for name in names:
            partition = parse_partition_directory(name).topic_partition
            path = f"{root}/{name}"
            before[path] = _logs(self.fs, path)
            jobs.append(self._job(path, partition, checkpoints if _is_live(name) else _SAY_NOTHING, image))
        loaded = load_logs(root, jobs, fs=self.fs, clean=False, threads=threads, tell=self.tell)
        results = []
        for one in loaded:
            job = one.job
            done = Recovered(job.partition, job.path, job.recovery_point, *before[job.path])
            results.append(_closed(done, one.log, one.error))
        return results

    def _point(self, partition: TopicPartition, checkpoints: Checkpoints) -> int:
        return checkpoints[Checkpoint.RECOVERY_POINTS].get(partition, 0) if self.point is None else self.point

    def _rehearse(self, root: str, names: Sequence[str], image: MetadataImage) -> list[Recovered]:
        """Recover each log as it would be, on a file system that changes nothing; one segment in memory."""
        checkpoints = look_at(self.fs, root).checkpoints
        rehearsal = Rehearsal(self.fs)
        try:
            done = replace(self, fs=rehearsal).recover(root, checkpoints, names, image, 1)
            return [
                replace(one, cause=why_cut(self.fs, rehearsal, one.path)) if one.bytes_cut else one
                for one in done
            ]
        finally:
            rehearsal.close()

    def _job(
        self, path: str, partition: TopicPartition, checkpoints: Checkpoints, image: MetadataImage
    ) -> LoadJob:
        config = log_config(image.topic_config(partition.topic), self.broker.topic_defaults, self.settings)
        point = self._point(partition, checkpoints)
        start = checkpoints[Checkpoint.LOG_STARTS].get(partition, 0)

        def load(recovered: Callable[[int], None]) -> Log:
            return Log.open(
                path,
                config,
                log_start_offset=start,
                recovery_point=point,
                fs=self.fs,
                now_ms=self.now_ms,
                producer_id_expiration_ms=self.broker.producer_id_expiration_ms,
                max_transaction_timeout_ms=self.broker.transaction_max_timeout_ms,
                recovered=recovered,
            )

        return LoadJob(partition, path, point, load)


def _is_live(name: str) -> bool:
    return parse_partition_directory(name).state is DirectoryState.LIVE


def _logs(fs: FileSystem, path: str) -> tuple[int, int]:
    """How many log files a partition has, and their bytes; where they cannot be listed, loading tells why."""
    try:
        sizes = log_sizes(fs, path)
    except OSError:
        return 0, 0
    return len(sizes), sum(sizes.values())


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
