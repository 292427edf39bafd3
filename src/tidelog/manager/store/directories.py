"""Directories that go."""

from __future__ import annotations

from tidelog.storage import FileSystem
from tidelog.storage.files import parent

__all__ = ["remove_tree"]


def remove_tree(fs: FileSystem, path: str) -> None:
    """Remove a directory and all in it; nothing happens if it is gone already."""
    if not fs.exists(path):
        return
    for entry in fs.list(path):
        if entry.is_directory:
            remove_tree(fs, f"{path}/{entry.name}")
        else:
            fs.unlink(f"{path}/{entry.name}")
    fs.remove_directory(path)
    fs.sync_directory(parent(path))
