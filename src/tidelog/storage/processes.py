"""Which process something belongs to, in a form that outlives it, and whether it is surely gone.

    <boot id> <pid namespace> <pid> <start>      all of Linux; elsewhere nothing is known of processes

A process id alone proves nothing: it is given again, and means another process on another machine or in
another container. So the id comes with the boot, the namespace and the process's start. What is not of this
boot and namespace, or cannot be read, is never said to be gone.
"""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["ancestors", "available_cpus", "identify", "is_gone", "owner"]

_BOOT = "/proc/sys/kernel/random/boot_id"
_DEAD = frozenset("ZXx")


class _Stat(NamedTuple):
    command: str
    state: str
    parent: int
    start: str


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            head, _, tail = file.read().rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    if len(fields) < 20:
        return None
    return _Stat(head.partition("(")[2], fields[0], int(fields[1]), fields[19])


def _here() -> str | None:
    """The boot and the pid namespace of this process."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def identify(pid: int) -> str:
    """A process of this machine, for `is_gone`; empty where the system does not tell."""
    here, found = _here(), _stat(pid)
    return "" if here is None or found is None else f"{here} {pid} {found.start}"


def owner() -> str:
    """The process that this one works for: the JVM that it is a worker of, else itself."""
    pid = os.getpid()
    while pid > 1 and (found := _stat(pid)) is not None:
        if found.command == "java":
            return identify(pid)
        pid = found.parent
    return identify(os.getpid())


def ancestors() -> set[int]:
    """This process, and those that started it, as far as the system tells."""
    found, pid = set(), os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        if (stat := _stat(pid)) is None:
            break
        pid = stat.parent
    return found


def available_cpus() -> int:
    """How many threads can run at once here."""
    return os.cpu_count() or 1


def is_gone(identity: str) -> bool:
    """Whether that process has surely ended."""
    where, _, rest = identity.rpartition(" ")[0].rpartition(" ")
    if not where or where != _here() or not rest.isascii() or not rest.isdigit():
        return False
    pid, start = int(rest), identity.rpartition(" ")[2]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it is there, and another user's
    found = _stat(pid)
    return found is not None and (found.start != start or found.state in _DEAD)
