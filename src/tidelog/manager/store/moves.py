"""Moving a partition's log to another root while it is in use.

1. A log `<topic>-<partition>.<id>-future` is begun in the other root, where the source's log starts.
2. Batches are copied as they are, until the copy has nearly caught up, and flushed.
3. Appends wait from here on. What was truncated in the meantime is cut off the copy too; the rest is copied
   and flushed; the copy takes the live name.
4. The metadata says that the partition is in the other root: the move counts.
5. Appends continue, to the new log. The old one is renamed `-delete` and goes after a while.

A crash before 4 leaves the old log in place, after it the new one; the other is set aside as `-stray` at the
next opening (`directories`), or is a `-future` or `-delete` by name. A move that fails is undone. One that a
crash has cut short continues when it is asked for again: the copy is compared with the source, which may
have lost its end in the same crash, and only what is missing is copied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import (
    InvalidInputError,
    LogOfflineError,
    OffsetOutOfRangeError,
    TidelogError,
    UnexpectedAppendOffsetError,
)
from tidelog.layout.roots import Checkpoint, Root
from tidelog.log import FetchData, Log
from tidelog.manager.store.environment import Environment
from tidelog.manager.store.partition import Partition
from tidelog.storage import FileSystem
from tidelog.storage.names import DirectoryState, format_partition_directory, parse_partition_directory
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["move_log", "root_named", "unfinished_moves"]

_logger = logging.getLogger(__name__)

_CHUNK_BYTES = 8 << 20
_NEARLY = 1000
"""How many offsets may be left to copy while appends wait."""


def move_log(
    partition: Partition,
    target: Root,
    env: Environment,
    lock: AbstractContextManager[object],
    register: Callable[[], None],
    check: Callable[[], None],
) -> Log | None:
    """Move a partition. Returns its old log, which the caller deletes; None if the partition is in that root
    already.

    `lock` is held while topics change: the switch is such a change. It is taken before the partition's gate,
    as everybody takes them. `check` raises once the store is closed, which waits for this move to give up.
    """
    check()
    if partition.root is target:
        return None
    twin = target.file(str(partition.topic_partition))
    if env.fs.exists(twin):
        raise InvalidInputError(f"{twin} exists already: set it aside with `tidelog tidy {target.path}`")
    target.forget([partition.topic_partition])
    source = partition.log
    truncations = source.truncations
    future = _resumed(partition, source, target, env) or _begun(partition, source, target, env)
    try:
        env.fs.sync_directory(target.path)
        while True:
            try:
                copied = _copy(source, future, check)
            except (UnexpectedAppendOffsetError, OffsetOutOfRangeError):
                if source.truncations == truncations:
                    raise
                break  # the source was truncated, and may have grown anew
            future.flush()
            if source.log_end_offset - copied <= _NEARLY:
                break
        with lock, partition.gate:  # steps 3 to 5
            if source.truncations != truncations:
                _cut_to_common(source, future)
            _copy(source, future, check)
            future = _ended(source, future, env)
            _switch(partition, target, future, register)
    except BaseException:
        future.close_handlers()
        remove_tree(env.fs, future.path)
        raise
    return source


def root_named(roots: Sequence[Root], path: StrPath) -> Root:
    """The root with this path, to move to; InvalidInputError if there is none, or it is offline."""
    wanted = str(Path(path).absolute())
    for root in roots:
        if root.path == wanted:
            if root.offline is not None:
                raise InvalidInputError(f"root {wanted} is offline: {root.offline}")
            return root
    raise InvalidInputError(f"{wanted} is not a root of this store: {[root.path for root in roots]}")


def unfinished_moves(fs: FileSystem, root: str) -> Iterator[tuple[TopicPartition, str]]:
    """The unfinished copies in a root: partition and directory. Links are ignored."""
    for entry in sorted(fs.list(root)):
        if entry.is_link or not (entry.is_directory and entry.name.endswith(DirectoryState.FUTURE.value)):
            continue
        with suppress(InvalidInputError):
            yield parse_partition_directory(entry.name).topic_partition, f"{root}/{entry.name}"


def _begun(partition: Partition, source: Log, target: Root, env: Environment) -> Log:
    """A new copy, empty."""
    name = format_partition_directory(partition.topic_partition, DirectoryState.FUTURE)
    return env.open_log(target.file(name), source.config, topic_id=partition.topic_id)


def _resumed(partition: Partition, source: Log, target: Root, env: Environment) -> Log | None:
    """The copy that an earlier move to this root has left, as far as it is one; others are removed."""
    found = None
    for owner, path in list(unfinished_moves(env.fs, target.path)):
        if owner != partition.topic_partition:
            continue
        if found is None:
            try:
                found = env.open_log(path, source.config, topic_id=partition.topic_id)
                continue
            except TidelogError as error:
                _logger.warning("%s cannot be used: %s", path, error)
        remove_tree(env.fs, path)
    if found is not None:
        try:
            _cut_to_common(source, found)
        except BaseException:
            found.close_handlers()
            raise
        _logger.info("%s: going on at offset %d", found.path, found.log_end_offset)
    return found


def _cut_to_common(source: Log, future: Log) -> None:
    """Truncate a copy where it differs from the source."""
    if future.log_start_offset > source.log_start_offset:  # its first segments are missing
        _begin(source, future)
        return
    future.truncate_to(source.log_end_offset)
    at = start = max(source.log_start_offset, future.log_start_offset)
    if at >= future.log_end_offset:  # nothing can be compared, and the source's first batch may begin below
        _begin(source, future)
        return
    while at < future.log_end_offset:
        common = _common_end(source.read(at, _CHUNK_BYTES), future.read(at, _CHUNK_BYTES))
        if common is None and at == start:  # which may lie inside of a batch
            _begin(source, future)
            return
        if common is None:
            future.truncate_to(at)
            return
        at = common


def _common_end(source: FetchData, copy: FetchData) -> int | None:
    """The next offset after the batches that both begin with; None if the first ones differ."""
    size = min(len(source.data), len(copy.data))
    mine, other = (np.frombuffer(one.data, np.uint8, size) for one in (source, copy))
    same = size if np.array_equal(mine, other) else int((mine != other).argmax())
    batches = copy.batches()
    whole = int(np.searchsorted(batches.position + batches.size, same, side="right"))
    return int(batches.last_offset[whole - 1]) + 1 if whole else None


def _copy(source: Log, future: Log, check: Callable[[], object]) -> int:
    """Copy up to where the source ends now; that end.

    The copy may end before it: the source's last offsets were lost in a crash then.
    """
    check()
    if future.log_end_offset < source.log_start_offset:
        _begin(source, future)
    end = source.log_end_offset
    chunk = min(_CHUNK_BYTES, source.config.max_segment_bytes)
    while (at := future.log_end_offset) < end:
        future.append_as_follower(source.read(max(at, source.log_start_offset), chunk).data)
        check()
        if future.log_end_offset == at:
            break
    return end


def _ended(source: Log, future: Log, env: Environment) -> Log:
    """The copy, ending where the source does, which may be after its last record.

    A log ends after its last record only by beginning a segment there, and is opened so.
    """
    end = source.log_end_offset
    if future.log_end_offset == end:
        return future
    future.roll(end)
    future.close()
    return env.open_log(
        future.path,
        source.config,
        clean=True,
        log_start_offset=future.log_start_offset,
        recovery_point=end,
    )


def _begin(source: Log, future: Log) -> None:
    """Begin with the batch that holds the source's first offset, which may lie inside of it.

    The copy's log start follows when it is complete.
    """
    start = source.log_start_offset
    if start < source.log_end_offset:
        start = min(source.read(start, 1).start.message_offset, start)
    future.truncate_fully_and_start_at(start)


def _switch(partition: Partition, target: Root, future: Log, register: Callable[[], None]) -> None:
    """Put the copy in the log's place; with the partition's gate held."""
    source, root = partition.log, partition.root
    if root is None:
        raise LogOfflineError(f"{partition.topic_partition} is in no root")
    future.update_high_watermark(future.log_end_offset)
    future.maybe_increment_log_start_offset(source.log_start_offset)
    future.flush()
    future.rename(str(partition.topic_partition))
    partition.attach(future, target)
    try:
        # The new root knows the log start before the move counts: no deleted record comes back.
        target.add_to_checkpoint(Checkpoint.LOG_STARTS, {partition.topic_partition: future.log_start_offset})
        register()
    except BaseException:
        partition.attach(source, root)
        raise
