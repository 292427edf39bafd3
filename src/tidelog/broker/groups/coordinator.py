"""The group coordinator: which handler answers what, loading, and what time asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, LoadedRecord, Reply, Request, TopicView
from tidelog.broker.groups import consumer_records, records
from tidelog.broker.groups.classic_group import ClassicGroup
from tidelog.broker.groups.classic_joining import ClassicJoining
from tidelog.broker.groups.classic_syncing import ClassicSyncing
from tidelog.broker.groups.committing import Committing
from tidelog.broker.groups.config import GroupConfig
from tidelog.broker.groups.consumer_heartbeats import ConsumerHeartbeats
from tidelog.broker.groups.consumer_listing import describe_consumer_groups
from tidelog.broker.groups.fetching import fetch_offsets
from tidelog.broker.groups.listing import delete_groups, describe_groups, list_groups
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.timers import Timers
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = ["GroupCoordinator"]


class GroupCoordinator:
    """Every group of this broker."""

    def __init__(
        self, topics: TopicView, timers: Timers, partitions: int = 50, config: GroupConfig | None = None
    ) -> None:
        self.table = GroupTable(topics, timers, partitions, config or GroupConfig())
        self._joining = ClassicJoining(self.table)
        self._syncing = ClassicSyncing(self.table, self._joining)
        self._committing = Committing(self.table, self._joining)
        self._heartbeats = ConsumerHeartbeats(self.table)
        table = self.table
        self.handlers: dict[str, Callable[[Request, int], Sequence[Effect]]] = {
            "OffsetCommit": self._committing.commit,
            "OffsetFetch": lambda asked, _: fetch_offsets(table, asked),
            "JoinGroup": self._joining.join,
            "Heartbeat": self._syncing.heartbeat,
            "LeaveGroup": self._syncing.leave,
            "SyncGroup": self._syncing.sync,
            "DescribeGroups": lambda asked, _: describe_groups(table, asked),
            "ListGroups": lambda asked, _: list_groups(table, asked),
            "DeleteGroups": lambda asked, now: delete_groups(table, asked, now, self._tombstones),
            "OffsetDelete": self._committing.delete,
            "ConsumerGroupHeartbeat": self._heartbeats.heartbeat,
            "ConsumerGroupDescribe": lambda asked, _: describe_consumer_groups(table, asked),
        }

    # ---- the log

    def load(self, partition: int, found: Iterable[LoadedRecord]) -> None:
        """Take up what the records of a partition say."""
        self.table.load(partition, found)

    def resume(self, now_ms: int) -> Sequence[Effect]:
        """After loading: members have to be heard of."""
        self._expire_later(now_ms)
        effects: list[Effect] = []
        for group in tuple(self.table.groups.values()):
            if isinstance(group, ClassicGroup):
                effects += self._joining.resume(group, now_ms)
            else:
                self._heartbeats.resume(group, now_ms)
        return effects

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return self.table.partition_for(group_id)

    # ---- transactions

    def check_transactional(self, asked: Request) -> Reply | None:
        """Why a TxnOffsetCommit is refused before its transaction is looked at; None where it is not."""
        return self._committing.check_transactional(asked)

    def commit_transactional(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """TxnOffsetCommit, whose group is part of the transaction already."""
        return self._committing.commit_transactional(asked, now_ms)

    def refuse_transactional(self, asked: Request, code: ErrorCode) -> Reply:
        """TxnOffsetCommit that is not part of a transaction."""
        return self._committing.refuse_transactional(asked, code)

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker was written into a partition of `__consumer_offsets`."""
        self.table.offsets.end(partition, producer_id, commit)

    # ---- what happens by itself

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> Sequence[Effect]:
        """Topics are gone."""
        return self._committing.topics_deleted(names, now_ms)

    def _expire_later(self, now_ms: int) -> None:
        at_ms = now_ms + self.table.config.offsets_check_interval_ms
        self.table.timers.set("expired offsets", at_ms, self._expire)

    def _expire(self, now_ms: int) -> Sequence[Effect]:
        self._expire_later(now_ms)
        return self._committing.expire(now_ms, self._tombstones)

    def _tombstones(self, group_id: str) -> Sequence[CoordinatorRecord]:
        """The records that delete a group."""
        group = self.table.groups[group_id]
        if isinstance(group, ClassicGroup):
            return [records.classic_group_gone(group_id)]
        return consumer_records.group_gone(group)
