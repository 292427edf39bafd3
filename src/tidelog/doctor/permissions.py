"""Whether the user that the broker runs as may read and write its files.

That user is taken to be the owner of `meta.properties`, or of the root. Files that the broker may not read or
write stop the load of a log; a whole disk goes offline for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tidelog.doctor.findings import Finding, Kind, Severity
from tidelog.doctor.quarantine import QUARANTINE
from tidelog.storage import FileSystem
from tidelog.storage.attributes import Attributes, read_attributes, user_name
from tidelog.storage.names import META_PROPERTIES_FILE

__all__ = ["broker_user", "examine_permissions", "forbidden"]

_MANY = 100
"""Findings of one root; more of them say nothing new."""


def broker_user(fs: FileSystem, root: str) -> Attributes:
    """The file or directory whose owner the broker runs as."""
    meta = f"{root}/{META_PROPERTIES_FILE}"
    return read_attributes(fs, meta if fs.exists(meta) else root)


def forbidden(fs: FileSystem, root: str) -> Iterator[tuple[str, Attributes, bool]]:
    """What the broker may not read and write in a root: path, attributes, whether it is a directory."""
    user = broker_user(fs, root)
    if user.uid == 0:
        user = Attributes(0, -1, -1, 0)  # root may all, but is not who a broker should run as
    for path, is_directory in _walk(fs, root):
        found = read_attributes(fs, path)
        mine = Attributes(found.mode, user.uid, user.gid, 0) if user.uid < 0 else found
        if found.is_link or mine.allows(user.uid, user.gid, 7 if is_directory else 6):
            continue
        yield path, found, is_directory


def examine_permissions(fs: FileSystem, root: str) -> Iterator[Finding]:
    """What the broker's user may not do, and files of others."""
    user = broker_user(fs, root)
    if user.uid == 0:
        yield from _for_root_alone(fs, root)
    for path, found, is_directory in islice(forbidden(fs, root) if user.uid else (), _MANY):
        yield Finding(
            Severity.FATAL,
            Kind.PERMISSION,
            path,
            f"user {user_name(user.uid)} may not read and write it (mode {found.mode:04o}, owner "
            f"{user_name(found.uid)})",
            "it takes the whole disk offline, or does not start",
            f"tidelog fix gives the owner the right; or chmod u+rw{'x' if is_directory else ''}"
            if found.uid == user.uid
            else f"chown {user_name(user.uid)}",
        )
    others: dict[int, str] = {}
    for path, _ in _walk(fs, root):
        found = read_attributes(fs, path)
        if found.uid != user.uid and not found.is_link:
            others.setdefault(found.uid, path)
    for uid, path in others.items():
        yield Finding(
            Severity.WARNING,
            Kind.PERMISSION,
            path,
            f"it belongs to user {user_name(uid)}, but the broker's files to {user_name(user.uid)}",
            "it works as long as its user may write the file",
            f"chown -R {user_name(user.uid)} the root",
        )


def _for_root_alone(fs: FileSystem, root: str) -> Iterator[Finding]:
    """Files of root that only root may read and write: a broker that runs as root does."""
    found = [path for path, _, _ in forbidden(fs, root)]
    if found:
        yield Finding(
            Severity.WARNING,
            Kind.PERMISSION,
            found[0],
            f"the permissions of {len(found)} files and directories let only root read and write them",
            "it starts if it runs as root, as the owner of its files says; as any other user it does not",
            "run it as a user of its own, and give that one the files (chown -R); fix gives the owner "
            "the right",
        )


def _walk(fs: FileSystem, root: str) -> Iterator[tuple[str, bool]]:
    """The root, what is in it, and what is in its directories; unreadable ones are not entered.

    What a repair keeps in the root has the permissions that it had: no broker opens it.
    """
    yield root, True
    for entry in sorted(fs.list(root)):
        if entry.name.startswith(QUARANTINE):
            continue
        path = f"{root}/{entry.name}"
        yield path, entry.is_directory
        if not entry.is_directory or entry.is_link:
            continue
        try:
            inner = sorted(fs.list(path))
        except OSError:
            continue
        for each in inner:
            if not each.is_directory:
                yield f"{path}/{each.name}", False
