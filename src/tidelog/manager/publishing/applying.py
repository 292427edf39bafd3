"""From the journal's intent to the logs: a pending write is carried out, or taken back.

Carried out: each partition is given the staged batches that it does not have yet (`apply_write`). Which it
has is read from the log itself, batch by batch from the offset where it ended before: so it makes no
difference whether this is the first attempt or one after a crash, and nothing that others wrote since (a
broker passes over the journal) is touched. Only when all is on the disk are log starts raised, and only then
does the journal say that the write is done (`complete`). From there on there is no way back: the older
records of a write that overwrites are going.

Taken back: each partition is cut where it ended before. That happens where publishing failed and where the
staged data is gone; if others have written after it, nothing is cut and the error says what to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tidelog.errors import DataLossError, InvalidIndexError, LogError
from tidelog.index import TimeIndex
from tidelog.layout.roots import Checkpoint, Offsets, Root
from tidelog.log import Log
from tidelog.manager.publishing.checks import disk_error
from tidelog.manager.publishing.mark import check_ours, remove_staged
from tidelog.manager.publishing.staged import PieceKind, StagedRun, load_runs, read_manifest
from tidelog.manager.store.partition import Partition
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.storage import Directory, FileSystem
from tidelog.storage.files import parent
from tidelog.storage.metadata import format_id
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    PendingPartition,
    PendingWrite,
    WriteJournal,
    read_journal,
    remembered,
    staging_path,
    write_journal,
)
from tidelog.types import Codec, TimestampType, TopicPartition

__all__ = [
    "Find",
    "apply_write",
    "check_pending",
    "checksums_in",
    "complete",
    "finish_pending",
    "settle",
    "take_back",
]

_logger = logging.getLogger(__name__)

Find = Callable[[TopicPartition], Partition]
"""From a name to the partition."""

_APPEND_BYTES = 4 << 20
_SYNC_BYTES = 64 << 20
"""What is written is synced now and then: the disk works while the rest is copied."""
_MUCH_BYTES = 32 << 20
_MANY_PARTITIONS = 16
_THREADS = 4
_MANY_LINKS = 4
_MUCH_OF_PARTITION = 64 << 20
"""Staged segments that are not half full are linked where a write gives a partition so much in all ..."""
_MOST_LARGE = 64
"""... and each has that part of it: a write leaves so many at most."""
_PARTS_OF_SEGMENT = 16
"""An append is at most this part of a segment: what a segment lacks of being full is less than an append."""


def finish_pending(fs: FileSystem, root: Root, find: Find) -> None:
    """Carry out or take back the write that a root's journal says was being published."""
    pending = check_pending(fs, root)
    if pending is None:
        return
    staging = staging_path(root.path, pending.staging)
    pending = _of_these_topics(pending, find)
    runs = None if pending.goes_back else _runs(fs, pending, staging)
    is_done = False
    if runs is not None or (not pending.goes_back and _is_whole(pending, find)):
        _logger.warning("%s: carrying out a write that was cut short (%s)", root.path, staging)
        try:
            apply_write(fs, pending, runs or {}, find)
        except DataLossError as error:
            _logger.warning("staged data cannot be used: %s", error)
        else:
            complete(fs, root, pending, find)
            is_done = True
    if not is_done:
        _logger.warning("%s: taking back a write that was cut short (%s)", root.path, staging)
        take_back(fs, root, pending, find)
    remove_staged(fs, staging, root.identity.directory_id)


def _of_these_topics(pending: PendingWrite, find: Find) -> PendingWrite:
    """A write without the partitions of topics that were deleted since and made again under their names."""
    kept = []
    for one in pending.partitions:
        if one.topic_id in (None, find(one.topic_partition).topic_id):
            kept.append(one)
        else:
            _logger.warning(
                "a write to %s was cut short, but that topic was created again since: it stays as it is",
                one.topic_partition,
            )
    is_void = not kept and bool(pending.partitions)  # and was not published: who writes it again is heard
    return replace(pending, partitions=tuple(kept), goes_back=pending.goes_back or is_void)


