"""Keeping a broker small while it sends what is mapped.

Records go from mapped files to sockets. The kernel counts pages that were touched on the way as memory of
the process, and takes them back only when memory is short: a broker whose log is read from its start would
look as large as its log. So, after so many bytes, the pages of the mappings that were sent from are given
back. The bytes stay in the cache of the files; a read maps them again.
"""

from __future__ import annotations

import contextlib
import weakref

from tidelog.broker.wire.encoding import Pieces
from tidelog.storage import release_pages

__all__ = ["MappedPages"]

_MOST_BYTES = 4 << 20


class MappedPages:
    """What was sent from mappings since their pages were given back."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._sent_bytes = 0
        self._memories: dict[int, weakref.ref[object]] = {}

    def sending(self, pieces: Pieces) -> None:
        """A response is about to be sent: give back what was sent before it, if that is enough by now."""
        if self._sent_bytes >= self._most_bytes:
            self._sent_bytes = 0
            for memory in self._memories.values():
                release_pages(memory())
            self._memories.clear()
        for piece in pieces:
            if type(piece) is memoryview:
                self._sent_bytes += len(piece)
                with contextlib.suppress(TypeError):  # bytes, which nobody can refer to, are not mapped
                    self._memories[id(piece.obj)] = weakref.ref(piece.obj)
