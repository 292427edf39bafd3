"""Reading a file in windows, safely while another process writes it.

If another process truncates a mapped file, touching the missing bytes kills the reader. So files that others
may write are read, window by window, into the reader's own memory, which is reused for the next window: one
window of memory, whatever the file's size, and no page faults after the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.storage.files import File, FileSystem

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["FileReader"]

_WINDOW_BYTES = 4 << 20  # stays in the processor's cache, and gives a record batch of the usual size


class FileReader:
    """An open file, to be read by one thread. It shows the file as long as it was when it was opened."""

    __slots__ = ("_buffer", "_file", "_state")

    def __init__(self, file: File) -> None:
        self._file = file
        self._state = file.state()
        self._buffer = memoryview(b"")

    @classmethod
    def open(cls, fs: FileSystem, path: StrPath) -> FileReader:
        """Open a file; it is closed when nobody holds the reader any more."""
        return cls(fs.open(path))

    @property
    def size(self) -> int:
        """The file's length when it was opened."""
        return self._state.size

    @property
    def changed_ns(self) -> int:
        """When the file had been changed last when it was opened."""
        return self._state.changed_ns

    @property
    def window_bytes(self) -> int:
        """How many bytes to ask for at a time when all of it is read."""
        return _WINDOW_BYTES

    def read(self, position: int, n: int) -> memoryview:
        """The `n` bytes from `position` on, fewer where the file ends. Good until the next read."""
        n = max(min(n, self.size - position), 0)
        if n > len(self._buffer):
            self._buffer = np.empty(n, np.uint8).data
        return self._buffer[: self._file.pread_into(self._buffer[:n], position)]

    def has_changed(self) -> bool:
        """Whether the file has been written, cut or renamed since it was opened."""
        return self._file.state() != self._state
