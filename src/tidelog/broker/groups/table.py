"""The groups and offsets that there are, what records make of them, and how records are appended.

`replay` is the one way in which a record of a consumer group or an offset changes anything: after its append,
and when the topic is loaded. A classic group lives in memory between two of its records: who waits for what
is nowhere else. Its record is replayed only when it is loaded.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import (
    CONSUMER_OFFSETS,
    Append,
    Effect,
    LoadedRecord,
    LogRecord,
    TopicView,
)
from tidelog.broker.groups import records
from tidelog.broker.groups.classic_group import ClassicGroup
from tidelog.broker.groups.config import GroupConfig
from tidelog.broker.groups.consumer_group import ConsumerGroup
from tidelog.broker.groups.offsets import Offsets
from tidelog.broker.refusals import Refused, append_error
from tidelog.broker.timers import Timers
from tidelog.errors import CorruptRecordError
from tidelog.manager.coordinators.partitioning import partition_for
from tidelog.protocol.coordinator_records import (
    CoordinatorRecord,
    decode_group_record,
    encode_group_record,
)

__all__ = ["Group", "GroupTable"]

_logger = logging.getLogger(__name__)

Group = ClassicGroup | ConsumerGroup


def _random_id() -> str:
    return str(uuid.uuid4())


class GroupTable:
    """All groups of this broker."""

    def __init__(
        self,
        topics: TopicView,
        timers: Timers,
        partitions: int,
        config: GroupConfig,
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        self.topics = topics
        self.timers = timers
        self.config = config
        self.new_id = new_id
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._partitions = partitions
        self._order = 0

    def get(self, group_id: str) -> Group:
        """The group; raises Refused where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        return group

    # ---- the log

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self._partitions)

    def load(self, partition: int, found: Iterable[LoadedRecord]) -> None:
        """Take up what the records of a partition say."""
        for each in found:
            try:
                self._load(partition, each)
            except CorruptRecordError as error:
                _logger.error(
                    "a record of %s at offset %d is skipped: %s", CONSUMER_OFFSETS, each.offset, error
                )

    def _load(self, partition: int, each: LoadedRecord) -> None:
        if each.commits is not None:
            self.offsets.end(partition, each.producer_id, each.commits)
        elif each.key is not None:
            record = decode_group_record(each.key, each.value)
            if record is not None:
                self.replay(record, each.producer_id if each.is_transactional else -1)

    def append(
        self,
        group_id: str,
        written: Sequence[CoordinatorRecord],
        now_ms: int,
        then: Callable[[], Sequence[Effect]],
        failed: Callable[[ErrorCode], Sequence[Effect]],
        *,
        producer: tuple[int, int] = (-1, -1),
        replays: bool = True,
    ) -> Sequence[Effect]:
        """Append records of a group, replay them, and go on; nothing to append is no reason to stop."""
        if not written:
            return then()

        def appended() -> Sequence[Effect]:
            for record in written if replays else ():
                self.replay(record, producer[0])
            return then()

        return [
            Append(
                CONSUMER_OFFSETS,
                self.partition_for(group_id),
                tuple(LogRecord(*encode_group_record(record)) for record in written),
                appended,
                lambda error: failed(append_error(error)),
                *producer,
                timestamp_ms=now_ms,
            )
        ]

    def replay(self, record: CoordinatorRecord, producer_id: int = -1) -> None:
        """Change what a record says."""
        match record.kind:
            case "OffsetCommit" | "LegacyOffsetCommit":
                self._replay_offset(record, producer_id)
            case "GroupMetadata" if record.value is None:
                if isinstance(self.groups.get(record.key["group"]), ClassicGroup):
                    del self.groups[record.key["group"]]
            case "GroupMetadata":
                self.groups[record.key["group"]] = records.parse_classic_group(record)
            case kind if kind.startswith("ConsumerGroup"):
                self._replay_consumer_group(record)

    def _replay_offset(self, record: CoordinatorRecord, producer_id: int) -> None:
        group_id, partition = record.key["group"], (record.key["topic"], record.key["partition"])
        if record.value is None:
            self.offsets.forget(group_id, partition)
            return
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)
        self._order += 1
        commit = records.committed(record.value, self._order)
        if producer_id < 0:
            self.offsets.commit(group_id, partition, commit)
        else:
            self.offsets.keep(self.partition_for(group_id), producer_id, group_id, partition, commit)

    def _replay_consumer_group(self, record: CoordinatorRecord) -> None:
        group_id = record.key["groupId"]
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self.groups[group_id] = ConsumerGroup(group_id)
        if record.kind == "ConsumerGroupMetadata" and record.value is None:
            del self.groups[group_id]
        else:
            group.replay(record)
