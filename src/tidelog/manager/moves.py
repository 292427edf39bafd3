"""Moving a partition's log to another root while it is used.

1. A log `<topic>-<partition>.<id>-future` is begun in the other root, where the source's log starts.
2. Batches are copied as they are, until the copy has nearly caught up, and flushed.
3. Appends wait from here on. The rest is copied and flushed; the copy takes the live name.
4. The metadata says that the partition is in the other root: the move counts.
5. Appends go on, to the new log. The old one is renamed `-delete` and goes after a while.

A crash before 4 leaves the old log in place, after it the new one; the other is set aside as `-stray` at the
next opening (`survey`), or is a `-future` or `-delete` by name. A move that fails is undone.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import LogOfflineError
from tidelog.log import Log
from tidelog.manager.directories import remove_tree
from tidelog.manager.opening import Environment
from tidelog.manager.partition import Partition
from tidelog.manager.root import Root
from tidelog.storage.names import DirectoryState, format_partition_directory, parse_partition_directory

__all__ = ["move_log"]

_CHUNK_BYTES = 8 << 20
_NEARLY = 1000
"""How many offsets may be left to copy while appends wait."""


def move_log(
    partition: Partition, target: Root, env: Environment, register: Callable[[], None]
) -> Log | None:
    """Move a partition; its old log, which is for the caller to delete. None if it is there already."""
    if partition.root is target:
        return None
    _discard_unfinished(partition, target, env)
    source = partition.log
    name = format_partition_directory(partition.topic_partition, DirectoryState.FUTURE)
    future = env.open_log(target.file(name), source.config, topic_id=partition.topic_id)
    try:
        env.fs.sync_directory(target.path)
        while True:
            _copy(source, future)
            future.flush()
            if source.log_end_offset - future.log_end_offset <= _NEARLY:
                break
        _switch(partition, target, future, register)
    except BaseException:
        future.close_handlers()
        remove_tree(env.fs, future.path)
        raise
    return source


def _discard_unfinished(partition: Partition, target: Root, env: Environment) -> None:
    """Remove what an earlier move to this root has left."""
    for entry in env.fs.list(target.path):
        if entry.is_directory and entry.name.endswith(DirectoryState.FUTURE.value):
            parsed = parse_partition_directory(entry.name)
            if parsed.topic_partition == partition.topic_partition:
                remove_tree(env.fs, target.file(entry.name))


def _copy(source: Log, future: Log) -> None:
    """Copy up to where the source ends now."""
    if future.log_end_offset < source.log_start_offset:
        _begin(source, future)
    end = source.log_end_offset
    chunk = min(_CHUNK_BYTES, source.config.max_segment_bytes)
    while (at := future.log_end_offset) < end:
        future.append_as_follower(source.read(max(at, source.log_start_offset), chunk).data)
        if future.log_end_offset == at:  # the source ends with offsets that were lost in a crash
            future.roll(end)


def _begin(source: Log, future: Log) -> None:
    """Begin with the batch that holds the source's first offset, which may lie inside of it.

    The copy's log start follows when it is complete.
    """
    start = source.log_start_offset
    if start < source.log_end_offset:
        start = min(source.read(start, 1).start.message_offset, start)
    future.truncate_fully_and_start_at(start)


def _switch(partition: Partition, target: Root, future: Log, register: Callable[[], None]) -> None:
    """Steps 3 to 5."""
    with partition.gate:
        source, root = partition.log, partition.root
        if root is None:
            raise LogOfflineError(f"{partition.topic_partition} is in no root")
        _copy(source, future)
        future.update_high_watermark(future.log_end_offset)
        future.maybe_increment_log_start_offset(source.log_start_offset)
        future.flush()
        future.rename(str(partition.topic_partition))
        partition.attach(future, target)
        try:
            register()
        except BaseException:
            partition.attach(source, root)
            raise
