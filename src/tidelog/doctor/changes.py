"""How files differ from what they would be after work that was rehearsed.

    cut      the file loses its last bytes
    write    the file gets other bytes, or is made
    move     the file gets another name, perhaps in another's place, and is perhaps cut
    remove   the file goes

Nothing is read of a file that is only cut or moved.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.manager.upkeep.rehearsal import Rehearsal, Rehearsed
from tidelog.storage import FileSystem
from tidelog.storage.reading import FileReader

__all__ = ["Change", "ChangeKind", "find_changes"]

_CHUNK = 8 << 20


class ChangeKind(enum.Enum):
    """What becomes of a file."""

    CUT = "cut"
    WRITE = "write"
    MOVE = "move"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is not as it was."""

    kind: ChangeKind
    path: str
    size: int = 0
    """How many bytes it has then."""
    before: int | None = None
    """How many it has now; None if there is none of this name."""
    data: bytes = b""
    """Its bytes, where it is written."""
    source: str | None = None
    """Which file gets its name, where one is moved."""


def find_changes(fs: FileSystem, rehearsal: Rehearsal) -> Iterator[Change]:
    """What a rehearsal has changed; files that are as they were are left out."""
    moved = set()
    for path, now in rehearsal.changes():
        if now is not None and now.origin not in (None, path):
            moved.add(now.origin)
    for path, now in rehearsal.changes():
        before = fs.stat(path).size if fs.exists(path) else None
        if now is None:
            if before is not None and path not in moved:
                yield Change(ChangeKind.REMOVE, path, 0, before)
        elif now.origin is not None and now.origin != path:
            yield Change(ChangeKind.MOVE, path, now.size, before, source=now.origin)
        elif before is None or not _starts_alike(fs, path, before, now):
            yield Change(ChangeKind.WRITE, path, now.size, before, now.read(now.size, 0))
        elif now.size < before:
            yield Change(ChangeKind.CUT, path, now.size, before)


def _starts_alike(fs: FileSystem, path: str, size: int, now: Rehearsed) -> bool:
    """Whether a file is as it was, or only shorter."""
    if now.origin == path:
        return True
    if now.size > size:
        return False
    old = FileReader.open(fs, path)
    for start in range(0, now.size, _CHUNK):
        count = min(_CHUNK, now.size - start)
        if bytes(old.read(start, count)) != now.read(count, start):
            return False
    return True
