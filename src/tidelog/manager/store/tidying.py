"""Renaming directories that belong to no topic to `-stray`, as brokers do at each start, and reverting it.

    set_aside     <topic>-<partition>                  ->  <topic>-<partition>.<32 hex>-stray
    take_back     <topic>-<partition>.<32 hex>-stray   ->  <topic>-<partition>, unless there is one

Both are one rename. A long topic's name is cut in a `-stray` name; then its `partition.metadata` and the
metadata must tell it, or it stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidelog.errors import InvalidIndexError
from tidelog.layout.roots import Root, RootFacts
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.store.directories import Judged
from tidelog.manager.store.events import Event, LogStrayed
from tidelog.storage import FileSystem
from tidelog.storage.metadata import read_partition_metadata
from tidelog.storage.names import PARTITION_METADATA_FILE, DirectoryState, format_partition_directory
from tidelog.types import TopicPartition

__all__ = ["Return", "plan_return", "set_aside", "take_back"]

_logger = logging.getLogger(__name__)

_LONGEST_NAME = 255


def set_aside(fs: FileSystem, root: Root, one: Judged, tell: Callable[[Event], None]) -> str:
    """Rename a directory to a stray; its new path."""
    partition = one.found.topic_partition
    path = root.file(format_partition_directory(partition, DirectoryState.STRAY))
    fs.rename(root.file(one.found.name), path)
    fs.sync_directory(root.path)
    _logger.warning("%s became %s: %s", root.file(one.found.name), path, one.reason)
    tell(LogStrayed(partition, path, one.reason))
    return path


@dataclass(frozen=True, slots=True)
class Return:
    """A stray directory and the name that it gets back, or why it does not."""

    path: str
    name: str | None
    reason: str = ""


def plan_return(fs: FileSystem, facts: RootFacts, image: MetadataImage) -> Iterator[Return]:
    """The strays of a root; nothing is changed."""
    strays = {
        name: _partition(fs, f"{facts.path}/{name}", name, parsed.topic_partition, image)
        for name, parsed in facts.directories.items()
        if parsed.state is DirectoryState.STRAY
    }
    wanted = [str(partition) for partition in strays.values() if partition is not None]
    for name, partition in strays.items():
        path = f"{facts.path}/{name}"
        if partition is None:
            yield Return(path, None, "its name was cut, and nothing tells the topic's whole name")
        elif str(partition) in facts.directories:
            yield Return(path, None, f"there is a directory {partition} already")
        elif wanted.count(str(partition)) > 1:
            yield Return(path, None, f"there are several of {partition}: rename the right one by hand")
        else:
            yield Return(path, str(partition))


def take_back(fs: FileSystem, root: Root, planned: Return) -> None:
    """Give a stray its name back, durably."""
    if planned.name is not None:
        root.ensure_lock()
        fs.rename(planned.path, root.file(planned.name))
        fs.sync_directory(root.path)


def _partition(
    fs: FileSystem, path: str, name: str, told: TopicPartition, image: MetadataImage
) -> TopicPartition | None:
    if len(name) < _LONGEST_NAME:
        return told
    try:
        topic_id = read_partition_metadata(fs, f"{path}/{PARTITION_METADATA_FILE}").topic_id
    except (OSError, InvalidIndexError):
        return None
    names = [topic.name for topic in image.topics.values() if topic.topic_id == topic_id]
    return TopicPartition(names[0], told.partition) if names else None
