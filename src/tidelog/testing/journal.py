"""What a power cut can leave of a history of file-system calls.

A history is a list of operations on inodes (numbers); directories are inodes too. `survivors` rebuilds the
disk after a cut behind any of them, from a seed. What it may do, and nothing else:

Bytes of a file. What the file held at its last sync is there. Of the operations since then:
1. the disk has come to the newest truncation that made the file shorter, to an earlier one, or to none
   (a truncation never mixes blocks from before and after it);
2. from there on each 512-byte sector is old or new by itself; or the operations came in order and the last
   one is torn at any byte; or all of them, or none, arrived;
3. the length is any length that the file had in that time, whatever became of the bytes: blocks that were
   given to the file for a write that did not arrive hold zeros, garbage, or what another file once had there;
   what was never written reads as zeros.

A sync that fails (`FailedSync`) drops what it was to write, as Linux does: each page of it is on the disk or
lost, and counts as written from then on. The next sync brings a lost page only if it was written to again.

Names. An operation is there if its directory (for a move, one of the two) was synced later. Of the others:
1. those in order up to any point, over all directories together (a journal) or for each one by itself; or
2. any of them, except that operations on one name or one inode keep their order, and a directory is removed
   only after its contents. A rename happens wholly or not at all.
A file whose name is not there is lost, synced or not.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = [
    "SECTOR",
    "Disk",
    "FailedSync",
    "Node",
    "Operation",
    "Rename",
    "SetName",
    "Sync",
    "SyncNames",
    "Touch",
    "Truncate",
    "UnsetName",
    "Write",
    "survivors",
]

SECTOR = 512
PAGE = 4096
ROOT = 0
"""The inode of the topmost directory."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes written to a file, by call or through a mapping."""

    inode: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file's length set."""

    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Touch:
    """A file's modification time set."""

    inode: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class Sync:
    """All bytes of a file, and its length, brought to the disk."""

    inode: int


@dataclass(frozen=True, slots=True)
class FailedSync:
    """A sync that failed: the system forgets that there is something to write."""

    inode: int


@dataclass(frozen=True, slots=True)
class SetName:
    """A name made, by creation or as a further link."""

    directory: int
    name: str
    inode: int
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class UnsetName:
    """A name taken away."""

    directory: int
    name: str
    inode: int
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class Rename:
    """A name moved, over another one perhaps."""

    directory: int
    name: str
    to_directory: int
    to_name: str
    inode: int


@dataclass(frozen=True, slots=True)
class SyncNames:
    """All names of a directory brought to the disk."""

    directory: int


DataOperation = Write | Truncate | Touch | Sync | FailedSync
NameOperation = SetName | UnsetName | Rename
Operation = DataOperation | NameOperation | SyncNames


@dataclass(slots=True)
class Node:
    """A file's bytes and time, or a directory's names."""

    is_directory: bool = False
    data: bytes = b""
    mtime_ms: int = 0
    names: dict[str, int] = field(default_factory=dict)


Disk = dict[int, Node]
"""Inodes by number. Without history they are on the disk."""


def survivors(
    before: Disk, history: Sequence[Operation], seed: int | str, *, kept: str = "some", stale: bool = True
) -> Disk:
    """A disk that a power cut after `history` may leave, `before` having been safe.

    `kept` is "some" (by the seed), "synced" (nothing that was not synced: the most that can be lost) or "all"
    (what a killed process leaves: the system continues and writes everything; what it holds of pages that a
    failed sync has dropped is still seen). Without `stale`, new blocks hold zeros where a write is missing.
    """
    dice = random.Random(f"tidelog crash {seed}")
    # A disk that is synced at once, or not at all, is as likely as each of the odd ones.
    mode = dice.choice(("some", "some", "some", "some", "synced", "all")) if kept == "some" else kept
    disk = {
        number: Node(True, names=dict(node.names)) for number, node in before.items() if node.is_directory
    }
    disk.setdefault(ROOT, Node(True))
    _apply_names(disk, _surviving_names(history, dice, mode))
    by_file: dict[int, list[DataOperation]] = {}
    writes: list[bytes] = []
    for operation in history:
        if isinstance(operation, DataOperation):
            by_file.setdefault(operation.inode, []).append(operation)
            if stale and isinstance(operation, Write):
                writes.append(operation.data)
    reached: Disk = {}
    _collect(disk, ROOT, reached)
    for number in sorted(_files(reached)):
        old = before.get(number, Node())
        reached[number] = _surviving_bytes(old, by_file.get(number, ()), dice, mode, writes)
    return reached


