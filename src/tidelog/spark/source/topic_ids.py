"""Which topic a directory's records are of: the id that a topic is given when it is created.

A topic that was deleted and created again has the same name, the same directories and offsets that begin at 0
again; only the id in `partition.metadata` tells the two apart. So ids travel with offsets: in an export's
commits, in a stream's checkpoint and with the splits of a read. Offsets that were kept without an id (by an
older release, or of a directory that has none) are believed, and the id is added to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from tidelog.errors import DataLossError, InvalidIndexError
from tidelog.scanning.partitions import Partition
from tidelog.scanning.volumes import Volume, open_volume
from tidelog.storage.metadata import format_id, parse_partition_metadata
from tidelog.storage.names import PARTITION_METADATA_FILE
from tidelog.types import TopicPartition

__all__ = [
    "TopicIds",
    "check_still",
    "decode_ids",
    "encode_ids",
    "for_each",
    "ids_by_url",
    "is_another",
    "recreated",
    "topic_id_at",
    "topic_id_of",
]

_T = TypeVar("_T")
_REQUESTS = 32
"""How many requests to an object store are in progress at a time."""

TopicIds = Mapping[TopicPartition, str]
"""The id of each partition's topic, as Kafka prints it; partitions whose id is not known are left out."""


def for_each(partitions: Sequence[Partition], look: Callable[[Partition], _T]) -> list[_T]:
    """What `look` finds in each of them; in an object store many are looked at at a time, for each waits."""
    if len(partitions) < 2 or not any("://" in each.url for each in partitions):
        return [look(each) for each in partitions]
    first = look(partitions[0])  # lists the root and reads its checkpoints, for all of them
    with ThreadPoolExecutor(_REQUESTS, "tidelog-look") as pool:
        return [first, *pool.map(look, partitions[1:])]


def topic_id_at(url: str, volume: Volume | None = None) -> str | None:
    """The id of the topic that a partition directory is of; None if the directory does not tell."""
    try:
        data = (volume or open_volume(url)).content(PARTITION_METADATA_FILE)
        return format_id(parse_partition_metadata(data, f"{url}/{PARTITION_METADATA_FILE}").topic_id)
    except (OSError, InvalidIndexError):
        return None


def topic_id_of(partition: Partition) -> str | None:
    """The id of the topic that a partition was of when it was listed; None if it does not tell."""
    if "://" in partition.url:
        return topic_id_at(partition.url, partition.volume)
    return None if partition.topic_id is None else _printed(partition.topic_id)


_printed = lru_cache(maxsize=1 << 12)(format_id)
"""A topic's many partitions have the same id, and the same text takes less room where it is sent."""


def is_another(known: str | None, found: str | None) -> bool:
    """Whether what was found may be another topic than the one that was known; an id that is gone may."""
    return known is not None and known != found


def recreated(name: TopicPartition, known: str | None, found: str | None) -> str:
    """What happened to a topic whose id is another one now, in words."""
    if found is None:
        return f"{name} had topic id {known}, and has no readable {PARTITION_METADATA_FILE} now"
    return (
        f"topic {name.topic} was deleted and created anew: the topic id of {name} was {known} and is {found}"
    )


def check_still(url: str, name: TopicPartition, known: str | None) -> None:
    """DataLossError where a directory is another topic's by now: asked after its files were read."""
    found = topic_id_at(url) if known is not None else None
    if is_another(known, found):
        raise DataLossError(f"{recreated(name, known, found)} while it was read; run it again")


def ids_by_url(partitions: Iterable[Partition]) -> dict[str, str]:
    """The ids of the topics that directories are of, for the tasks that will open them."""
    listed = list(partitions)
    found = for_each(listed, lambda each: topic_id_at(each.url, each.volume))
    return {each.url: known for each, known in zip(listed, found, strict=True) if known is not None}


def encode_ids(ids: TopicIds) -> dict[str, Any]:
    """Ids as JSON, the same for the same ids: one for a topic whose partitions agree, else by partition."""
    topics: dict[str, dict[str, str]] = {}
    for name in sorted(ids):
        topics.setdefault(name.topic, {})[str(name.partition)] = ids[name]
    return {
        topic: next(iter(each.values())) if len(set(each.values())) == 1 else each
        for topic, each in topics.items()
    }


def decode_ids(encoded: Mapping[str, Any], names: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """The ids of these partitions, as far as they are known."""
    found = {}
    for name in names:
        each = encoded.get(name.topic)
        known = each.get(str(name.partition)) if isinstance(each, dict) else each
        if known is not None:
            found[name] = str(known)
    return found
