"""What a check finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.errors import InvalidIndexError

__all__ = ["UNREADABLE", "Finding", "Kind", "told"]

UNREADABLE = (OSError, InvalidIndexError, MemoryError)
"""What keeps one file from being read; the others are looked at all the same."""


class Kind(enum.Enum):
    """How bad it is."""

    DAMAGE = "damage"
    """Something is lost or wrong."""
    NOTE = "note"
    """Worth knowing; the next opening takes care of it, or nothing needs to be done."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    file: str
    cause: str
    position: int | None = None
    """The byte position in the file."""
    offset: int | None = None
    """The first offset that is affected."""
    end_offset: int | None = None
    """The first offset that is not affected any more; None: all from there on, or not known."""


def told(error: BaseException) -> str:
    """What kept a file from being read; findings name the file already."""
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror or error}"
    return str(error) or "it does not fit into memory"