def check_pending(fs: FileSystem, root: Root) -> PendingWrite | None:
    """The write that was being published, if it is known to be this root's own; LogError if it is not.

    To be asked before anything in the root is changed.
    """
    journal = read_journal(fs, root.path)
    if journal.pending is not None:
        _check_root(root, journal)
        staging = staging_path(root.path, journal.pending.staging)
        check_ours(fs, staging, root.identity.directory_id, root.file(JOURNAL_FILE))
    return journal.pending


def _check_root(root: Root, journal: WriteJournal) -> None:
    """Refuse a journal that does not say that it is this root's: it may cut what others have written."""
    ours = format_id(root.identity.directory_id)
    if journal.root != ours:
        whose = f"is root {journal.root}'s, not {ours}'s" if journal.root else "does not say whose it is"
        raise LogError(
            f"{root.file(JOURNAL_FILE)} says that a write was cut short, but {whose}; nothing was changed. "
            "Remove it: what the partitions hold stays as it is"
        )


def _runs(
    fs: FileSystem, pending: PendingWrite, staging: str
) -> Mapping[TopicPartition, list[StagedRun]] | None:
    """The staged data, or None if it is gone."""
    try:
        manifests = [read_manifest(fs, staging, name) for name in pending.manifests]
        return load_runs(fs, staging, manifests)
    except (FileNotFoundError, DataLossError, InvalidIndexError) as error:
        _logger.warning("staged data cannot be used: %s", error)
        return None


def _is_whole(pending: PendingWrite, find: Find) -> bool:
    """Whether every partition has all of it already."""
    return all(_has_all(find(one.topic_partition).log, one) for one in pending.partitions)


def _has_all(log: Log, one: PendingPartition) -> bool:
    """Whether a log has a write's records, each of them: a power cut may take some from the middle."""
    end = one.base_offset + one.records
    if log.log_end_offset < end:
        return False
    there = headers_from(log, one.base_offset)
    ours = BatchTable(there.rows[there.last_offset < end])
    if one.checksums is not None and not np.array_equal(ours.crc, _numbers(one.checksums)):
        return False
    return int(ours.offset_count.sum()) == one.records


def checksums_in(log: Log, runs: Sequence[StagedRun]) -> bytes | None:
    """The checksums that staged batches will have in a log, as a journal keeps them; None if it changes what
    they cover.
    """
    planned = BatchTable.joined(run.rows for run in runs)
    return None if _rewrites(log, planned) else planned.crc.astype(">u4").tobytes()


def _numbers(checksums: bytes) -> npt.NDArray[np.int64]:
    return np.frombuffer(checksums, ">u4").astype(np.int64)


def apply_write(
    fs: FileSystem, pending: PendingWrite, runs: Mapping[TopicPartition, Sequence[StagedRun]], find: Find
) -> None:
    """Give every partition what it lacks of a write, durably.

    Much data, or many partitions: several are written at a time, and while one is synced others continue.
    """

    def give(one: PendingPartition) -> None:
        partition = find(one.topic_partition)
        try:
            _give(fs, partition, one, runs.get(one.topic_partition, ()))
            if partition.log.recovery_point < partition.log_end_offset:
                partition.flush()
        except OSError as error:
            raise disk_error(error, partition.log.path, one.topic_partition.topic) from error

    size = sum(run.piece.size for listed in runs.values() for run in listed)
    if size < _MUCH_BYTES and len(pending.partitions) < _MANY_PARTITIONS:
        for one in pending.partitions:
            give(one)
    else:
        with ThreadPoolExecutor(_THREADS, "tidelog-publish") as pool:
            given = [pool.submit(give, one) for one in pending.partitions]
            wait(given, return_when=FIRST_EXCEPTION)
            pool.shutdown(cancel_futures=True)
        for done in given:
            if not done.cancelled():
                done.result()


