"""Memory of an open log, in a process of its own: `python -m benchmarks.log_memory DIRECTORY LOG_END`.

Prints the largest anonymous resident memory (RssAnon) of the process, interpreter and libraries included, in
bytes, from the opening until one record of the log's middle has been read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.memory import watched_peak
from tidelog.log.log import Log

__all__ = ["peak_of_opening"]


def peak_of_opening(directory: Path, log_end: int) -> int:
    """The peak while the log is opened and asked; it is left open."""

    def work() -> None:
        log = Log.open(directory, clean=True, recovery_point=log_end)
        log.read_record(log_end // 2)

    return watched_peak(work)


if __name__ == "__main__":
    print(peak_of_opening(Path(sys.argv[1]), int(sys.argv[2])))
