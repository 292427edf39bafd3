"""Opening a log: from the files in its directory to segments, offsets and state.

1. What a crash has left is finished or removed (`leftovers`).
2. Every `.log` file is a segment; none is opened before it is used. Where an index is missing, does not fit
   the log (looked at after a crash, and in the last segment always) or cannot be read, it is recovered.
3. After a crash, the segments from the recovery point on are recovered (and written again, if a sync failed
   in the directory since the system was started: `storage.directory`): every batch is checked, indexes are
   rebuilt, and the first bad batch ends the log: the segment is cut there and the later ones are removed.
   Below the recovery point nothing is cut: damage there is reported, its segment left as it is. A segment
   whose offsets reach too far from its base offset is split (`splitting`), and its parts are recovered.
4. A log that ends below its log start (its files were removed) is emptied by recovery. After a clean close
   nothing explains that, and it is an error; Kafka empties it then, too. There is always a segment.
5. Leader epochs that start at the log end or after it are dropped, and those that ended before the log start.
6. Snapshots of segments that are not there go, and the producers' state is rebuilt (`producers.loading`).

Recovery of a segment begins with the state of the producers at its base offset, and its end is a snapshot,
from which the next one begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tidelog.errors import (
    CorruptRecordError,
    IndexOffsetOverflowError,
    InvalidIndexError,
    InvalidInputError,
    OffsetsOutOfOrderError,
)
from tidelog.index import TransactionIndex
from tidelog.index.base import MAX_RELATIVE_OFFSET
from tidelog.index.transaction import decode_entries
from tidelog.layout.partitions import PartitionFiles
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.opening.kafka_reading import end_to_kafka, make_swap_indexes
from tidelog.log.opening.leftovers import orphans, plan_swaps, temporary_files
from tidelog.log.opening.recovery_state import LogRecoveryState
from tidelog.log.producers.loading import rebuild_producers
from tidelog.log.segments.deletion import exchange_files
from tidelog.log.segments.segments import LogSegments
from tidelog.log.segments.splitting import split_segment
from tidelog.log.state import LogParts, draw_jitter_ms
from tidelog.records.batches import scan_batches
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage.directory import tells_failed_sync
from tidelog.storage.files import read_file, write_again
from tidelog.storage.names import MAPPED_INDEXES, SYNC_FAILED_FILE, FileKind, Transient, format_segment_file
from tidelog.types import LARGEST_OFFSET

__all__ = ["LoadedLog", "load"]

_logger = logging.getLogger(__name__)

_SWAPPED_LOG = FileKind.LOG.value + Transient.SWAP.value
_TRANSIENT = tuple(suffix.value for suffix in Transient if suffix is not Transient.NONE)


class LoadedLog(NamedTuple):
    """What loading found."""

    segments: LogSegments
    log_start_offset: int
    recovery_point: int
    log_end: LogOffsetMetadata


def load(
    parts: LogParts,
    *,
    clean: bool,
    log_start_offset: int,
    recovery_point: int,
    recover: bool = True,
    recovered: Callable[[int], None] = lambda size: None,
    as_kafka: bool = False,
) -> LoadedLog:
    """Load the log; `parts.producers` and `parts.epochs` become its state.

    `clean` says that the log was closed cleanly. `recover=False` is for directories that are to be deleted.
    `recovered` is told the size of each segment that was recovered. With `as_kafka` indexes below
    the recovery point are looked at no closer than by Kafka, and a damaged segment there whose indexes have
    to be rebuilt is cut: to foresee what Kafka does.
    """
    loader = _Loader(parts, clean, log_start_offset, recovery_point, recovered, as_kafka)
    return loader.load(recover)


class _Loader:
    def __init__(
        self,
        parts: LogParts,
        clean: bool,
        log_start_offset: int,
        recovery_point: int,
        recovered: Callable[[int], None],
        as_kafka: bool,
    ) -> None:
        self._recovered = recovered
        self._as_kafka = as_kafka
        self._parts = parts
        self._directory = parts.directory
        self._clean = clean
        self._log_start = log_start_offset
        if log_start_offset >= LARGEST_OFFSET:  # a damaged checkpoint: emptying the log would not help it
            _logger.warning(
                "%s: a log cannot start at %d: passed over", parts.directory.path, log_start_offset
            )
            self._log_start = 0
        self._recovery_point = recovery_point
        self._segments: list[Segment] = []
        self._snapshots: set[int] = set()  # offsets of the snapshot files there are
        self._sync_failed = False

    def load(self, recover: bool) -> LoadedLog:
        names = self._clear_leftovers()
        self._sync_failed = tells_failed_sync(names)
        epochs_before = self._parts.epochs.cache.entries
        self._open_segments(names, recover)
        end = self._recover_log() if recover else 0
        active = self._activate()
        if recover and end is None:
            end = active.next_offset()
        end = end or 0
        start = max(self._log_start, self._segments[0].base_offset)
        point = end if self._clean and recover else min(self._recovery_point, end)
        self._trim_epochs(epochs_before, end)
        segments = LogSegments(self._segments)
        self._load_producers(segments, start, end)
        place = LogOffsetMetadata(end, active.base_offset, active.size)
        return LoadedLog(segments, min(start, end), point, place)

    # Files

    def _names(self) -> list[str]:
        directory = self._directory
        return [entry.name for entry in directory.fs.list(directory.path) if not entry.is_directory]

    def _clear_leftovers(self) -> list[str]:
        """Bring the directory in order; the names of the files that are there then."""
        left = self._names()
        if any(name.endswith(_TRANSIENT) for name in left):  # hardly ever
            left = self._clear_transient(left)
        strays = orphans(left)
        self._unlink(strays)
        return [name for name in left if name not in strays] if strays else left

    def _clear_transient(self, names: Sequence[str]) -> list[str]:
        gone = temporary_files(names)
        for some in gone:
            self._unlink(some)
        removed = {*gone[0], *gone[1]}
        left = [name for name in names if name not in removed]
        if any(name.endswith(Transient.SWAP.value) for name in left):
            if self._as_kafka:
                left = [*left, *make_swap_indexes(self._directory, left, self._parts.config)]
            plan = plan_swaps(left, self._swap_end, self._first_offset)
            self._unlink(plan.delete)
            logs = sum(name.endswith(_SWAPPED_LOG) for name, _ in plan.rename)
            for renames in (plan.rename[:logs], plan.rename[logs:]):
                self._finish(renames)
            left = self._names()
        return left

    def _finish(self, renames: Sequence[tuple[str, str]]) -> None:
        for source, target in renames:
            _logger.info("%s: finishing the replacement by %s", self._directory.path, target)
            self._directory.rename(source, target)
        if renames:
            self._directory.sync()

    def _swap_end(self, base_offset: int) -> int:
        if self._as_kafka:
            return end_to_kafka(self._directory, base_offset, Transient.SWAP)
        segment = SealedSegment.open(self._directory, base_offset, transient=Transient.SWAP)
        try:
            return segment.next_offset()
        finally:
            segment.close()

    def _first_offset(self, base_offset: int) -> int | None:
        if self._as_kafka:
            return None
        segment = SealedSegment.open(self._directory, base_offset)
        try:
            found = segment.translate_offset(base_offset)
            return None if found is None else found.offset
        except CorruptRecordError:
            return None
        finally:
            segment.close()

    def _unlink(self, names: Sequence[str]) -> None:
        """Remove files, and return when the disk has forgotten them."""
        for name in names:
            _logger.info("%s: removing %s", self._directory.path, name)
            self._directory.unlink(name)
        if names:
            self._directory.sync()

    # Segments

    def _open_segments(self, names: Sequence[str], recover: bool) -> None:
        files = PartitionFiles.of((name, False) for name in names)
        kinds = files.kinds
        self._snapshots = set(files.snapshots)
        bases = [one.base_offset for one in files.segments]
        # A segment that ends at the point may have been trimmed by a roll since it was synced.
        first = max((base for base in bases if base < self._recovery_point), default=-1)
        now_ms = self._parts.now_ms()
        for base_offset in bases:
            segment = SealedSegment.open(self._directory, base_offset, created_ms=now_ms)
            if self._clean or base_offset < first:
                segment.mark_synced()  # whoever wrote the recovery point has seen to it
            fault = self._fault(segment, kinds[base_offset], base_offset == bases[-1]) if recover else None
            self._segments.append(segment)
            if fault is not None and (self._as_kafka or not self._is_damaged(segment)):
                _logger.warning(
                    "%s: rebuilding indexes of segment %d: %s", self._directory.path, base_offset, fault
                )
                self._rebuild(len(self._segments) - 1)

    def _fault(self, segment: SealedSegment, kinds: frozenset[FileKind], is_last: bool) -> str | None:
        """Why the segment's indexes have to be rebuilt now; None if they need not, or will be anyway."""
        will_be = not self._clean and (is_last or segment.base_offset >= self._recovery_point)
        if self._as_kafka:
            return self._fault_to_kafka(segment, kinds)
        if not kinds.issuperset(MAPPED_INDEXES):
            return None if will_be else "an index is missing"
        if will_be:
            return None
        if FileKind.TXN_INDEX in kinds:
            try:
                segment.txn_index.sanity_check()
            except InvalidIndexError as error:
                return str(error)
        try:
            return segment.index_fault() if is_last or not self._clean else None
        except CorruptRecordError as error:
            return str(error)

    def _fault_to_kafka(self, segment: SealedSegment, kinds: frozenset[FileKind]) -> str | None:
        """Kafka rebuilds for a missing offset index, also where it will recover the segment again, and for
        aborts that end before the segment. It puts an empty time index in the place of a missing one.
        """
        if FileKind.OFFSET_INDEX not in kinds:
            return "an index is missing"
        if FileKind.TIME_INDEX not in kinds:
            name = format_segment_file(segment.base_offset, FileKind.TIME_INDEX)
            self._directory.open(name, create=True).close()
        if FileKind.TXN_INDEX in kinds:
            name = format_segment_file(segment.base_offset, FileKind.TXN_INDEX)
            data, size = (
                read_file(self._directory.fs, self._directory.file(name)),
                TransactionIndex.ENTRY_SIZE,
            )
            for start in range(0, len(data) - size + 1, size):
                if 0 < data[start] < 128:  # of the version's two bytes, Kafka looks at the first
                    raise InvalidIndexError(f"{self._directory.file(name)}: an entry of an unknown version")
                if decode_entries(data[start : start + size])[0].last_offset < segment.base_offset:
                    return "a transaction ends before the segment"
        return None

    def _is_damaged(self, segment: SealedSegment) -> bool:
        """Whether a segment that was safe on the disk has bad batches: that is told, and nothing is cut."""
        buffer, position = segment.buffer(), 0
        while position < len(buffer):
            scan = scan_batches(buffer, start=position, source=segment.path)
            if scan.fault is not None:
                _logger.error("%s: %s; it is left as it is", self._directory.path, scan.fault)
                return True
            position = scan.end
        return False

    def _rebuild(self, index: int) -> None:
        """Recover a segment that need not be cut."""
        try:
            self._recover_segment(index)
        except IndexOffsetOverflowError as error:
            for base_offset in self._split(index, error):
                self._recover_segment([one.base_offset for one in self._segments].index(base_offset))

    def _split(self, index: int, why: IndexOffsetOverflowError) -> list[int]:
        """Split a segment that cannot be indexed; the base offsets of those in its place.

        One of a batch whose base offset is damaged may come after all others.
        """
        directory = self._directory
        old = SealedSegment.open(directory, self._segments[index].base_offset)
        last = end_to_kafka(self._directory, old.base_offset) - 1 if self._as_kafka else None
        if last is not None and last - old.base_offset <= MAX_RELATIVE_OFFSET:
            raise CorruptRecordError(f"{why}: Kafka fails, as the last offset is in range", source=old.path)
        _logger.warning("%s: splitting segment %d: %s", directory.path, old.base_offset, why)
        split = split_segment(old, self._parts.config, self._parts.now_ms)
        cut = self._truncate(old.base_offset, split.size) if split.fault is not None else 0
        exchange_files(directory, split.segments, lambda: old.rename_to(Transient.DELETED))
        old.delete()
        if old.base_offset not in {part.base_offset for part in split.segments}:
            self._parts.snapshots.delete([old.base_offset])
            self._snapshots.discard(old.base_offset)
        self._segments[index : index + 1] = split.segments
        if split.fault is not None:
            _logger.warning("%s: %d bytes cut off it: %s", directory.path, cut, split.fault)
            self._remove_segments(index + len(split.segments))
        self._segments.sort(key=lambda one: one.base_offset)
        return [one.base_offset for one in split.segments]

    def _recover_segment(self, index: int) -> int:
        """Check and rebuild a segment; how many bytes were cut off it."""
        segment = self._segments[index]
        parts = self._parts
        producers = parts.producers.renewed(self._snapshots)
        rebuild_producers(
            producers,
            parts.snapshots,
            LogSegments(self._segments),
            log_start_offset=self._log_start,
            last_offset=segment.base_offset,
            now_ms=parts.now_ms,
        )
        self._snapshots = set(producers.snapshot_offsets)  # later ones are gone, also if this fails
        active = self._activated(segment)
        try:
            cut = active.recover(LogRecoveryState(producers, parts.epochs), any_order=self._as_kafka)
        except (IndexOffsetOverflowError, CorruptRecordError):
            active.abandon()
            raise
        parts.snapshots.take(producers)
        self._snapshots = set(producers.snapshot_offsets)
        self._segments[index] = active.seal()
        self._recovered(active.size + cut)
        return cut

    def _activated(self, segment: Segment) -> ActiveSegment:
        if isinstance(segment, ActiveSegment):
            return segment
        if not isinstance(segment, SealedSegment):
            raise TypeError(f"{segment!r} cannot be written")
        parts = self._parts
        jitter_ms = draw_jitter_ms(parts.config, parts.jitter)
        return ActiveSegment.reopen(segment, parts.config, clock=parts.now_ms, jitter_ms=jitter_ms)

    def _recover_log(self) -> int | None:
        """Recover what is past the recovery point; the log end, None if there is no segment left."""
        if not self._clean:
            self._recover_from_point()
        if not self._segments:
            return None
        end = self._log_end()
        if end >= self._log_start:
            return end
        if self._clean and not self._as_kafka and any(one.size for one in self._segments):
            raise self._below_its_start(end)
        _logger.warning(
            "%s: the log ends at %d, below its start at %d: removing its segments",
            self._directory.path,
            end,
            self._log_start,
        )
        self._remove_segments(0)
        self._parts.epochs.clear()
        return None

    def _below_its_start(self, end: int) -> InvalidInputError:
        """A log that was closed cleanly ends where it says: the start is not this log's."""
        path = self._directory.path
        return InvalidInputError(
            f"{path} ends at offset {end}, but the checkpoint of its root says that it starts at "
            f"{self._log_start}: it is an older copy, or the checkpoint is not this log's. To keep its "
            "records, write 0 for it into log-start-offset-checkpoint while nothing has the root open; to "
            f"give them up, run `tidelog recover {path}`, which keeps them beside the log"
        )

    def _log_end(self) -> int:
        last = self._segments[-1]
        return end_to_kafka(self._directory, last.base_offset) if self._as_kafka else last.next_offset()

    def _recover_from_point(self) -> None:
        bases = [segment.base_offset for segment in self._segments]
        first = max(sum(base <= self._recovery_point for base in bases) - 1, 0)
        if self._sync_failed:
            self._write_again(bases[first:])
        index = first
        while index < len(self._segments):
            base_offset = self._segments[index].base_offset
            _logger.info("%s: recovering segment %d", self._directory.path, base_offset)
            try:
                cut = self._recover_segment(index)
            except IndexOffsetOverflowError as error:
                self._split(index, error)
                continue
            except OffsetsOutOfOrderError as error:
                cut = self._empty(index, error)
            except CorruptRecordError as error:
                cut = self._cut_at(index, error)
            if cut:
                _logger.warning(
                    "%s: %d bytes cut off segment %d, and %d later segments",
                    self._directory.path,
                    cut,
                    base_offset,
                    len(self._segments) - index - 1,
                )
                self._remove_segments(index + 1)
                return
            index += 1

    def _empty(self, index: int, error: Exception) -> int:
        """Remove all batches of a segment; the bytes cut off."""
        base_offset = self._segments[index].base_offset
        _logger.warning("%s: emptying segment %d: %s", self._directory.path, base_offset, error)
        active = self._activated(self._segments[index])
        cut = active.truncate_to(base_offset)
        self._segments[index] = active.seal()
        return cut

    def _cut_at(self, index: int, error: CorruptRecordError) -> int:
        """Cut a segment at a sound batch whose offsets go back, and recover it; the bytes cut off.

        Such a batch is none of this log's: after a failed write the disk shows what was there before.
        """
        segment = self._segments[index]
        if error.position is None or error.source != segment.path:
            raise error
        cut = self._truncate(segment.base_offset, error.position)
        self._segments[index] = SealedSegment.open(
            self._directory, segment.base_offset, created_ms=self._parts.now_ms()
        )
        return cut + self._recover_segment(index)

    def _truncate(self, base_offset: int, size: int) -> int:
        """Cut a log file, rather than leave out its end: who keeps what is cut learns of it; the bytes."""
        file = self._directory.open(format_segment_file(base_offset, FileKind.LOG), writable=True)
        try:
            cut = file.size() - size
            file.truncate(size)
            return cut
        finally:
            file.close()

    def _write_again(self, bases: Iterable[int]) -> None:
        """Write segments again after a sync has failed: what is read here may not be on the disk."""
        _logger.warning("%s: a sync has failed: writing what is past it again", self._directory.path)
        for base_offset in bases:
            file = self._directory.open(format_segment_file(base_offset, FileKind.LOG), writable=True)
            try:
                write_again(file)
            finally:
                file.close()
        self._directory.unlink(SYNC_FAILED_FILE)

    def _remove_segments(self, first: int) -> None:
        gone = self._segments[first:]
        del self._segments[first:]
        for segment in gone:
            segment.delete()
            self._parts.snapshots.delete([segment.base_offset])
            self._snapshots.discard(segment.base_offset)

    def _activate(self) -> ActiveSegment:
        """Make the last segment the active one, or a new one if there is none."""
        if self._segments:
            active = self._activated(self._segments[-1])
            self._segments[-1] = active
            return active
        parts = self._parts
        jitter_ms = draw_jitter_ms(parts.config, parts.jitter)
        active = ActiveSegment.create(
            self._directory, self._log_start, parts.config, clock=parts.now_ms, jitter_ms=jitter_ms
        )
        self._segments.append(active)
        return active

    # State

    def _trim_epochs(self, before: object, end: int) -> None:
        cache = self._parts.epochs.cache
        cache.truncate_from_end(end)
        cache.truncate_from_start(self._log_start)
        # Of a log that is in order, they are written with the next change: nobody has asked for one yet.
        if cache.entries != before and (self._as_kafka or not self._clean):
            self._parts.epochs.write()

    def _load_producers(self, segments: LogSegments, start: int, end: int) -> None:
        parts = self._parts
        producers = parts.producers
        producers.adopt_snapshots(self._snapshots)
        parts.snapshots.delete(producers.remove_stray_snapshots(segments.base_offsets))
        rebuild_producers(
            producers,
            parts.snapshots,
            segments,
            log_start_offset=start,
            last_offset=end,
            now_ms=parts.now_ms,
            trusted=self._clean,
        )
