"""One partition's log. It coordinates the modules that do the work.

    write    one writer at a time (a lock): append, roll, truncate, delete, replace, move the offsets
    read     any number of threads, none of which takes the lock: each works on the view of one moment

Offsets: log start <= last stable <= high watermark <= log end, always (`offsets`). When a log is opened, the
high watermark is the log start, as in Kafka. It moves only by a call: a log does not know its replicas.

    with Log.open("/data/orders-0") as log:
        log.append_as_leader([Record(b"value", b"key")])
        log.update_high_watermark(log.log_end_offset)
        log.read_arrow(0)
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.kernels.appender import short_way_first
from tidelog.log import flushing, truncation
from tidelog.log.append import appending, linking
from tidelog.log.append.incoming import AppendOptions, Incoming
from tidelog.log.append.info import AppendOrigin, AppendResult
from tidelog.log.append.single_batch import short_way
from tidelog.log.epochs import EpochFile
from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
from tidelog.log.opening.loader import load
from tidelog.log.producers.producers import (
    PRODUCER_ID_EXPIRATION_MS,
    TRANSACTION_MAX_TIMEOUT_MS,
    ProducerStateManager,
)
from tidelog.log.producers.sequences import TV_UNKNOWN, ProducerState
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.log.read.fetching import find_place
from tidelog.log.read.reader import LogReader
from tidelog.log.scheduling import Scheduler
from tidelog.log.segments import deletion, rolling, splitting
from tidelog.log.state import LogParts, LogState, LogView
from tidelog.records.batches import BatchTable
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage import LOCAL, Directory, FileSystem
from tidelog.storage.forks import is_orphan, watch
from tidelog.storage.metadata import read_partition_metadata, write_partition_metadata
from tidelog.storage.names import PARTITION_METADATA_FILE, DirectoryState, parse_partition_directory
from tidelog.storage.removal import remove_tree

if TYPE_CHECKING:
    from _typeshed import StrPath
    from typing_extensions import Buffer

__all__ = ["Log", "clock_ms"]


_CLIENT = AppendOrigin.CLIENT


def clock_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Log(LogReader):
    """The log of one partition. Open it with `Log.open`."""

    def __init__(self, state: LogState) -> None:
        super().__init__(state)
        self._short_way = short_way(state, own_clock=state.now_ms is clock_ms)

    @classmethod
    def open(
        cls,
        path: StrPath,
        config: LogConfig | None = None,
        *,
        clean: bool = False,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        high_watermark: int | None = None,
        topic_id: uuid.UUID | None = None,
        fs: FileSystem = LOCAL,
        now_ms: Callable[[], int] = clock_ms,
        scheduler: Scheduler | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        max_transaction_timeout_ms: int = TRANSACTION_MAX_TIMEOUT_MS,
        seed: int | None = None,
        recovered: Callable[[int], None] = lambda size: None,
        as_kafka: bool = False,
    ) -> Self:
        """Open the log in a partition directory (`<topic>-<partition>`); it is created if there is none.

        `clean` says that it was closed cleanly, so that it needs no recovery; without it, everything past
        `recovery_point` is checked and rebuilt. `log_start_offset` and `high_watermark` (None: the log start)
        are the root's checkpoints'. `now_ms` is the clock, `seed` makes `segment.jitter.ms` repeatable. A
        `topic_id` is written to `partition.metadata`, or must be the one that is there. `recovered` is called
        with the size of each segment that was checked and rebuilt. Damage below the recovery point is left as
        it is; indexes there are checked. With `as_kafka` it does only what Kafka does, to forecast a broker.
        """
        config = LogConfig() if config is None else config
        path = Path(path).absolute()
        named = parse_partition_directory(path.name)
        directory = Directory.make(path, fs, synced=clean)
        _check_topic_id(directory, topic_id)
        parts = LogParts(
            directory,
            named.topic_partition,
            config,
            now_ms,
            scheduler,
            ProducerStateManager(
                producer_id_expiration_ms=producer_id_expiration_ms,
                max_transaction_timeout_ms=max_transaction_timeout_ms,
            ),
            SnapshotFiles(directory),
            EpochFile.load(directory),
            random.Random(seed),
        )
        loaded = load(
            parts,
            clean=clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            recover=named.state is not DirectoryState.DELETE,
            recovered=recovered,
            as_kafka=as_kafka,
        )
        start = LogOffsetMetadata(loaded.log_start_offset)
        offsets = LogOffsets(loaded.log_start_offset, None, start, loaded.log_end)
        state = LogState(parts, LogView(loaded.segments, offsets), loaded.recovery_point)
        log = cls(state)
        watch(log)
        log.update_high_watermark(loaded.log_start_offset if high_watermark is None else high_watermark)
        return log

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        if not self._state.is_closed:
            if self._state.is_offline:
                self.close_handlers()
            else:
                self.close()

    # Offsets

    def update_high_watermark(self, offset: LogOffsetMetadata | int) -> int:
        """Move the high watermark, up or down, within [log start, log end]. Returns the new one."""
        state = self._state
        with state.lock:
            state.publish_offsets(state.refresh_unstable(state.view.offsets.update_high_watermark(offset)))
            return state.view.offsets.high_watermark.message_offset

    def maybe_increment_high_watermark(self, offset: LogOffsetMetadata | int) -> LogOffsetMetadata | None:
        """Raise the high watermark, at most to the log end. Returns the old one, or None if it did not move.

        The same offset on a newer segment counts as higher.
        """
        state = self._state
        with state.lock:
            new = offset if isinstance(offset, LogOffsetMetadata) else LogOffsetMetadata(offset)
            self._complete_places()
            before = state.view.offsets
            after = before.maybe_increment_high_watermark(new)
            if after is None:
                return None
            state.publish_offsets(state.refresh_unstable(after))
            return before.high_watermark

    def offset_snapshot(self) -> LogOffsets:
        """All offsets, with their positions on disk."""
        with self._state.lock:
            self._complete_places()
            return self._state.view.offsets

    def _complete_places(self) -> None:
        """Look up where the high watermark and the first unstable offset are; with the lock held."""
        view = self._state.view
        mark, unstable = view.offsets.high_watermark, view.offsets.first_unstable
        found_mark = find_place(view, mark.message_offset) if mark.message_offset_only else None
        found = None
        if unstable is not None and unstable.message_offset_only:
            found = find_place(view, unstable.message_offset)
        if found_mark is not None or found is not None:
            self._state.publish_offsets(view.offsets.with_places(found_mark, found))

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start, at most to the high watermark. Returns whether it moved; deletes nothing."""
        with self._state.lock:
            self._state.check_writable()
            return deletion.raise_log_start(self._state, offset)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start to an offset, at most the high watermark. Returns the new log start."""
        with self._state.lock:
            self.maybe_increment_log_start_offset(before_offset)
            return self._state.view.offsets.log_start

    # Writing

    @short_way_first
    def append_as_leader(
        self,
        records: Incoming,
        *,
        leader_epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = TV_UNKNOWN,
        **options: Unpack[AppendOptions],
    ) -> AppendResult:
        """Append records: encoded batches, Arrow columns, or `Record`s. Returns their offsets.

        Batches get their offsets here. `options` are those of `encode_batches`, for records that are not
        encoded yet. An append that breaks a rule is refused as a whole. Batches that their producer has sent
        before are not written again: the result has the offsets of their first append. `transaction_version`
        is needed for a coordinator's markers.
        """
        return appending.append_as_leader(
            self._state, records, leader_epoch, origin, transaction_version, options
        )

    def append_as_only_replica(
        self,
        records: Incoming,
        leader_epoch: int,
        origin: AppendOrigin,
        transaction_version: int,
        options: AppendOptions,
    ) -> AppendResult:
        """Like `append_as_leader`; there is no other replica, so the high watermark follows."""
        if type(records) is bytes and origin is _CLIENT and not options and self._short_way is not None:
            appended: AppendResult | None = self._short_way.append(records, leader_epoch, True)
            if appended is not None:
                return appended
        result = appending.append_as_leader(
            self._state, records, leader_epoch, origin, transaction_version, options
        )
        self.maybe_increment_high_watermark(self._state.view.offsets.log_end)
        return result

    def append_as_follower(self, data: Buffer, leader_epoch: int = (1 << 31) - 1) -> AppendResult:
        """Append batches with their offsets, up to the first one of an epoch later than `leader_epoch`."""
        return appending.append_as_follower(self._state, data, leader_epoch)

    def link_segment(self, staged: Directory, table: BatchTable, leader_epoch: int) -> bool:
        """Take over a whole segment (base offset 0) from another directory; False if it must be copied.

        Its batches, whose headers `table` has, get their offsets and leader epoch in place; see `linking`.
        """
        with self._state.lock:
            self._state.check_writable()
            return linking.link_segment(self._state, staged, table.rows, leader_epoch)

    def roll(self, expected_next_offset: int = 0) -> None:
        """Start a new segment at the log end, or at an offset past it."""
        with self._state.lock:
            self._state.check_writable()
            rolling.roll(self._state, expected_next_offset)

    def flush(self, *, active: bool = True) -> None:
        """Wait until everything is on the disk; without `active`, an empty active segment is left out.

        Raises LogOfflineError if that fails. From then on, only what was on the disk before is safe: the log
        takes no more appends, and must be recovered.
        """
        flushing.flush(self._state, active=active)

    @property
    def truncations(self) -> int:
        """How often the log was truncated, for code that works on its segments."""
        return self._state.truncations

    def truncate_to(self, offset: int) -> bool:
        """Remove everything at or after `offset`. Returns whether there was anything."""
        with self._state.lock:
            self._state.check_writable()
            return truncation.truncate_to(self._state, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything, and continue at `offset`."""
        with self._state.lock:
            self._state.check_writable()
            truncation.truncate_fully_and_start_at(self._state, offset, log_start_offset)

    def delete_segments(self, segments: Iterable[Segment]) -> int:
        """Delete the oldest segments (not the active one); the log start moves after them."""
        with self._state.lock:
            self._state.check_writable()
            return deletion.delete_segments(self._state, segments)

    def replace_segments(self, new: Sequence[SealedSegment], old: Sequence[Segment]) -> None:
        """Replace `old` by `new`, complete as `.cleaned` files. After a crash, the next open finishes it."""
        with self._state.lock:
            self._state.check_writable()
            deletion.replace_segments(self._state, new, old)

    def split_overflowed_segment(self, segment: Segment) -> list[SealedSegment]:
        """Split a sealed segment whose offsets reach too far from its base offset (`has_overflow`) into
        segments that can be indexed. Returns them.
        """
        with self._state.lock:
            self._state.check_writable()
            return splitting.split_overflowed_segment(self._state, segment)

    # Epochs and producers

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Record that a leader epoch starts, before anything is written in it."""
        with self._state.lock:
            self._state.check_writable()
            with self._state.changing_files("writing the epochs of"):
                self._state.epochs.assign(leader_epoch, start_offset)

    @property
    def active_producers(self) -> dict[int, ProducerState]:
        """The state of each producer, by id."""
        with self._state.lock:
            return dict(self._state.producers.producers)

    def producer(self, producer_id: int) -> ProducerState | None:
        """The state of one producer."""
        with self._state.lock:
            return self._state.producers.producers.get(producer_id)

    @property
    def producer_snapshot_offsets(self) -> Sequence[int]:
        """The offsets of the producer snapshots."""
        with self._state.lock:
            return self._state.producers.snapshot_offsets

    def remove_expired_producers(self, now_ms: int | None = None) -> None:
        """Remove producers that have been idle for longer than `producer_id_expiration_ms`."""
        with self._state.lock:
            self._state.producers.remove_expired_producers(self._state.now_ms() if now_ms is None else now_ms)

    def has_late_transaction(self, now_ms: int | None = None) -> bool:
        """Whether a transaction has been open for longer than the maximum."""
        with self._state.lock:
            return self._state.producers.has_late_transaction(
                self._state.now_ms() if now_ms is None else now_ms
            )

    def take_producer_snapshot(self) -> None:
        """Write the producers' state now."""
        with self._state.lock:
            self._state.check_writable()
            with self._state.changing_files("writing a snapshot of"):
                self._state.snapshots.take(self._state.producers)

    # As a whole

    def update_config(self, config: LogConfig) -> LogConfig:
        """Change the configuration. Returns the old one. The active segment keeps its index sizes."""
        with self._state.lock:
            before = self._state.config
            self._state.set_config(config)
            self._short_way = short_way(self._state, own_clock=self._state.now_ms is clock_ms)
            return before

    def close(self) -> None:
        """Write the producers' state, trim the indexes, flush and release the files: a clean shutdown.

        Calling it again is harmless. LogOfflineError if the disk has failed: then the log must be recovered,
        and `close_handlers` releases the files.
        """
        if is_orphan(self):
            return
        state = self._state
        with state.lock, state.sync_lock:
            if state.is_closed:
                return
            state.check_writable()
            with state.changing_files("closing"):
                state.snapshots.take(state.producers)
                state.active.finish()
                flushing.sync_changes(state, state.view.offsets.log_end.message_offset + 1)
                state.mark_closed()
                for segment in state.view.segments:
                    segment.close()

    def close_handlers(self) -> None:
        """Release the files as they are, because their disk failed. The next open must recover."""
        with self._state.lock, self._state.sync_lock:
            self._state.mark_closed()
            for segment in self._state.view.segments:
                if isinstance(segment, ActiveSegment):
                    segment.abandon()
                else:
                    segment.close()

    def rename(self, name: str) -> None:
        """Give the directory another name in the same root (`-delete`, `-future`); readers continue
        reading.
        """
        state = self._state
        with state.lock:
            state.check_writable()
            if "/" in name:
                raise InvalidInputError(f"{name!r} is not a directory's name")
            parse_partition_directory(name)
            with state.changing_files("renaming"):
                state.directory.move(Path(state.directory.path).with_name(name))

    def delete(self) -> None:
        """Delete the log and its directory, open or closed. Readers keep what they have mapped."""
        state = self._state
        with state.lock, state.sync_lock:
            state.mark_closed()
            with state.changing_files("deleting"):
                for segment in state.view.segments:
                    segment.delete()
                with state.directory.lock:
                    remove_tree(state.directory.fs, state.directory.path)


def _check_topic_id(directory: Directory, topic_id: uuid.UUID | None) -> None:
    if topic_id is None:
        return
    path = directory.file(PARTITION_METADATA_FILE)
    if not directory.fs.exists(path):
        write_partition_metadata(directory.fs, path, topic_id)
        return
    there = read_partition_metadata(directory.fs, path).topic_id
    if there != topic_id:
        raise InvalidInputError(f"{directory.path} is of topic {there}, not of {topic_id}")
