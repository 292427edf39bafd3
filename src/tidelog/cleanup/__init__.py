"""What becomes of old data: pure plans, and thin executors that go through the log.

retention   whole segments that are too old, too many, or below the log start
cleaner     compaction: of each key the last value stays (docs/compaction.md); its parts are
            offset_map, mapping (first pass), grouping, aborted, filtering, rewriting, groups (second pass);
            passes: a round, whose passes this process does or others do
"""

from tidelog.cleanup.retention import (
    Deletion,
    RetentionPlan,
    RetentionReason,
    apply_retention,
    plan_retention,
)

__all__ = ["Deletion", "RetentionPlan", "RetentionReason", "apply_retention", "plan_retention"]
