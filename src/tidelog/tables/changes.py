"""What a table's versions have added: the files to read, and where to continue.

A first reading takes the table as it is. From then on each version (Delta) or snapshot (Iceberg) is a
`Change` with the files that it has added. Versions that only moved rows to other files (Delta's
dataChange=false, Iceberg's operation `replace`) have added nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tidelog.errors import InvalidInputError

__all__ = ["AddedFile", "Change", "History", "gone", "plain_path"]


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A Parquet file of a table."""

    url: str
    """A path or URL."""
    size: int
    constants: tuple[tuple[str, str | None], ...] = ()
    """Columns that are the same in all rows and not in the file, as text."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a version of a table has added."""

    version: str
    files: tuple[AddedFile, ...]
    removes_rows: bool = False
    """Whether it has also removed or rewritten rows."""
    is_whole: bool = False
    """Whether these are all files that the version has, not those that it has added."""


class History(Protocol):
    """The versions of a table."""

    name: str
    """How messages call it."""

    @property
    def identity(self) -> str:
        """The table's id; another one under the same name has another."""

    def columns(self) -> pa.Schema:
        """Its columns now; with field ids if the table has such."""

    def whole(self, version: str | None = None) -> Change | None:
        """All files of a version, of the last one by default; None if the table has no version."""

    def one(self, version: str) -> Change:
        """What one version has added."""

    def since(self, version: str) -> Iterator[Change]:
        """The versions after one, the oldest first."""


def gone(name: str, version: str) -> InvalidInputError:
    """What to raise if the history no longer tells what was added after a version."""
    return InvalidInputError(
        f"the history of {name} no longer tells what was added after version {version}, which was ingested "
        "last; ingest under another name to take the whole table again"
    )


def plain_path(url: str) -> str:
    """The absolute path of a file on this machine, for tasks run in other directories; another URL as it is.

    Tables do not escape characters in paths.
    """
    if not url.startswith("file:"):
        return url if "://" in url else str(Path(url).absolute())
    rest = url.removeprefix("file:")
    return "/" + rest.lstrip("/")
