"""Retention and compaction: pure plans, and thin executors that change the log.

retention   whole segments that are too old, too many, or below the log start
cleaner     compaction: of each key the last value stays (docs/compaction.md); its parts are
            offset_map, mapping (first pass), grouping, group_rewrite, aborted, filtering, rewriting, cleaned
            (second pass); rounds: one round of both passes, run by this process or by tasks
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.cleanup.retention import (
        Deletion,
        RetentionPlan,
        RetentionReason,
        apply_retention,
        plan_retention,
    )

__all__ = ["Deletion", "RetentionPlan", "RetentionReason", "apply_retention", "plan_retention"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Deletion": "tidelog.cleanup.retention",
        "RetentionPlan": "tidelog.cleanup.retention",
        "RetentionReason": "tidelog.cleanup.retention",
        "apply_retention": "tidelog.cleanup.retention",
        "plan_retention": "tidelog.cleanup.retention",
    },
)
