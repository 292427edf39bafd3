"""Stretches of many files, read into one buffer.

Where thousands of files have a few bytes to read each, an object and a buffer for every one of them would
cost more than the bytes do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Stretch", "read_stretches"]

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Stretch(NamedTuple):
    """`size` bytes of a file, from `position` on."""

    path: str
    position: int
    size: int


def read_stretches(wanted: Iterable[Stretch]) -> list[bytes]:
    """The bytes of each, fewer where a file ends; none where it cannot be read, whatever the reason is."""
    found = []
    for path, position, size in wanted:
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError:
            found.append(b"")
            continue
        try:
            found.append(os.pread(descriptor, size, position))
        except OSError:  # a directory, a FIFO, a disk that fails
            found.append(b"")
        finally:
            os.close(descriptor)
    return found
