"""An examination: the disks of one broker, partition by partition, then each disk as a whole.

1. `look_at_broker`: names, small files, metadata.
2. Each partition that a broker would load: verified, and its loading rehearsed (`partitions`). Where a
   process has the root open, it is looked at as it is at one moment (`moments`).
3. Each root: what stops a start, what becomes of directories and checkpoints (`roots`, `permissions`).

Findings come with the verdict that they belong to, as soon as it is known. Nothing is locked, written or
kept: memory is that of a window of bytes a thread, and of a segment where one is damaged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from tidelog.config import LogConfig
from tidelog.doctor.coordinated import endings
from tidelog.doctor.disks import Broker, Disk, PartitionDirectory, look_at_broker
from tidelog.doctor.findings import Finding, Kind, PartitionVerdict, RootVerdict, Severity, counted
from tidelog.doctor.forecast import Forecast, Start
from tidelog.doctor.identity import examine_identity
from tidelog.doctor.moments import Moment
from tidelog.doctor.partitions import Examined, examine_partition
from tidelog.doctor.permissions import examine_permissions
from tidelog.doctor.quarantine import RunState, find_runs
from tidelog.doctor.roots import examine_checkpoints, examine_root, stray_reason
from tidelog.errors import InvalidIndexError
from tidelog.layout.roots import Checkpoint
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.storage import FileSystem
from tidelog.storage.lock import holder_of
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE, CLUSTER_METADATA_TOPIC, DirectoryState
from tidelog.types import TopicPartition

__all__ = ["Examination", "examine", "start_of"]

RECOVERY_BYTES_PER_SECOND = 500_000_000
"""What Kafka's recovery is taken to read of a disk: its engine checks about 1.2 GB/s on two cores."""

_LOOKS = 5


@dataclass(slots=True)
class Examination:
    """What was found of one broker."""

    broker: Broker
    examined: dict[str, Examined] = field(default_factory=dict)
    """By path, the partitions that a broker would load."""
    roots: list[RootVerdict] = field(default_factory=list)


def examine(
    fs: FileSystem,
    paths: Sequence[str],
    *,
    config: BrokerConfig | None = None,
    now_ms: int,
    only: str | None = None,
    keep: Callable[[Examination], object] = lambda examination: None,
    advance: Callable[[int], None] = lambda size: None,
    threads: int = 1,
) -> Iterator[PartitionVerdict | RootVerdict]:
    """Examine the roots of one broker: the verdict of each partition, and after a root's, its own.

    With `only`, the path of a partition, there is its verdict alone. `keep` is given the examination when it
    is complete. `advance` hears of the bytes that are done. Partitions are examined on so many `threads`; the
    order of verdicts is the same.
    """
    broker = look_at_broker(fs, paths, config or BrokerConfig(), now_ms)
    ending = endings(broker)
    found = Examination(broker)
    identity: dict[str, list[Finding]] = {}
    for disk, finding in examine_identity(broker):
        identity.setdefault(disk.path, []).append(finding)
    for disk in broker.disks:
        root = RootVerdict(disk.path, findings=identity.get(disk.path, []))
        root.findings += _holder(disk)
        ends: dict[TopicPartition, tuple[int, int]] = {}
        loaded = [
            one
            for one in disk.directories
            if one.parsed.state in (DirectoryState.LIVE, DirectoryState.FUTURE) and only in (None, one.path)
        ]

        def look(one: PartitionDirectory, disk: Disk = disk) -> Examined:
            config = broker.log_config(one.partition.topic)
            start = replace(start_of(broker, disk, one), endings=ending.get(one.partition, {}))
            if holder_of(disk.path) is not None:
                return _examine_in_use(fs, one, config, start, advance)
            return examine_partition(fs, one, config, start, advance=advance)

        for one, examined in _in_order(look, loaded, threads):
            found.examined[one.path] = examined
            verdict = examined.verdict
            reason = stray_reason(broker, one)
            if reason is not None and one.parsed.state is DirectoryState.LIVE:
                verdict.verdict = f"renamed to -stray: {reason}"
            root.partitions += 1
            root.size_bytes += verdict.size_bytes
            root.recovery_bytes += verdict.recovery_bytes
            if one.parsed.state is DirectoryState.LIVE:
                ends[one.partition] = (examined.forecast.log_start_offset, examined.verified_end)
            yield verdict
        if only is not None:
            continue
        root.findings += examine_root(fs, broker, disk)
        root.findings += examine_checkpoints(disk, ends)
        root.findings += examine_permissions(fs, disk.path)
        root.findings += _unclean(root, disk)
        root.findings += _repairs(fs, disk)
        _conclude(root, disk, found)
        found.roots.append(root)
        yield root
    keep(found)


def _examine_in_use(
    fs: FileSystem,
    one: PartitionDirectory,
    config: LogConfig,
    start: Start,
    advance: Callable[[int], None],
) -> Examined:
    """Look at a partition that may be written to meanwhile, more than once where something is wrong."""
    for number in range(_LOOKS):
        moment = Moment(fs, one.path)
        try:
            found = examine_partition(moment, one, config, start, advance=advance if not number else _unheard)
            if not any(each.severity.is_wrong for each in found.verdict.findings) or not moment.has_passed():
                break
        finally:
            moment.close()
    return found


def _unheard(size: int) -> None:
    """Bytes that are read once more were counted before."""


