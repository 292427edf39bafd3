"""Which topics a root has, read without opening it: for tasks that must know before anything is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.layout.config import log_config
from tidelog.layout.roots import look_at
from tidelog.manager.metadata.files import home_of_metadata, read_cluster_metadata
from tidelog.manager.store.partition import refuse_replicated
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.names import DirectoryState, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["TopicFacts", "check_single", "existing_topics", "unregistered"]


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
            config = log_config(image.topic_config(name), defaults)
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


def unregistered(roots: Sequence[str], topic: str, fs: FileSystem = LOCAL) -> list[int]:
    """The partitions of a topic that have directories, but that the roots' metadata does not know.

    None in roots that are nobody's yet: there, what is found is taken in.
    """
    facts = [look_at(fs, root) for root in roots if fs.exists(root)]
    if not facts or all(one.meta is None for one in facts):
        return []
    image = read_cluster_metadata(fs, home_of_metadata(fs, [one.path for one in facts])).image
    known = image.topics[topic].partitions if topic in image.topics else {}
    there = [name.partition for one in facts for name in one.partitions.values() if name.topic == topic]
    return [number for number in there if number not in known]


def check_single(roots: Sequence[str], topic: str, fs: FileSystem = LOCAL) -> None:
    """Refuse a topic that other brokers hold too, as an append does."""
    node_ids = {meta.node_id for root in roots if (meta := look_at(fs, root).meta) is not None}
    image = read_cluster_metadata(fs, home_of_metadata(fs, roots)).image
    if topic in image.topics and node_ids:
        for number, facts in sorted(image.topics[topic].partitions.items()):
            others = tuple(replica for replica in facts.replicas if replica not in node_ids)
            if others:
                raise refuse_replicated(TopicPartition(topic, number), others)
