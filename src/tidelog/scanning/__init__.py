"""A range of offsets or time -> a pure plan of picklable tasks -> Arrow record batches.

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
