"""What one log is made of: its files, its state, and the picture of it that readers see.

    writer (holds `lock`)          segments, producers, epochs, snapshots
    syncs (hold `sync_lock`)       recovery point; who needs both locks takes `lock` first
    readers (hold nothing)         `view`: the segments and the offsets of one moment, replaced whole

Everything that changes a log goes through here in the same way: act on the files, then publish a new view.
What happened to the files and was not published is seen by nobody; a log whose files and state may disagree
because a disk failed half-way goes `offline`: it can be read, and recovery makes it whole at the next open.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config import LogConfig
from tidelog.errors import LogClosedError, LogOfflineError
from tidelog.kernels.locks import Lock
from tidelog.kernels.published import Published
from tidelog.log.epochs import EpochFile
from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.log.scheduling import Scheduler
from tidelog.log.segments.segments import LogSegments
from tidelog.segment import ActiveSegment
from tidelog.storage import Directory
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LogParts", "LogState", "LogView", "draw_jitter_ms"]

_new = tuple.__new__  # a named tuple's own takes twice as long


class LogView(NamedTuple):
    """The segments and offsets of one moment."""

    segments: LogSegments
    offsets: LogOffsets


class LogParts(NamedTuple):
    """What a log is opened with."""

    directory: Directory
    topic_partition: TopicPartition
    config: LogConfig
    now_ms: Callable[[], int]
    scheduler: Scheduler | None
    producers: ProducerStateManager
    snapshots: SnapshotFiles
    epochs: EpochFile
    jitter: random.Random


class LogState(Published):
    """A log's parts and what the writer does to them.

    `view` is what readers see, `active` the segment that takes appends: the last one of the view. What lies
    below `recovery_point` is on the disk.
    """

    view: LogView
    active: ActiveSegment

    def __init__(self, parts: LogParts, view: LogView, recovery_point: int) -> None:
        super().__init__(LogOffsetMetadata, LogOffsets, LogView, view)
        self.directory = parts.directory
        self.topic_partition = parts.topic_partition
        self.set_config(parts.config)
        self.now_ms = parts.now_ms
        self.scheduler = parts.scheduler
        self.producers = parts.producers
        self.snapshots = parts.snapshots
        self.epochs = parts.epochs
        self.lock = Lock()
        """Held by whoever changes anything here but for `view`'s places."""
        self.active = view.segments.active
        self.sync_lock = threading.RLock()
        """Held by whoever brings the log to the disk, or cuts it; never while `lock` is waited for."""
        self.recovery_point = recovery_point
        self.synced_below = first_unsynced(view.segments)
        """The segments that begin below it are on the disk as they are; the active one never does."""
        self.last_flush_ms = parts.now_ms()
        self._jitter = parts.jitter

    def set_config(self, config: LogConfig) -> None:
        """Another configuration from now on."""
        self.config = config
        self.max_segment_bytes = config.max_segment_bytes
        self.max_segment_ms = config.max_segment_ms
        self.flush_messages = config.flush_messages

    # Whether it can be used

    @property
    def is_offline(self) -> bool:
        """Whether a disk failed under the log."""
        return self._offline is not None or self.directory.failure is not None

    @property
    def is_closed(self) -> bool:
        """Whether the log was closed or deleted."""
        return self._closed

    def check_readable(self) -> None:
        """Refuse a log that was closed."""
        if self._closed:
            raise LogClosedError(f"{self.directory.path} was closed or deleted")

    @property
    def is_writable(self) -> bool:
        """Whether it was neither closed, nor has its disk failed."""
        return not self._closed and self._offline is None and self.directory.failure is None

    def check_writable(self) -> None:
        """Refuse a log that was closed, or whose disk failed."""
        if not self.is_writable:
            self.check_readable()
            why = self._offline or self.directory.failure
            raise LogOfflineError(
                f"{self.directory.path} is offline since its disk failed ({why}); open it again"
            ) from why

    def mark_closed(self) -> None:
        """Let nobody use it any more."""
        self._closed = True

    @contextmanager
    def changing_files(self, what: str) -> Iterator[None]:
        """Around changes of files that cannot be taken back: an error half-way takes the log offline."""
        try:
            yield
        except LogOfflineError as error:
            self._offline = self._offline or error
            raise
        except OSError as error:
            self._offline = self._offline or error
            raise LogOfflineError(f"{what} {self.directory.path} failed: {error}") from error

    # Publishing

    def publish(self, segments: LogSegments, offsets: LogOffsets) -> None:
        """Let readers see these."""
        self.view = LogView(segments, offsets)

    def publish_end(self, end_offset: int) -> None:
        """Let readers see what an append has written to the active segment; nothing else has changed."""
        active = self.active
        segments, offsets = self.view
        end = _new(LogOffsetMetadata, (end_offset, active.base_offset, active.size))
        self.view = _new(LogView, (segments, offsets.appended(end)))

    def publish_offsets(self, offsets: LogOffsets) -> None:
        """Let readers see these offsets, with the same segments."""
        self.view = LogView(self.view.segments, offsets)

    def end_at(self, offset: int) -> LogOffsetMetadata:
        """`offset` as the log end, with its place in the active segment."""
        active = self.active
        return LogOffsetMetadata(offset, active.base_offset, active.size)

    def refresh_unstable(self, offsets: LogOffsets) -> LogOffsets:
        """`offsets` with the first unstable offset that follows from them and the open transactions."""
        self.producers.on_high_watermark_updated(offsets.high_watermark.message_offset)
        return offsets.with_first_unstable(self.producers.first_unstable_offset)

    # What is on the disk; with the sync lock held

    def note_synced(self, segments: LogSegments, end_offset: int) -> None:
        """Note that of these segments everything below an offset is on the disk."""
        self.synced_below = first_unsynced(segments, self.synced_below)
        self.recovery_point = max(self.recovery_point, end_offset)

    def note_cut(self, end_offset: int) -> None:
        """Note that the log was cut, and that its active segment may be another one now."""
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, end_offset)
        self.synced_below = min(self.synced_below, self.active.base_offset)

    # Segments

    def create_segment(self, base_offset: int) -> ActiveSegment:
        """A new, empty segment."""
        jitter_ms = draw_jitter_ms(self.config, self._jitter)
        return ActiveSegment.create(
            self.directory, base_offset, self.config, clock=self.now_ms, jitter_ms=jitter_ms
        )

    def draw_jitter_ms(self) -> int:
        """The jitter of a segment that becomes the active one."""
        return draw_jitter_ms(self.config, self._jitter)

    def later(self, name: str, action: Callable[[], None]) -> None:
        """Delete something: in `file.delete.delay.ms` where there is a scheduler, else at once."""
        if self.scheduler is None:
            action()
        else:
            self.scheduler.schedule_once(name, action, self.config.file_delete_delay_ms)


def draw_jitter_ms(config: LogConfig, source: random.Random) -> int:
    """The jitter of a new segment: 0 to `segment.jitter.ms`, and less than `segment.ms`."""
    if config.segment_jitter_ms == 0:
        return 0
    return source.getrandbits(31) % min(config.segment_jitter_ms, config.segment_ms)


def first_unsynced(segments: LogSegments, start: int = 0) -> int:
    """The base offset of the first segment that is not on the disk as it is, or of the active one.

    Those that begin below `start` are known to be.
    """
    for segment in segments.from_floor(start):
        if not segment.is_synced:
            return segment.base_offset
    return segments.last.base_offset