def _in_order(
    look: Callable[[PartitionDirectory], Examined], directories: Sequence[PartitionDirectory], threads: int
) -> Iterator[tuple[PartitionDirectory, Examined]]:
    """What is found in directories, one after the other; some more are looked at meanwhile."""
    if threads <= 1:
        yield from ((one, look(one)) for one in directories)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="tidelog-doctor")
    waiting: deque[tuple[PartitionDirectory, Future[Examined]]] = deque()
    try:
        for one in directories:
            waiting.append((one, pool.submit(look, one)))
            if len(waiting) >= 2 * threads:
                done, future = waiting.popleft()
                yield done, future.result()
        while waiting:
            done, future = waiting.popleft()
            yield done, future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def start_of(broker: Broker, disk: Disk, one: PartitionDirectory) -> Start:
    """How a broker would find a log: the metadata log is recovered whole at each start."""
    partition, config = one.partition, broker.config
    alone = True
    topic = broker.image.topics.get(partition.topic)
    if topic is not None and partition.partition in topic.partitions:
        alone = set(topic.partitions[partition.partition].replicas) <= {broker.node_id}
    mark = None if alone else disk.checkpoints[Checkpoint.HIGH_WATERMARKS].get(partition)
    is_metadata = partition.topic == CLUSTER_METADATA_TOPIC
    return Start(
        clean=disk.clean and not is_metadata,
        recovery_point=0 if is_metadata else disk.checkpoints[Checkpoint.RECOVERY_POINTS].get(partition, 0),
        log_start_offset=disk.checkpoints[Checkpoint.LOG_STARTS].get(partition, 0),
        high_watermark=mark,
        now_ms=broker.now_ms,
        max_transaction_timeout_ms=config.transaction_max_timeout_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
    )


def _holder(disk: Disk) -> Iterator[Finding]:
    holder = holder_of(disk.path)
    if holder is not None:
        yield Finding(
            Severity.WARNING,
            Kind.IN_USE,
            disk.path,
            f"process {holder} has the root open" if holder else "another process has the root open",
            "it does not start on it a second time",
            "examine a root that nobody writes: what is found now may have changed a moment later",
        )


def _repairs(fs: FileSystem, disk: Disk) -> Iterator[Finding]:
    """Repairs that can still be undone, and those that were cut short."""
    try:
        runs = list(find_runs(fs, disk.path))
    except (OSError, InvalidIndexError) as error:
        yield Finding(
            Severity.DAMAGE,
            Kind.KEPT_ASIDE,
            disk.path,
            f"the manifest of a repair cannot be read: {error}",
            "it ignores the file",
            "restore it; without it the repair cannot be undone",
        )
        return
    for run in runs:
        done = run.state is RunState.APPLIED
        yield Finding(
            Severity.NOTE if done else Severity.DAMAGE,
            Kind.KEPT_ASIDE,
            run.path,
            f"a repair of {counted(len(run.kept), 'file')} {'can be undone' if done else 'was cut short'}",
            "it ignores what is kept" if done else "it meets files that are half mended",
            "tidelog fix --empty-quarantine makes it final" if done else "tidelog fix --undo",
        )


def _unclean(root: RootVerdict, disk: Disk) -> Iterator[Finding]:
    if not disk.clean and root.partitions:
        yield Finding(
            Severity.WARNING,
            Kind.UNCLEAN,
            f"{disk.path}/{CLEAN_SHUTDOWN_FILE}",
            "it is missing: the last shutdown was not clean",
            f"it recovers every log from its recovery point on: {root.recovery_bytes} bytes",
            "nothing; tidelog recover does it now",
        )


def _forecasts(disk: Disk, found: Examination) -> Iterator[Forecast]:
    """Of the partitions of a disk that clients use."""
    for one in disk.live:
        if one.path in found.examined and one.partition.topic != CLUSTER_METADATA_TOPIC:
            yield found.examined[one.path].forecast


def _conclude(root: RootVerdict, disk: Disk, found: Examination) -> None:
    """The verdict of a root in words."""
    inner = [
        finding
        for path, one in found.examined.items()
        if path.startswith(f"{disk.path}/")
        for finding in one.verdict.findings
    ]
    fatal = [one for one in (*root.findings, *inner) if one.severity is Severity.FATAL]
    root.starts = not fatal
    root.recovery_seconds = round(root.recovery_bytes / RECOVERY_BYTES_PER_SECOND, 1)
    if fatal:
        more = f" (and {len(fatal) - 1} more)" if len(fatal) > 1 else ""
        name = fatal[0].file.removeprefix(f"{root.path}/")
        root.verdict = (
            f"a stock Kafka 4.3 does not start, or not with this disk: {name}: {fatal[0].cause}{more}"
        )
        return
    words = "a stock Kafka 4.3 starts"
    if not disk.clean:
        words += (
            f"; the last shutdown was not clean: recovery reads {root.recovery_bytes} bytes, about "
            f"{root.recovery_seconds:g} s"
        )
    going = [one.retention.deletions for one in _forecasts(disk, found) if one.retention is not None]
    if any(going):
        words += f"; retention deletes {counted(sum(map(len, going)), 'segment')} half a minute later"
    lost = [one for one in (*root.findings, *inner) if one.severity is Severity.LOSS]
    losses = sum(one.kind is not Kind.RETENTION for one in lost)
    if losses:
        words += f"; records are lost in {counted(losses, 'place')}"
    damage = sum(one.severity is Severity.DAMAGE for one in (*root.findings, *inner))
    if damage:
        words += f"; {counted(damage, 'damaged place')}"
    root.verdict = words
