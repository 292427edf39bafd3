"""A range of offsets or time -> a pure plan of picklable tasks -> Arrow record batches.

bounds      the offsets that a reader means
partitions  what is on disk under a path; `roots`: its checkpoints; `volumes`, `listings`: its directories
ranges      a range of one partition -> tasks; `plan`: the decision; `splits`: pieces for workers
tasks       a stretch of one segment, decoded anywhere; `filters`: conditions; `typed`: decoded columns
bundles     small tasks of many files, read together; `pieces`: their bytes
reader      `scan`: all of it together
log_end     where a log at rest ends; `changes`: damage, or a writer at work?
salvage     a task over damage; `soundness`: which bytes are sound; `losses`: what was left out
fetching    reads by offset, of a partition that may be in use; `timestamps`: offsets by time
overview    what a partition holds, without reading it; `pictures`, `sketches`: how it spreads, how many keys
views       segments as retention and compaction ask about them

The package is not called `scan` because `tidelog.scan` is the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.scanning.reader import plan_scan, scan
    from tidelog.scanning.tasks import ScanTask, run_task

__all__ = ["ScanTask", "plan_scan", "run_task", "scan"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ScanTask": "tidelog.scanning.tasks",
        "plan_scan": "tidelog.scanning.reader",
        "run_task": "tidelog.scanning.tasks",
        "scan": "tidelog.scanning.reader",
    },
)
