"""Directories copied from one file system to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.storage.files import FileSystem, read_file

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["copy_tree"]


def copy_tree(source: FileSystem, source_path: StrPath, target: FileSystem, target_path: StrPath) -> None:
    """Copy a directory and all in it, times included, into a new directory of another file system."""
    target.make_directory(target_path)
    for entry in sorted(source.list(source_path)):
        here, there = f"{source_path}/{entry.name}", f"{target_path}/{entry.name}"
        if entry.is_directory:
            copy_tree(source, here, target, there)
            continue
        file = target.open(there, create=True)
        try:
            file.pwrite(read_file(source, here), 0)
        finally:
            file.close()
        target.set_mtime(there, source.stat(here).mtime_ms)
