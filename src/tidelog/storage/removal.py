"""Removing a directory with everything in it, and nothing else.

Symbolic links are removed, never followed, also where the directory itself is one. On this machine every name
is looked up in a directory that is held open and was opened without following a link: whoever puts a link in
a directory's place in the meantime gains nothing. A directory of another file system is refused.

1. What lies in the directory and is no directory itself is unlinked.
2. The inner directories of an inner directory are moved up beside it, so that it can be removed. That is
   repeated until none is left: two descriptors are enough for any depth.
3. The directory is removed, and its parent synced.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from contextlib import suppress

from tidelog.storage.files import FileSystem, parent
from tidelog.storage.local import LocalFileSystem

__all__ = ["remove_tree"]

_TRIES = 10
_CHANGED = {errno.ENOENT, errno.ENOTEMPTY}
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(fs: FileSystem, path: str, *, sync: bool = True) -> None:
    """Remove a directory and all in it; nothing happens if it is gone already. A link goes by itself.

    Without `sync`, whoever needs it to be gone for good syncs its parent.
    """
    if fs.is_link(path):
        fs.unlink(path)
    elif not fs.exists(path):
        return
    elif isinstance(fs, LocalFileSystem):
        _remove_local(path)
    else:
        _remove(fs, path)
    if sync:
        fs.sync_directory(parent(path))


def _remove(fs: FileSystem, path: str) -> None:
    for entry in fs.list(path):
        inner = f"{path}/{entry.name}"
        if entry.is_directory and not entry.is_link:
            _remove(fs, inner)
        else:
            fs.unlink(inner)
    fs.remove_directory(path)


def _remove_local(path: str) -> None:
    """Others may remove it at the same time, or rename what is in it: then it is looked at again."""
    for tries_left in reversed(range(_TRIES)):
        try:
            _empty(path)
            os.rmdir(path)
        except OSError as error:
            if error.errno not in _CHANGED or not tries_left:
                raise
        if not os.path.lexists(path):
            return


def _empty(path: str) -> None:
    top = os.open(path, _OPEN_DIRECTORY)
    try:
        device = os.fstat(top).st_dev
        while inner := _unlink_files(top):
            for name in inner:
                _move_up(top, name, device, path)
    finally:
        os.close(top)


def _move_up(top: int, name: str, device: int, path: str) -> None:
    """Empty the directory `name` in `top`, into which its own directories go, and remove it."""
    descriptor = os.open(name, _OPEN_DIRECTORY, dir_fd=top)
    try:
        if os.fstat(descriptor).st_dev != device:
            raise OSError(errno.EXDEV, "it lies on another file system, and is not removed", f"{path}/{name}")
        for inner in _unlink_files(descriptor):
            os.rename(inner, f".{uuid.uuid4().hex}", src_dir_fd=descriptor, dst_dir_fd=top)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=top)


def _unlink_files(directory: int) -> list[str]:
    """Unlink what is no directory; the names of those that are."""
    inner = []
    for name in os.listdir(directory):
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
                inner.append(name)
            else:
                os.unlink(name, dir_fd=directory)
    return inner
