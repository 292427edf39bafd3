"""Groups and transactions of directories, as rows. Files are only read, and nothing is locked."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tidelog.errors import InvalidInputError
from tidelog.manager.coordinators.groups import GROUPS_TOPIC, GroupRow, describe_groups, log_ends
from tidelog.manager.coordinators.transactions import TransactionRow, describe_transactions
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.scanning.partitions import Partition, Paths, in_words, list_partitions
from tidelog.storage import LOCAL

__all__ = ["group_partitions", "groups", "topic_names", "transactions"]


def groups(path: Paths, group: str | None = None) -> list[GroupRow]:
    """The consumer groups on the disks of a broker, or on copies of them, by group and partition.

    `path` is a root or several: `__consumer_offsets` and the topics may be on different ones. `group` selects
    one. Lag counts up to the log end; it is None if the partition is not on these disks.
    """
    partitions = group_partitions(path)
    return describe_groups(partitions, topic_names(partitions), log_ends(partitions), group)


def transactions(path: Paths, *, aborted: bool = True) -> list[TransactionRow]:
    """The transactions on the disks of a broker, or on copies of them; see `TransactionRow`."""
    return describe_transactions(list_partitions(path), aborted=aborted)


def group_partitions(path: Paths) -> list[Partition]:
    """The partitions under a path, among them some of `__consumer_offsets`."""
    found = list_partitions(path)
    if not any(one.topic_partition.topic == GROUPS_TOPIC for one in found):
        raise InvalidInputError(
            f"no partition of {GROUPS_TOPIC} under {in_words(path)}: name all roots of the broker"
        )
    return found


def topic_names(partitions: Iterable[Partition]) -> dict[uuid.UUID, str]:
    """Topics by their ids: what the metadata on the disks says, and what the partitions say."""
    names: dict[uuid.UUID, str] = {}
    listed = list(partitions)
    for root in dict.fromkeys(one.url.rpartition("/")[0] for one in listed if "://" not in one.url):
        names |= {topic.topic_id: topic.name for topic in look_at_metadata(LOCAL, root).image.topics.values()}
    for one in listed:
        if one.topic_id is not None:
            names[one.topic_id] = one.topic_partition.topic
    return names
