"""How much room a disk has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["DiskSpace", "disk_space"]


class DiskSpace(NamedTuple):
    """Bytes of a file system."""

    total: int
    usable: int


def disk_space(path: StrPath) -> DiskSpace:
    """The size of the file system that holds a path, and what a user may still write."""
    found = os.statvfs(path)
    return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
