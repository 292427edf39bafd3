"""Permissions, owner and times of files: a rename keeps them, a copy has to set them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from tidelog.storage.files import FileSystem
from tidelog.storage.local import LocalFileSystem

__all__ = ["Attributes", "read_attributes", "restore_attributes", "user_name"]


@dataclass(frozen=True, slots=True)
class Attributes:
    """Of a file or directory; links are looked at themselves."""

    mode: int
    """The permission bits."""
    uid: int
    gid: int
    mtime_ns: int
    device: int = 0
    is_link: bool = False

    def allows(self, uid: int, gid: int, bits: int) -> bool:
        """Whether a user may read (4), write (2) and enter (1), by the permission bits alone."""
        if uid == 0:
            return True
        shift = 6 if uid == self.uid else 3 if gid == self.gid else 0
        return (self.mode >> shift) & bits == bits


def read_attributes(fs: FileSystem, path: str) -> Attributes:
    """What a file has; on a file system without users, all is allowed."""
    if not isinstance(fs, LocalFileSystem):
        return Attributes(0o777, 0, 0, fs.stat(path).mtime_ms * 1_000_000)
    found = os.lstat(path)
    return Attributes(
        stat.S_IMODE(found.st_mode),
        found.st_uid,
        found.st_gid,
        found.st_mtime_ns,
        found.st_dev,
        stat.S_ISLNK(found.st_mode),
    )


def restore_attributes(fs: FileSystem, path: str, wanted: Attributes) -> None:
    """Give a file the permissions, owner and time of last modification that it had.

    A link gets its own time and owner; what it leads to stays as it is. Bits that let a program run as
    another user are never added: `wanted` may come from a file that anybody has written.
    """
    if not isinstance(fs, LocalFileSystem):
        fs.set_mtime(path, wanted.mtime_ns // 1_000_000)
        return
    found = os.lstat(path)
    if (found.st_uid, found.st_gid) != (wanted.uid, wanted.gid):
        os.chown(path, wanted.uid, wanted.gid, follow_symlinks=False)
    mode = wanted.mode & 0o777 | stat.S_IMODE(found.st_mode) & ~0o777
    if stat.S_IMODE(found.st_mode) != mode and not stat.S_ISLNK(found.st_mode):
        os.chmod(path, mode)
    os.utime(path, ns=(found.st_atime_ns, wanted.mtime_ns), follow_symlinks=False)


def user_name(uid: int) -> str:
    """A user for people."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