def _files(reached: Disk) -> Iterable[int]:
    return {child for node in reached.values() for child in node.names.values() if child not in reached}


def _collect(disk: Disk, number: int, reached: Disk) -> None:
    """The directories that can be reached from `number`; files are told by their names."""
    node = reached[number] = disk[number]
    for child in node.names.values():
        if child in disk and child not in reached:
            _collect(disk, child, reached)


# ---- names


def _surviving_names(history: Sequence[Operation], dice: random.Random, mode: str) -> list[NameOperation]:
    operations: list[NameOperation] = []
    durable: list[bool] = []
    pending: dict[int, list[int]] = {}
    for operation in history:
        if isinstance(operation, SyncNames):
            for index in pending.pop(operation.directory, ()):
                durable[index] = True
        elif isinstance(operation, NameOperation):
            for directory in _directories(operation):
                pending.setdefault(directory, []).append(len(operations))
            operations.append(operation)
            durable.append(False)
    if mode == "all":
        return operations
    if mode == "some":
        _let_names_survive(operations, durable, dice)
    return _with_causes(operations, durable)


def _directories(operation: NameOperation) -> set[int]:
    if isinstance(operation, Rename):
        return {operation.directory, operation.to_directory}
    return {operation.directory}


def _let_names_survive(operations: Sequence[NameOperation], durable: list[bool], dice: random.Random) -> None:
    """Mark more operations as durable, in one of the ways a file system may."""
    waiting = [index for index, done in enumerate(durable) if not done]
    match dice.choice(("journal", "directories", "any")):
        case "journal":
            for index in waiting[: dice.randint(0, len(waiting))]:
                durable[index] = True
        case "directories":
            for directory in sorted({d for index in waiting for d in _directories(operations[index])}):
                here = [index for index in waiting if directory in _directories(operations[index])]
                for index in here[: dice.randint(0, len(here))]:
                    durable[index] = True
        case "any":
            share = dice.choice((0.1, 0.5, 0.9))
            for index in waiting:
                durable[index] = dice.random() < share


def _with_causes(operations: Sequence[NameOperation], durable: Sequence[bool]) -> list[NameOperation]:
    """The durable operations, and those before them that they cannot be without."""
    needed: set[object] = set()
    kept = []
    for operation, done in zip(reversed(operations), reversed(durable), strict=True):
        keys = _keys(operation)
        inside = {("inside", directory) for directory in _directories(operation)}
        if done or not needed.isdisjoint(keys | inside):
            kept.append(operation)
            needed |= keys
            if isinstance(operation, UnsetName) and operation.is_directory:
                needed.add(("inside", operation.inode))
    return kept[::-1]


def _keys(operation: NameOperation) -> set[object]:
    keys: set[object] = {operation.inode, (operation.directory, operation.name)}
    if isinstance(operation, Rename):
        keys.add((operation.to_directory, operation.to_name))
    return keys


def _apply_names(disk: Disk, operations: Iterable[NameOperation]) -> None:
    for operation in operations:
        match operation:
            case SetName(directory, name, inode, is_directory):
                if is_directory:
                    disk[inode] = Node(True)
                disk.setdefault(directory, Node(True)).names[name] = inode
            case UnsetName(directory, name):
                disk.setdefault(directory, Node(True)).names.pop(name, None)
            case Rename(directory, name, to_directory, to_name, inode):
                disk.setdefault(directory, Node(True)).names.pop(name, None)
                disk.setdefault(to_directory, Node(True)).names[to_name] = inode


# ---- bytes


def _surviving_bytes(
    old: Node, operations: Sequence[DataOperation], dice: random.Random, mode: str, writes: Sequence[bytes]
) -> Node:
    mtime_ms = old.mtime_ms
    for operation in operations:
        if isinstance(operation, Touch):
            mtime_ms = operation.mtime_ms
    if any(isinstance(operation, FailedSync) for operation in operations) and mode != "all":
        data, pending = _after_failures(old.data, operations, dice, mode)
    else:
        last_sync = max((index for index, op in enumerate(operations) if isinstance(op, Sync)), default=-1)
        data = bytearray(old.data)
        for operation in operations[: last_sync + 1]:
            _apply(data, operation)
        pending = [op for op in operations[last_sync + 1 :] if isinstance(op, Write | Truncate)]
    if mode == "some" and pending:
        data = _some_bytes(data, pending, dice, writes)
    elif mode == "all":
        for operation in pending:
            _apply(data, operation)
    return Node(data=bytes(data), mtime_ms=mtime_ms)


