"""The group coordinator: members, assignments and offsets in `__consumer_offsets`.

config            Kafka's keys
table             the groups and offsets that there are; what a record changes; appending records
records           groups and offsets as records, and back
offsets           committed offsets, and those of open transactions
committing        OffsetCommit, TxnOffsetCommit, OffsetDelete; expiry
fetching          OffsetFetch
classic_group     a group of the classic protocol: members, generation, state
classic_joining   JoinGroup, and rebalances from their beginning to the sync
classic_syncing   SyncGroup, Heartbeat, LeaveGroup
listing           ListGroups, DescribeGroups, DeleteGroups
coordinator       `GroupCoordinator`: all of them
"""

from tidelog.broker.groups.config import GroupConfig
from tidelog.broker.groups.coordinator import GroupCoordinator

__all__ = ["GroupConfig", "GroupCoordinator"]
