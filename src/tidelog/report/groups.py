"""Consumer groups and their lag, where `__consumer_offsets` is among the partitions."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.manager.coordinators.groups import GROUP_SCHEMA, GROUPS_TOPIC, describe_groups, log_ends
from tidelog.manager.coordinators.tables import topic_names
from tidelog.report.tables import Table, columns_of
from tidelog.scanning.partitions import Partition
from tidelog.storage.names import DirectoryState

__all__ = ["group_table"]


def group_table(partitions: Sequence[Partition]) -> Table:
    """A row for each group and partition, as `tidelog groups` has it; none without the groups' topic."""
    live = [one.again() for one in partitions if one.state is DirectoryState.LIVE]
    names = GROUP_SCHEMA.names
    if not any(one.topic_partition.topic == GROUPS_TOPIC for one in live):
        return columns_of(names, ())
    rows = describe_groups(live, topic_names(live), log_ends(live))
    return columns_of(names, ([getattr(row, name) for name in names] for row in rows))
