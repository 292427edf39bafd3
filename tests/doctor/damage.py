"""A damage: what is done to a small root, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.doctor import Kind, Severity

__all__ = ["FATAL", "HURT", "LOSS", "NOTE", "WARNING", "Damage"]

FATAL, LOSS, HURT, WARNING, NOTE = Severity


@dataclass(frozen=True)
class Damage:
    """What is done to a root, and what is to be said of it."""

    name: str
    kind: Kind
    severity: Severity
    make: Callable[[Path], object]
    partition: str = "golden-none-0"
    clean: bool = True
    two_disks: bool = False
    """Whether a second disk of the same broker is there: `<root>2`, with golden-multi-0."""
    starts: bool = True
    fixed: bool = True
    """Whether fix mends it, so that verify and doctor find nothing wrong."""
    tracker: str = ""
