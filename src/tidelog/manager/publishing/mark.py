"""The mark of a staging directory: that a writer made it, and for which root. Nothing without it is removed.

    <staging>/<write>/tidelog-staging
        1                              version
        dGhpcyBpcyBub3QgYSByb290       the id of the root's directory, or - while nothing is being published
    <staging>/<write>/tidelog-owner    the process that the write is of (`storage.processes`), if it is known

It is written when the directory is made, and again, durably, before the journal names the directory. So a
path in a journal proves nothing by itself: a journal that was copied, forged or damaged cannot have a
directory deleted that was not made for this root.
"""

from __future__ import annotations

import uuid

from tidelog.errors import InvalidIndexError, LogError
from tidelog.storage import FileSystem, make_directories, read_file
from tidelog.storage.metadata import format_id
from tidelog.storage.processes import is_gone
from tidelog.storage.removal import remove_tree

__all__ = [
    "MARKS",
    "MARK_FILE",
    "begin_staging",
    "check_ours",
    "claim",
    "discard_staging",
    "has_lost_owner",
    "is_just_begun",
    "is_ours",
    "remove_staged",
]

MARK_FILE = "tidelog-staging"
OWNER_FILE = "tidelog-owner"
MARKS = frozenset({MARK_FILE, OWNER_FILE})

_VERSION = b"1\n"
_NOBODY = "-"
_LIMIT = 200
_OVER = ".over"


def begin_staging(fs: FileSystem, directory: str, owner: str = "") -> None:
    """Make the directory of a write, with its mark, before anything is staged.

    `owner` is the process without which the write will not be published (`storage.processes`).
    """
    make_directories(fs, directory)
    if owner and not fs.exists(f"{directory}/{OWNER_FILE}"):
        _write_file(fs, f"{directory}/{OWNER_FILE}", f"{owner}\n".encode(), sync=False)
    if not fs.exists(f"{directory}/{MARK_FILE}"):
        _write(fs, directory, _NOBODY, sync=False)


def has_lost_owner(fs: FileSystem, directory: str) -> bool:
    """Whether the process that a write is of is gone for sure: nobody will publish it."""
    path = f"{directory}/{OWNER_FILE}"
    if fs.is_link(path) or not fs.exists(path):
        return False
    try:
        identity = read_file(fs, path, limit=_LIMIT).decode("ascii")
    except (OSError, InvalidIndexError, UnicodeDecodeError):
        return False
    return identity.endswith("\n") and is_gone(identity[:-1])


def claim(fs: FileSystem, directory: str, root: uuid.UUID) -> None:
    """Mark a directory as the root's, durably: its journal is about to name it."""
    if _marked(fs, directory) != format_id(root):
        _write(fs, directory, format_id(root), sync=True)


def is_ours(fs: FileSystem, directory: str, root: uuid.UUID | None = None) -> bool:
    """Whether a writer made this directory: for nobody yet, or for this root, where one is given."""
    mark = _marked(fs, directory)
    return mark == _NOBODY or (mark is not None and root is not None and mark == format_id(root))


def is_just_begun(fs: FileSystem, directory: str) -> bool:
    """Whether a directory has nothing that was staged and no mark yet: as a writer leaves it that is killed
    in `begin_staging`.
    """
    if fs.is_link(directory):
        return False
    names = {entry.name for entry in fs.list(directory)}
    mark = f"{directory}/{MARK_FILE}"
    return names <= MARKS and (MARK_FILE not in names or (not fs.is_link(mark) and not fs.stat(mark).size))


def check_ours(fs: FileSystem, directory: str, root: uuid.UUID, journal: str) -> None:
    """LogError unless the directory is this root's, or is gone."""
    if "\0" in directory or fs.is_link(directory):
        fault = "is a symbolic link"
    elif not fs.exists(directory) or _marked(fs, directory) == format_id(root):
        return
    else:
        fault = f"has no file {MARK_FILE} that says that it was made for this root"
    raise LogError(
        f"{journal} says that a write was cut short whose data is staged in {directory}, but that {fault}; "
        "nothing was changed. If the journal is another root's or damaged, remove it: what the partitions "
        "hold stays as it is"
    )


def remove_staged(fs: FileSystem, staging: str, root: uuid.UUID) -> None:
    """Remove a write's staged files, also while an attempt that nobody waits for continues staging.

    Under another name it finds nothing to write to, and cannot be in the way. What is not ours stays.
    """
    over = f"{staging}{_OVER}"
    if is_ours(fs, over, root):
        discard_staging(fs, over)
    if is_ours(fs, staging, root):
        fs.rename(staging, over)
        discard_staging(fs, over)


def discard_staging(fs: FileSystem, directory: str) -> None:
    """Remove a staging directory; nothing happens if it is gone.

    The mark and the owner go last: of what a crash leaves it can still be told that a writer has made it, and
    that nobody wants it.
    """
    if not fs.exists(directory):
        return
    for entry in fs.list(directory):
        path = f"{directory}/{entry.name}"
        if entry.is_directory and not entry.is_link:
            remove_tree(fs, path, sync=False)
        elif entry.name not in MARKS:
            fs.unlink(path)
    fs.sync_directory(directory)
    remove_tree(fs, directory)


def _marked(fs: FileSystem, directory: str) -> str | None:
    """For whom a directory was made; None if it has no mark that can be read, or is a link."""
    path = f"{directory}/{MARK_FILE}"
    if fs.is_link(directory) or fs.is_link(path):
        return None
    try:
        data = read_file(fs, path, limit=_LIMIT)
    except (OSError, InvalidIndexError):
        return None
    if not data.startswith(_VERSION) or not data.endswith(b"\n"):
        return None
    return data[len(_VERSION) : -1].decode("ascii", "replace")


def _write(fs: FileSystem, directory: str, root: str, *, sync: bool) -> None:
    _write_file(fs, f"{directory}/{MARK_FILE}", _VERSION + f"{root}\n".encode(), sync=sync)
    if sync:
        fs.sync_directory(directory)


def _write_file(fs: FileSystem, path: str, data: bytes, *, sync: bool) -> None:
    file = fs.open(path, create=True)
    try:
        file.pwrite(data, 0)
        file.truncate(len(data))
        if sync:
            file.sync()
    finally:
        file.close()
