"""Scratch files of a job: written once, mapped by whoever needs them, then linked or copied into place.

They need not outlive a crash. What is put into a log by a copy is on the disk when the copy returns.
"""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.storage.files import CANNOT_LINK
from tidelog.storage.local import LOCAL

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["copy_file", "link_or_copy", "map_private", "write_file"]


def write_file(path: Path, parts: Iterable[Buffer]) -> str:
    """Write a new file piece by piece; its name."""
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
    return str(path)


def map_private(path: str) -> mmap.mmap:
    """A file's bytes, shared by all that map it. Writing changes a copy of this process only."""
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, its time included."""
    shutil.copy2(source, target)


def link_or_copy(source: Path, target: Path) -> None:
    """A link to a file, or where there can be none a copy on the disk."""
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        copy_file(source, target)
        file = LOCAL.open(target, writable=True)
        try:
            file.sync()
        finally:
            file.close()
