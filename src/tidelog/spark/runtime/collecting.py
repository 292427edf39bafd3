"""Python's garbage collector, which stays out of the way of plans.

A plan of thousands of partitions makes objects by the ten thousand and drops few of them. The collector takes
that for a reason to look at all of them, over and over; nothing of a plan is in a cycle.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """Within it, or in a function that it decorates, nothing is collected unless somebody asks for it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
