"""Memory of a decode, measured in a process of its own: `python -m benchmarks.memory FILE.log`.

Prints the largest anonymous resident memory (RssAnon: heap, not the mapped file) over what the process had
before, in bytes. A thread looks every few milliseconds while the decode runs with the GIL released.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from benchmarks.ours import decode, mapped

_INTERVAL_S = 0.002


def rss_anon() -> int:
    """This process's anonymous resident bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not tell RssAnon")


def watched_peak(work: Callable[[], object]) -> int:
    """The largest anonymous resident bytes while `work` runs."""
    peak = rss_anon()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_INTERVAL_S):
            peak = max(peak, rss_anon())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return max(peak, rss_anon())


def peak_over_baseline(log: Path, warm_up: Path) -> int:
    """Bytes that decoding `log` takes on top of what decoding a tiny file left behind (imports, pools)."""
    _decode(warm_up)
    baseline = rss_anon()
    return watched_peak(lambda: _decode(log)) - baseline


def _decode(log: Path) -> None:
    with mapped(log) as data:
        decode(data)


if __name__ == "__main__":
    print(peak_over_baseline(Path(sys.argv[1]), Path(sys.argv[2])))
