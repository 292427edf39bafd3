"""Loading the logs of a root, several at a time, with progress reports.

The amount of work is known before: after a clean shutdown, the number of logs; after a crash, the segments
from each log's recovery point on, and their bytes. Progress is reported after each segment and each log;
segments that are cut count as done when their log is. A log that cannot be loaded does not stop the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tidelog.errors import TidelogError
from tidelog.layout.partitions import list_partition
from tidelog.log import Log
from tidelog.manager.store.events import Event, EventDispatcher, LoadFinished, LoadProgress, LoadStarted
from tidelog.storage import FileSystem
from tidelog.types import TopicPartition

__all__ = ["LoadJob", "Loaded", "load_logs", "to_recover"]


@dataclass(frozen=True, slots=True)
class LoadJob:
    """A log to be loaded."""

    partition: TopicPartition
    path: str
    recovery_point: int
    load: Callable[[Callable[[int], None]], Log]
    """Loads it; what it is given is to be told the size of each segment that was recovered."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a job: `log` or `error`."""

    job: LoadJob
    log: Log | None = None
    error: Exception | None = None


def to_recover(fs: FileSystem, path: str, recovery_point: int) -> tuple[int, int]:
    """How many segments of a log a recovery looks at, and how many bytes they have."""
    logs = list_partition(fs, path).segments
    first = max((one.base_offset for one in logs if one.base_offset <= recovery_point), default=0)
    sizes = [fs.stat(f"{path}/{one.log_name}").size for one in logs if one.base_offset >= first]
    return len(sizes), sum(sizes)


def load_logs(
    root: str,
    jobs: Sequence[LoadJob],
    *,
    fs: FileSystem,
    clean: bool,
    threads: int,
    tell: Callable[[Event], None],
) -> list[Loaded]:
    """Load them, `threads` at a time; in the order of the jobs."""
    tell = tell if isinstance(tell, EventDispatcher) else EventDispatcher(tell)
    work = {job: (0, 0) if clean else _work(fs, job) for job in jobs}
    progress = _Progress(
        root, len(jobs), sum(n for n, _ in work.values()), sum(b for _, b in work.values()), tell
    )
    tell(LoadStarted(root, clean, progress.logs, progress.segments, progress.size_bytes))

    def run(job: LoadJob) -> Loaded:
        part = progress.part(job, *work[job])
        try:
            loaded = Loaded(job, log=job.load(part.recovered))
        except (OSError, TidelogError) as error:
            loaded = Loaded(job, error=error)
        part.finish()
        return loaded

    if threads == 1 or len(jobs) <= 1:
        results = [run(job) for job in jobs]
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="tidelog-load") as pool:
            results = list(pool.map(run, jobs))
    failed = sum(loaded.error is not None for loaded in results)
    tell(
        LoadFinished(
            root, len(jobs), failed, progress.elapsed_ms, clean, progress.segments, progress.size_bytes
        )
    )
    return results


def _work(fs: FileSystem, job: LoadJob) -> tuple[int, int]:
    try:
        return to_recover(fs, job.path, job.recovery_point)
    except OSError:
        return 0, 0  # loading it will tell what is wrong


class _Progress:
    """How far all logs of a root are."""

    def __init__(self, root: str, logs: int, segments: int, size_bytes: int, tell: EventDispatcher) -> None:
        self.root, self.logs, self.segments, self.size_bytes = root, logs, segments, size_bytes
        self._tell = tell
        self._begin = time.monotonic()
        self._done = (0, 0, 0)
        self._lock = threading.Lock()

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self._begin) * 1000)

    def part(self, job: LoadJob, segments: int, size_bytes: int) -> _Part:
        """One log's share of the work."""
        return _Part(self, job, segments, size_bytes)

    def add(self, job: LoadJob, logs: int, segments: int, size_bytes: int) -> None:
        """Add to the progress, and report it."""
        with self._tell.deferring(), self._lock:
            before = self._done
            self._done = before[0] + logs, before[1] + segments, before[2] + size_bytes
            logs_done, segments_done, bytes_done = self._done
            self._tell(
                LoadProgress(
                    self.root,
                    job.partition,
                    logs_done,
                    self.logs,
                    segments_done,
                    self.segments,
                    bytes_done,
                    self.size_bytes,
                    self.elapsed_ms,
                )
            )


class _Part:
    """The progress of one log; never more than was planned: other rebuilds are not counted."""

    def __init__(self, progress: _Progress, job: LoadJob, segments: int, size_bytes: int) -> None:
        self._progress = progress
        self._job = job
        self._segments_left, self._bytes_left = segments, size_bytes

    def recovered(self, size: int) -> None:
        """A segment is done."""
        if self._segments_left:
            self._add(0, 1, min(size, self._bytes_left))

    def finish(self) -> None:
        """All is done."""
        self._add(1, self._segments_left, self._bytes_left)

    def _add(self, logs: int, segments: int, size: int) -> None:
        self._segments_left -= segments
        self._bytes_left -= size
        self._progress.add(self._job, logs, segments, size)
