"""Ways to break what makes writes durable, one line each, and the tests that notice.

Each mutant leaves out or reverses one sync, one rename's order, one lock, or one rule of a recovery point, a
checkpoint or the clean mark. `mutating` runs them; `test_mutants` sees that each still fits its file, once.
"""

from __future__ import annotations

from tests.durability.log_mutants import LOG_MUTANTS
from tests.durability.mutant import Mutant
from tests.durability.store_mutants import STORE_MUTANTS

__all__ = ["EQUIVALENT", "MUTANTS", "SAMPLE"]

MUTANTS: tuple[Mutant, ...] = (*LOG_MUTANTS, *STORE_MUTANTS)

EQUIVALENT: dict[str, str] = {
    "a segment counts as synced before it is": (
        "Flushes of a log exclude each other (`sync_lock`), and a sync that fails makes every later one in "
        "the directory fail (`Directory.syncing`): nobody is told of the mark before the sync has succeeded."
    ),
    "linked names are not synced": (
        "Publishing flushes each partition after its links (`applying.apply_write`). The segment that is "
        "made behind the linked one counts as a change of names, so that flush syncs the directory. After a "
        "power cut before it, the write is in the journal, and is carried out again or taken back."
    ),
}
"""The mutants that change nothing, by what they break, and why."""

SAMPLE = (
    "an offset index is not synced",
    "a flush leaves names out",
    "cleaned files are swapped before their names are safe",
    "indexes are swapped in before logs",
    "the segment that holds the recovery point is trusted",
    "a deleted topic stays registered",
    "what was there before a bulk write is not synced",
)
"""Some of each kind, by what they break, for a run of a few minutes."""
