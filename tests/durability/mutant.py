"""A way to break what makes writes durable, and the tests that can notice."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTY", "FOUND", "LIVES", "LOG", "PROMISES", "RACES", "Mutant"]


class Mutant(NamedTuple):
    """A line that is replaced."""

    what: str
    """What is broken."""
    file: str
    """Where, below `src/tidelog`."""
    before: str
    after: str
    tests: tuple[str, ...]
    """The tests meant to notice, below `tests`."""


FOUND = "durability/test_found.py"
PROMISES = "durability/test_promises.py"
LIVES = (PROMISES, FOUND, "durability/test_lives.py")
FAULTY = (PROMISES, "durability/test_faulty_lives.py", "manager/test_flushing.py")
LOG = ("log/test_durability.py", *LIVES)
RACES = (PROMISES, "manager/test_threads.py", "durability/test_storm.py")