def _after_failures(
    old: bytes, operations: Sequence[DataOperation], dice: random.Random, mode: str
) -> tuple[bytearray, list[Write | Truncate]]:
    """What is on the disk for sure where syncs have failed, and the operations since the last sync."""
    disk, cache = bytearray(old), bytearray(old)
    pending: list[Write | Truncate] = []
    lost: set[int] = set()
    for operation in operations:
        if isinstance(operation, Write | Truncate):
            _apply(cache, operation)
            pending.append(operation)
        elif isinstance(operation, Sync | FailedSync):
            dirty = _pages(pending)
            lost -= dirty
            if isinstance(operation, FailedSync):
                lost |= {page for page in sorted(dirty) if mode == "synced" or dice.random() < 0.7}
            disk = _without_pages(cache, disk, lost)
            pending = []
    return disk, pending


def _pages(operations: Iterable[Write | Truncate]) -> set[int]:
    found: set[int] = set()
    for operation in operations:
        if isinstance(operation, Write):
            end = operation.position + len(operation.data)
            found.update(range(operation.position // PAGE, -(-end // PAGE)))
        else:
            found.add(operation.size // PAGE)
    return found


def _without_pages(cache: bytearray, disk: bytearray, lost: Iterable[int]) -> bytearray:
    """What the cache has, but for pages that are as the disk had them."""
    found = bytearray(cache)
    for page in lost:
        start, end = page * PAGE, min(page * PAGE + PAGE, len(found))
        if start < end:
            found[start:end] = disk[start:end].ljust(end - start, b"\0")
    return found


def _some_bytes(
    data: bytearray, pending: Sequence[Write | Truncate], dice: random.Random, writes: Sequence[bytes]
) -> bytearray:
    style = dice.choice(("sectors", "sectors", "in order", "all", "none"))
    if style == "none":
        return data
    if style == "all":
        count = len(pending)
    else:
        count = dice.randint(0, len(pending))
    if style != "sectors":
        for operation in pending[:count]:
            _apply(data, operation)
        if count < len(pending) and isinstance(torn := pending[count], Write) and style == "in order":
            part = torn.data[: dice.randint(0, len(torn.data))]
            _apply(data, Write(torn.inode, torn.position, part))
        return data
    barriers = _shrinks(len(data), pending)
    first = dice.choice([0, *barriers])
    for operation in pending[:first]:
        _apply(data, operation)
    end = bisect_right(barriers, first)
    last = barriers[end] - 1 if end < len(barriers) else len(pending)
    return _mixed(data, pending[first:last], dice, writes)


def _shrinks(size: int, pending: Sequence[Write | Truncate]) -> list[int]:
    """How many operations there are up to and with each one that makes the file shorter."""
    found = []
    for index, operation in enumerate(pending):
        if isinstance(operation, Truncate):
            if operation.size < size:
                found.append(index + 1)
            size = operation.size
        else:
            size = max(size, operation.position + len(operation.data))
    return found


def _mixed(
    old: bytearray, operations: Sequence[Write | Truncate], dice: random.Random, writes: Sequence[bytes]
) -> bytearray:
    """Each sector old or new, or stale where it is in a new block; a length on the way from old to new."""
    new, lengths = bytearray(old), [len(old)]
    for operation in operations:
        _apply(new, operation)
        lengths.append(len(new))
    size = dice.choice((lengths[-1], dice.choice(lengths)))
    share = dice.choice((0.1, 0.5, 0.9))
    blocks = dice.choice(("zeros", "zeros", "garbage", "stale")) if writes else "zeros"
    mixed = old[:size].ljust(size, b"\0")
    for start in range(0, size, SECTOR):
        end = min(start + SECTOR, size)
        if new[start:end] == mixed[start:end]:
            continue
        if dice.random() < share:
            mixed[start:end] = new[start:end]
        elif start >= len(old) and blocks != "zeros":
            mixed[start:end] = _stale(end - start, blocks, dice, writes)
    return mixed


def _stale(size: int, blocks: str, dice: random.Random, writes: Sequence[bytes]) -> bytes:
    """What a block may hold that was given to a file and not written to."""
    if blocks == "garbage":
        return dice.randbytes(size)
    earlier = dice.choice(writes)
    return earlier[dice.randint(1, max(len(earlier) // 2, 1)) :][:size].ljust(size, b"\0")


def _apply(data: bytearray, operation: DataOperation) -> None:
    match operation:
        case Write(_, position, new):
            if new and position > len(data):
                data.extend(bytes(position - len(data)))
            data[position : position + len(new)] = new
        case Truncate(_, size):
            del data[size:]
            data.extend(bytes(size - len(data)))
