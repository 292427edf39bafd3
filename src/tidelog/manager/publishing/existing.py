"""Which topics a root has, read without opening it: for tasks that must know before anything is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.store.topics import known_config
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.names import DirectoryState, parse_partition_directory

__all__ = ["TopicFacts", "existing_topics"]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a writer has to know of a topic."""

    partitions: int
    config: LogConfig


def existing_topics(
    roots: Sequence[str], defaults: LogConfig, fs: FileSystem = LOCAL
) -> dict[str, TopicFacts]:
    """The topics that are registered; where nothing is, those that have directories."""
    there = [root for root in roots if fs.exists(root)]
    found: dict[str, TopicFacts] = {}
    for root in there:
        image = read_cluster_metadata(fs, root).image
        for name, topic in image.topics.items():
            config, _ = known_config(image.topic_config(name), defaults)
            found[name] = TopicFacts(len(topic.partitions), config)
    if found:
        return found
    numbers: dict[str, int] = {}
    for root in there:
        for entry in fs.list(root):
            try:
                parsed = parse_partition_directory(entry.name) if entry.is_directory else None
            except InvalidInputError:
                continue
            if parsed is not None and parsed.state is DirectoryState.LIVE:
                label = parsed.topic_partition.topic
                numbers[label] = numbers.get(label, 0) + 1
    return {label: TopicFacts(count, defaults) for label, count in numbers.items()}
