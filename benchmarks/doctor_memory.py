"""Memory of doctor and rewrite, in a process of its own: `python -m benchmarks.doctor_memory TASK ROOT`.

Prints the largest anonymous resident memory over what the process had when all was imported, in bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.doctor import erase_some, examine_root
from benchmarks.memory import rss_anon, watched_peak

__all__ = ["peak_of"]


def peak_of(task: str, root: Path) -> int:
    """The peak over the baseline of `examine` or `rewrite`."""
    baseline = rss_anon()
    if task == "examine":
        return watched_peak(lambda: examine_root(root)) - baseline
    return watched_peak(lambda: erase_some(root, "source")) - baseline


if __name__ == "__main__":
    print(peak_of(sys.argv[1], Path(sys.argv[2])))
