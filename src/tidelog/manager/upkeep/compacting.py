"""Compacting logs at rest: a root's compacted topics or one partition, without opening a store.

1. The root is held; its clean-shutdown file is taken away, durably: from here on a crash is a crash. A root
   that was not closed cleanly is refused. A directory that is in no root has none of that: its files are
   taken as they are, and nobody else may use them.
2. The log is opened. Its high watermark is its end, or what the checkpoint says if that is less.
3. The active segment is rolled, so that everything up to the last stable offset can be cleaned.
4. It is cleaned from the cleaner's checkpoint on, or from its start; the checkpoint moves after each round.
5. The log is closed cleanly; at the end, if all were, the clean-shutdown file is put back.

The configuration is what the metadata says, and over it what is given. A topic that is not compacted by it is
left alone. Where no metadata knows the topic nobody has said anything about it, and being asked is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from tidelog.cleanup.cleaner import CleanProgress, CleanReport, CleanStage, LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.selection import LogToClean, facts_of, plan_cleaning
from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, LogError, TidelogError
from tidelog.layout.config import known_config
from tidelog.layout.roots import (
    Checkpoint,
    Offsets,
    Root,
    RootFacts,
    check_claimable,
    check_clean,
    hold_root,
    read_checkpoint,
)
from tidelog.log import Log
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.storage import FileSystem
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    META_PROPERTIES_FILE,
    parse_partition_directory,
)
from tidelog.storage.write_journal import JOURNAL_FILE, read_journal
from tidelog.types import TopicPartition

__all__ = [
    "Advance",
    "Compacted",
    "Compaction",
    "Observer",
    "RootHold",
    "check_compactable",
    "compact_at_rest",
    "compaction_config",
]

_POLICY = "cleanup.policy"

Advance = Callable[[int], None]
"""Told how many bytes more were read."""

Observer = Callable[[TopicPartition, LogToClean], AbstractContextManager[Advance]]
"""Told what is cleaned next; lasts as long as that does."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is to be compacted, and how."""

    fs: FileSystem
    root: str
    """The directory that holds those of the partitions: a root, or not."""
    names: tuple[str, ...]
    """The partitions' directories."""
    now_ms: int
    """The time that delete horizons and lags are judged by; producers expire by the clock."""
    from_start: bool = False
    """Whether the cleaner's checkpoint is skipped."""
    by_name: bool = False
    """Whether each was asked for: then one that cannot be compacted is an error, else it is skipped."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic configs over what the metadata says."""
    defaults: LogConfig = field(default_factory=LogConfig)
    """The broker's defaults, under what the metadata says."""
    metadata: str | None = None
    """The root whose metadata counts, where it is another disk of the same broker."""
    dedupe_buffer_bytes: int = 128 << 20
    load_factor: float = 0.9

    def image(self) -> MetadataImage:
        """What the metadata says."""
        return read_cluster_metadata(self.fs, self.metadata or self.root).image


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a log. With an `error` it was not compacted, or not wholly; it is sound all the same."""

    partition: TopicPartition
    path: str
    segments_before: int = 0
    bytes_before: int = 0
    segments: int = 0
    size_bytes: int = 0
    last_stable_offset: int = 0
    first_dirty_offset: int = 0
    end_offset: int = 0
    """Up to here it is clean."""
    report: CleanReport | None = None
    """What cleaning did; None where nothing was dirty."""
    error: str | None = None


def compaction_config(
    request: Compaction, partition: TopicPartition, image: MetadataImage
) -> LogConfig | None:
    """The configuration that a partition is compacted with; None if its topic is not a compacted one."""
    if partition.topic == CLUSTER_METADATA_TOPIC:
        if request.by_name:
            raise InvalidInputError(f"{partition} is a broker's own metadata log, which is never compacted")
        return None
    if partition.topic in image.topics:
        known, _ = known_config(image.topic_config(partition.topic), request.defaults)
    elif request.by_name and _POLICY not in request.settings and _is_root(request):
        raise InvalidInputError(
            f"no metadata in {request.root} knows topic {partition.topic}, so that nobody can say that it is "
            "compacted: it may be one of several disks of a broker, and the metadata on another. If older "
            f"values of a key are to go, pass --config {_POLICY}=compact"
        )
    else:
        known = replace(request.defaults, cleanup_policy=("compact",) if request.by_name else ("delete",))
    config = LogConfig.from_properties(request.settings, known)
    if not config.compact and request.by_name:
        policy = ",".join(config.cleanup_policy)
        raise InvalidInputError(
            f"topic {partition.topic} is not compacted but has {_POLICY}={policy}: older values of a key "
            f"would be lost. If that is wanted, pass --config {_POLICY}=compact"
        )
    return config if config.compact else None


def _is_root(request: Compaction) -> bool:
    return request.fs.exists(f"{request.root}/{META_PROPERTIES_FILE}")


def compact_at_rest(
    request: Compaction,
    *,
    observe: Observer = lambda partition, plan: nullcontext(lambda size: None),
    check: Callable[[], None] | None = None,
) -> Iterator[Compacted]:
    """Compact one log after the other. `check` may raise to stop; what was swapped in by then stays."""
    with RootHold(request.fs, request.root) as hold:
        image = request.image()
        offset_map = OffsetMap(request.dedupe_buffer_bytes, request.load_factor)
        for name in request.names:
            partition = parse_partition_directory(name).topic_partition
            path = f"{request.root}/{name}"
            try:
                config = compaction_config(request, partition, image)
                if config is None:
                    continue
                done = _Job(request, hold, partition, path, config, offset_map, observe, check).run()
            except (TidelogError, OSError) as error:
                if request.by_name and len(request.names) == 1:
                    raise
                done = Compacted(partition, path, error=str(error))
            yield done


def check_compactable(fs: FileSystem, facts: RootFacts) -> None:
    """Refuse a root that could not be held, that was not closed cleanly, or with a bulk write cut short."""
    if read_journal(fs, facts.path).pending is not None:
        raise LogError(
            f"a bulk write to {facts.path} was cut short ({JOURNAL_FILE}): open the root with "
            "tidelog.open first, which finishes it or takes it back"
        )
    check_claimable(fs, facts)
    check_clean(fs, facts)


class RootHold:
    """The hold on a root (`layout.roots`); nothing is held of a directory that is in none."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._root: Root | None = None
        self._open = 0

    def __enter__(self) -> Self:
        """Take it; a root that was not closed cleanly is refused."""
        if not self._fs.exists(f"{self._path}/{META_PROPERTIES_FILE}"):
            return self
        root = hold_root(self._path, self._fs)
        try:
            check_compactable(self._fs, root.facts)
            root.take_clean_shutdown()
        except BaseException:
            root.release()
            raise
        self._root = root
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say that all is in order, if it is, and let go."""
        if self._root is None:
            return
        with self._root as root:
            if not self._open:
                root.write_clean_shutdown()

    def opening(self) -> None:
        """A log is about to be opened: unless `closed` follows, the root is not in order."""
        self._open += 1

    def closed(self) -> None:
        """It was closed cleanly."""
        self._open -= 1

    def checkpoint(self, kind: Checkpoint) -> Offsets:
        """What a checkpoint says."""
        if self._root is None:
            return read_checkpoint(self._fs, self._path, kind)
        return self._root.checkpoints[kind]

    def write(self, kind: Checkpoint, partition: TopicPartition, offset: int) -> None:
        """Say something of a partition in a checkpoint, durably; nothing if there is no root."""
        if self._root is not None:
            self._root.add_to_checkpoint(kind, {partition: offset})


@dataclass(frozen=True, slots=True)
class _Job:
    """One log."""

    request: Compaction
    hold: RootHold
    partition: TopicPartition
    path: str
    config: LogConfig
    offset_map: OffsetMap
    observe: Observer
    check: Callable[[], None] | None

    def run(self) -> Compacted:
        self.hold.opening()
        log = self._opened()
        try:
            with log:
                done = self._compact(log)
                end = log.log_end_offset
        finally:
            if not log.is_offline:
                self.hold.closed()
        self.hold.write(Checkpoint.RECOVERY_POINTS, self.partition, end)
        return done

    def _opened(self) -> Log:
        hold, partition = self.hold, self.partition
        log = Log.open(
            self.path,
            self.config,
            clean=True,
            log_start_offset=hold.checkpoint(Checkpoint.LOG_STARTS).get(partition, 0),
            recovery_point=hold.checkpoint(Checkpoint.RECOVERY_POINTS).get(partition, 0),
            fs=self.request.fs,
        )
        marks = hold.checkpoint(Checkpoint.HIGH_WATERMARKS)
        log.update_high_watermark(marks.get(partition, log.log_end_offset))
        return log

    def _compact(self, log: Log) -> Compacted:
        segments = log.segments
        done = Compacted(self.partition, self.path, len(segments), segments.size_in_bytes)
        if facts_of(log).gains_by_a_roll:
            log.roll()
        cleaned = self.hold.checkpoint(Checkpoint.CLEANED).get(self.partition)
        checkpoint = None if self.request.from_start else cleaned
        plan = plan_cleaning(facts_of(log), checkpoint, self.request.now_ms)
        report = None
        if plan.cleanable_bytes:
            with self.observe(self.partition, plan) as advance:
                report = clean_log(
                    log,
                    LocalPasses(self.offset_map, check=self.check, progress=_Deltas(advance)),
                    first_dirty_offset=plan.first_dirty_offset,
                    upper_bound=plan.first_uncleanable_offset,
                    now_ms=self.request.now_ms,
                    checkpoint=lambda end: self.hold.write(Checkpoint.CLEANED, self.partition, end),
                )
        return replace(
            done,
            segments=len(log.segments),
            size_bytes=log.size,
            last_stable_offset=log.last_stable_offset,
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.first_dirty_offset if report is None else report.end_offset,
            report=report,
        )


class _Deltas:
    """Tells of progress in what was done since the last time."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._last = CleanProgress(CleanStage.MAPPING, 0, 0)

    def __call__(self, now: CleanProgress) -> None:
        last = self._last
        same = now.stage is last.stage and now.done >= last.done
        self._advance(now.done - last.done if same else now.done)
        self._last = now
