"""A plan of repairs: steps, each with its files, what would be lost, and how it is undone. A pure value.

As JSON, a plan has for each file what it is now (size and time) and what it becomes (size and digest), so
that a saved plan fits no other state of the files.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.storage import FileSystem
from tidelog.storage.attributes import read_attributes

__all__ = ["Act", "Action", "Plan", "Step"]

VERSION = 1


class Act(enum.Enum):
    """What is done with a file or directory."""

    CUT = "cut"
    WRITE = "write"
    REMOVE = "remove"
    RENAME = "rename"
    """Give it another name; what has the name is kept first."""
    MODE = "mode"
    """Change its permissions."""


@dataclass(frozen=True, slots=True)
class Action:
    """One change of one file."""

    act: Act
    path: str
    size: int = 0
    """How many bytes it has then (cut, write)."""
    data: bytes = b""
    """What it holds then (write)."""
    target: str = ""
    """Its new name (rename)."""
    mode: int = 0
    """Its new permissions (mode)."""

    def to_json(self, fs: FileSystem) -> dict[str, Any]:
        """What is done, and with what."""
        told: dict[str, Any] = {"act": self.act.value, "file": self.path, "before": _state(fs, self.path)}
        match self.act:
            case Act.CUT:
                told["size"] = self.size
            case Act.WRITE:
                told |= {"size": len(self.data), "sha256": hashlib.sha256(self.data).hexdigest()}
            case Act.RENAME:
                told |= {"target": self.target, "target_before": _state(fs, self.target)}
            case Act.MODE:
                told["mode"] = f"{self.mode:04o}"
        return told


def _state(fs: FileSystem, path: str) -> dict[str, int] | None:
    if not fs.exists(path) and not fs.is_link(path):
        return None
    found = read_attributes(fs, path)
    stat = fs.stat(path) if not found.is_link else None
    size = 0 if stat is None or stat.is_directory else stat.size
    return {"size": size, "mtime_ns": found.mtime_ns, "mode": found.mode}


@dataclass(frozen=True, slots=True)
class Step:
    """One repair."""

    root: str
    title: str
    why: str
    lost: str
    """What is lost with it, in words; empty for nothing."""
    undo: str
    actions: Sequence[Action] = ()
    """Nothing: it cannot be done here, and `why` says what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All repairs for the disks of one broker."""

    roots: Sequence[str]
    steps: Sequence[Step]

    def actions_in(self, root: str) -> Iterator[Action]:
        """What is done in a root, in order."""
        for step in self.steps:
            if step.root == root:
                yield from step.actions

    def to_json(self, fs: FileSystem) -> dict[str, Any]:
        """The plan, to be saved and compared."""
        return {
            "version": VERSION,
            "roots": list(self.roots),
            "steps": [
                {
                    "root": step.root,
                    "title": step.title,
                    "why": step.why,
                    "lost": step.lost,
                    "undo": step.undo,
                    "actions": [action.to_json(fs) for action in step.actions],
                }
                for step in self.steps
            ],
        }


def digest_of(plan: Mapping[str, Any]) -> str:
    """A digest of a plan in JSON: equal for equal plans."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
