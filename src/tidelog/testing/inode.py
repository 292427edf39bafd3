"""A file or directory of the file system in memory (`crash`), as the running system sees it."""

from __future__ import annotations

import mmap

from tidelog.testing.journal import Node

__all__ = ["Inode"]

_LEAST_CAPACITY = 16 << 20  # address space, not memory: an index of the default size grows in place
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


class Inode:
    """A file or directory as the running system sees it."""

    __slots__ = (
        "__weakref__",
        "_memory",
        "_outgrown",
        "_viewed",
        "hole",
        "is_directory",
        "known",
        "mappings",
        "mtime_ms",
        "names",
        "number",
        "size",
    )

    def __init__(self, number: int, node: Node) -> None:
        self.number = number
        self.is_directory = node.is_directory
        self.names: dict[str, Inode] = {}
        self.mtime_ms = node.mtime_ms
        self.size = len(node.data)
        self._memory: mmap.mmap | bytes = node.data
        self._outgrown: list[mmap.mmap] = []
        self._viewed = False
        self.mappings = 0
        self.hole = self.size
        """Where the bytes begin that the disk has not promised room for."""
        self.known = b""
        """What the journal knows of the mapped bytes; meaningless without a mapping."""

    def memory(self, size: int = 0) -> mmap.mmap:
        """At least `size` bytes of the file in one piece, with zeros behind its end."""
        memory = self._memory
        if isinstance(memory, mmap.mmap) and size <= len(memory):
            return memory
        if self.mappings:
            raise RuntimeError("the simulator cannot move a file that is mapped; grow it before it is mapped")
        grown = mmap.mmap(-1, max(_LEAST_CAPACITY, 2 * max(size, self.size)), _FLAGS)
        grown[: self.size] = memory[: self.size]
        if isinstance(memory, mmap.mmap):
            self._outgrown.append(memory)
        self._memory = grown
        return grown

    def view(self, size: int) -> memoryview:
        """At least `size` bytes of it for reading; whoever holds them keeps what a truncation cuts off."""
        self._viewed = True
        return memoryview(self.memory(size)).toreadonly()

    def put(self, position: int, data: bytes) -> None:
        """Replace bytes, in pieces of memory that the file has outgrown too: somebody may look at them."""
        self.memory(position + len(data))[position : position + len(data)] = data
        for piece in self._outgrown:
            part = data[: max(len(piece) - position, 0)]
            piece[position : position + len(part)] = part

    def cut(self, size: int) -> None:
        """Lose the bytes from `size` on.

        Readers keep their memory as it is, and the file goes on in another piece. Only where the file is
        mapped for writing, too, it cannot move: readers see zeros then.
        """
        if self._viewed and not self.mappings:
            self._memory = self.content(0, size)
            self._outgrown = []
            self._viewed = False
        else:
            self.put(size, bytes(self.size - size))
        self.hole = min(self.hole, size)

    def promise(self, start: int, end: int) -> None:
        """The disk has room for these bytes."""
        if start <= self.hole < end:
            self.hole = end

    def content(self, start: int = 0, end: int | None = None) -> bytes:
        """A copy of its bytes."""
        return self._memory[start : self.size if end is None else min(end, self.size)]
