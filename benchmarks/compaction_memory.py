"""Memory of cleaning, in a process of its own: `python -m benchmarks.compaction_memory DIRECTORY MAP_BYTES`.

Prints the largest anonymous resident memory over what the process had before it made the offset map, in
bytes, and the rounds that cleaning took.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.compaction import CLEAN_AT_MS
from benchmarks.memory import rss_anon, watched_peak
from tidelog.cleanup.cleaner import CleanReport, LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.config import LogConfig
from tidelog.log import Log

__all__ = ["peak_of_cleaning"]


def peak_of_cleaning(directory: Path, map_bytes: int) -> tuple[int, int]:
    """The peak over the baseline, and the rounds; the directory is cleaned itself."""
    config = LogConfig(segment_bytes=64 << 20, cleanup_policy=("compact",))
    reports: list[CleanReport] = []
    with Log.open(directory, config, clean=True) as log:
        log.update_high_watermark(log.log_end_offset)

        def work() -> None:
            passes = LocalPasses(OffsetMap(map_bytes))
            end = log.log_end_offset
            reports.append(clean_log(log, passes, first_dirty_offset=0, upper_bound=end, now_ms=CLEAN_AT_MS))

        baseline = rss_anon()
        return watched_peak(work) - baseline, reports[0].rounds


if __name__ == "__main__":
    print(*peak_of_cleaning(Path(sys.argv[1]), int(sys.argv[2])))