def _give(fs: FileSystem, partition: Partition, one: PendingPartition, runs: Sequence[StagedRun]) -> None:
    """Give the log the batches that it does not have yet, in the order of the runs."""
    if not runs:
        return
    done = _batches_there(partition, one, runs)
    config = partition.log.config
    limit = max(min(_APPEND_BYTES, config.max_segment_bytes // _PARTS_OF_SEGMENT), 1)
    # An index gets at most an entry for each batch, and one when its segment is closed.
    most = max(config.segment_index_bytes // TimeIndex.ENTRY_SIZE - 1, 1)
    unsynced = 0
    total = sum(run.piece.size for run in runs)
    for run, in_a_row in zip(runs, _segments_in_a_row(runs), strict=True):
        skip = min(done, len(run.rows))
        done -= skip
        if skip == len(run.rows) or (not skip and _link(fs, partition, one, run, in_a_row, total)):
            continue
        data = run.data(fs)
        for start, stop in _chunks(BatchTable(run.rows[skip:]).size, limit, most):
            batches = run.batches(data, skip + start, skip + stop)
            partition.append(batches, leader_epoch=one.leader_epoch)
            unsynced += len(batches.data)
            if unsynced >= _SYNC_BYTES:
                partition.flush()
                unsynced = 0


def _segments_in_a_row(runs: Sequence[StagedRun]) -> list[int]:
    """For each run how many whole segments follow one another from it on."""
    counts: list[int] = []
    count = 0
    for run in reversed(runs):
        count = count + 1 if run.piece.kind else 0
        counts.append(count)
    return counts[::-1]


def _link(
    fs: FileSystem,
    partition: Partition,
    one: PendingPartition,
    run: StagedRun,
    in_a_row: int,
    total: int,
) -> bool:
    """Take over a staged segment as it is, if it is one and the log can; whether it was done.

    A small one must be a good part of the `total` that its partition is given. Linking ends the active
    segment, which is worth it only if that is empty or half full, or for several segments in a row; else the
    staged one is copied.
    """
    log = partition.log
    size, limit = run.piece.size, log.config.max_segment_bytes
    if run.piece.kind is PieceKind.BATCHES or size > limit or _rewrites(log, BatchTable(run.rows)):
        return False
    is_small = size < limit // 2 and (total < _MUCH_OF_PARTITION or size * _MOST_LARGE < total)
    if run.piece.kind is PieceKind.LARGE_SEGMENT and is_small:
        return False
    if 0 < log.segments.last.size < limit // 2 and in_a_row < _MANY_LINKS:
        return False
    with partition.gate:
        linked = log.link_segment(Directory(parent(run.path), fs), BatchTable(run.rows), one.leader_epoch)
        log.maybe_increment_high_watermark(log.offsets.log_end)
    return linked


def _chunks(sizes: npt.NDArray[np.int64], limit: int, most: int) -> Iterator[tuple[int, int]]:
    """Runs of at most `most` batches and `limit` bytes, one batch at least."""
    ends = np.cumsum(sizes)
    start, taken = 0, 0
    while start < len(ends):
        stop = max(int(np.searchsorted(ends, taken + limit, side="right")), start + 1)
        stop = min(stop, start + most)
        yield start, stop
        start, taken = stop, int(ends[stop - 1])


def _batches_there(partition: Partition, one: PendingPartition, runs: Sequence[StagedRun]) -> int:
    """How many of the staged batches the log has, from the offset on where it ended before.

    After a power cut a segment may be there whose predecessor has lost its end: what the write has left
    behind such a gap is cut off, to be appended again.
    """
    log = partition.log
    if log.log_end_offset <= one.base_offset:
        return 0
    planned = BatchTable.joined(run.rows for run in runs)
    ends = one.base_offset + np.cumsum(planned.offset_count)
    there = headers_from(log, one.base_offset)
    # Each batch of the log against the one that is planned to end where it ends.
    at = np.minimum(np.searchsorted(ends, there.last_offset + 1), len(ends) - 1)
    is_ours = (there.last_offset + 1 == ends[at]) & (there.count == planned.count[at])
    is_ours &= there.leader_epoch == one.leader_epoch
    if not _rewrites(log, planned):
        is_ours &= there.crc == planned.crc[at]
    in_order = is_ours & (at == np.arange(len(there)))
    done = len(there) if in_order.all() else int(np.argmin(in_order))
    reached = int(ends[done - 1]) if done else one.base_offset
    if reached < log.log_end_offset <= one.base_offset + one.records and is_ours.all():
        with partition.gate:
            log.truncate_to(reached)
    return done


def _rewrites(log: Log, planned: BatchTable) -> bool:
    """Whether the log changes what a batch's checksum covers: its time, or its codec."""
    config = log.config
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return True
    return any(config.target_codec(Codec(codec)) != codec for codec in np.unique(planned.codec).tolist())


def headers_from(log: Log, offset: int) -> BatchTable:
    """The headers of the batches from an offset on."""
    tables: list[npt.NDArray[np.int64]] = []
    for segment in log.segments.values(offset, log.log_end_offset):
        found = segment.translate_offset(offset)
        view, position = segment.buffer(), found.position if found is not None else segment.size
        while position < len(view):
            scan = scan_batches(view, start=position, check_crc=False, source=segment.path)
            if scan.fault is not None:
                raise scan.fault
            tables.append(scan.table.rows)
            position = scan.end
    return BatchTable.joined(tables)


def complete(fs: FileSystem, root: Root, pending: PendingWrite, find: Find) -> None:
    """Once all of a write is on the disk: raise the log starts that it raises, and say that it is done.

    The checkpoints come first: if one cannot be written, no record is gone yet.
    """
    raised: dict[Root, dict[TopicPartition, int]] = {}
    for one in pending.partitions:
        partition = find(one.topic_partition)
        if one.new_log_start > one.log_start and partition.root is not None:
            start = max(one.new_log_start, partition.log_start_offset)
            raised.setdefault(partition.root, {})[one.topic_partition] = start
    for place, starts in raised.items():
        place.add_to_checkpoint(Checkpoint.LOG_STARTS, starts)
    for starts in raised.values():
        for name, start in starts.items():
            find(name).delete_records(start)
    settle(fs, root, done=True)


def take_back(fs: FileSystem, root: Root, pending: PendingWrite, find: Find) -> None:
    """Remove what there is of a write from every partition, durably; the journal forgets it then."""
    if not pending.goes_back:
        journal = read_journal(fs, root.path)
        write_journal(fs, root.path, replace(journal, pending=replace(pending, goes_back=True)))
    for one in pending.partitions:
        _check_ours(root, find(one.topic_partition), one)
    for one in pending.partitions:
        partition = find(one.topic_partition)
        with partition.gate:
            _check_ours(root, partition, one)
            log = partition.log
            if log.log_end_offset > one.base_offset:
                log.truncate_to(one.base_offset)
                _lower_recovery_point(partition)
    settle(fs, root, done=False)


def _lower_recovery_point(partition: Partition) -> None:
    """Lower a log's checkpoint to its new end, with the gate held.

    A checkpoint may have been written while the write was there. It would vouch for what is appended next.
    """
    name, point = partition.topic_partition, partition.log.recovery_point

    def lowered(known: Offsets) -> Offsets:
        return known if known.get(name, 0) <= point else {**known, name: point}

    if partition.root is not None:
        partition.root.update_checkpoint(Checkpoint.RECOVERY_POINTS, lowered)


def _check_ours(root: Root, partition: Partition, one: PendingPartition) -> None:
    """Refuse to cut what may not be the write's."""
    log = partition.log
    if log.log_end_offset <= one.base_offset:
        return
    there = headers_from(log, one.base_offset)
    is_ours = there.leader_epoch == one.leader_epoch
    if one.checksums is not None:
        is_ours &= np.isin(there.crc, _numbers(one.checksums))
    if log.log_end_offset > one.base_offset + one.records or not is_ours.all():
        raise LogError(
            f"{log.path} has records from offset {one.base_offset} on of a write that was cut short, and "
            f"others have written behind them; the staged data is gone, so that the write can neither be "
            f"finished nor taken back. To keep what is there, remove {root.file(JOURNAL_FILE)}"
        )


def settle(fs: FileSystem, root: Root, *, done: bool) -> None:
    """Say in the journal that the pending write is over: published, or as if it had never been."""
    journal = read_journal(fs, root.path)
    committed, published = dict(journal.committed), dict(journal.published)
    now_ms = time.time_ns() // 1_000_000
    if done and journal.pending is not None and journal.pending.query:
        committed[journal.pending.query] = journal.pending.batch
        published[journal.pending.query] = now_ms
    settled = replace(
        journal, sequence=journal.sequence + 1, committed=committed, published=published, pending=None
    )
    write_journal(fs, root.path, remembered(settled, now_ms))
