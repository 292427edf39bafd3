"""Records erased, redacted or written another way, at rest, with all other offsets kept (docs/rewrite.md).

edits       what is to be done, as a value
batches     the batches of a window of bytes, edited
segments    one segment -> one `.cleaned` segment in a staging directory: a picklable task
partitions  a partition's tasks, from a rehearsed opening; and the swap of what they made into the log
keeping     the originals in the quarantine, so that `tidelog fix --undo` brings them back
evidence    the manifest of digests before and after
rewrite     a root from lock to clean shutdown
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.rewriting.edits import Edits
    from tidelog.rewriting.rewrite import Rewriting, RewrittenPartition, plan_rewrite, rewrite_root

__all__ = ["Edits", "Rewriting", "RewrittenPartition", "plan_rewrite", "rewrite_root"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Edits": "tidelog.rewriting.edits",
        "Rewriting": "tidelog.rewriting.rewrite",
        "RewrittenPartition": "tidelog.rewriting.rewrite",
        "plan_rewrite": "tidelog.rewriting.rewrite",
        "rewrite_root": "tidelog.rewriting.rewrite",
    },
)
