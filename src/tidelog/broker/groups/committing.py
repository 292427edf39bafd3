"""OffsetCommit, TxnOffsetCommit and OffsetDelete, and offsets that expire.

The empty group id is a group's for OffsetCommit and OffsetFetch, as it always was, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Partition, Reply, Request
from tidelog.broker.groups import records
from tidelog.broker.groups.classic_group import ClassicGroup, GroupState
from tidelog.broker.groups.classic_joining import ClassicJoining
from tidelog.broker.groups.offsets import Committed, PartitionCheck, no_check
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.messages import field, milliseconds, respond
from tidelog.broker.refusals import Refused
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = ["Committing"]

_TOPIC_IDS = 10
_GROUP_NOT_FOUND = 9

_Named = tuple[str, UUID | None, Any]
"""A partition of a request, with its topic's name and id."""


class _Commits:
    """The partitions of a request, told topic by topic in a response."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, UUID | None], list[dict[str, Any]]] = {}

    def say(self, name: str, topic_id: UUID | None, partition: int, code: ErrorCode) -> None:
        found = self._topics.setdefault((name, topic_id), [])
        found.append({"partition_index": partition, "error_code": code})

    def told(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "topic_id": topic_id, "partitions": found}
            for (name, topic_id), found in self._topics.items()
        ]


class Committing:
    """Offsets come and go."""

    def __init__(self, table: GroupTable, joining: ClassicJoining) -> None:
        self._table = table
        self._joining = joining

    # ---- OffsetCommit

    def commit(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """OffsetCommit."""
        message = asked.message
        generation = int(field(message, "generation_id_or_member_epoch", field(message, "generation_id", -1)))
        answers = _Commits()
        known = self._known(message, answers)
        if not known and answers.told():
            return [Reply(asked.ticket, respond(message, topics=answers.told()))]
        try:
            check = self._check_commit(message, generation, now_ms)
            for _, topic_id, part in known:
                check(topic_id, part.partition_index)
        except Refused as refused:
            return [self._refuse(asked, refused.code)]
        retention = field(message, "retention_time_ms", field(message, "retention_time", -1))
        retention_ms = retention if isinstance(retention, int) else milliseconds(retention)
        expires_ms = None if retention_ms < 0 else now_ms + retention_ms
        return self._write(asked, known, answers, now_ms, expires_ms)

    def _write(
        self,
        asked: Request,
        known: Iterable[_Named],
        answers: _Commits,
        now_ms: int,
        expires_ms: int | None = None,
        producer: tuple[int, int] = (-1, -1),
    ) -> Sequence[Effect]:
        """Append the offsets of partitions that are known, and answer; in a transaction of a `producer`.

        As with Kafka, an offset that is part of a transaction does not say the topic's id.
        """
        message = asked.message
        written = []
        for name, topic_id, part in known:
            if len(part.committed_metadata or "") > self._table.config.offset_metadata_max_bytes:
                answers.say(name, topic_id, part.partition_index, ErrorCode.offset_metadata_too_large)
                continue
            answers.say(name, topic_id, part.partition_index, ErrorCode.none)
            commit = Committed(
                part.committed_offset,
                int(field(part, "committed_leader_epoch", -1)),
                part.committed_metadata or "",
                now_ms,
                expires_ms,
                topic_id if producer[0] < 0 else None,
            )
            written.append(records.offset(message.group_id, (name, part.partition_index), commit))
        return self._table.append(
            message.group_id,
            written,
            now_ms,
            lambda: [Reply(asked.ticket, respond(message, topics=answers.told()))],
            lambda code: [self._refuse(asked, code)],
            producer=producer,
        )

    def _known(self, message: Any, answers: _Commits) -> list[_Named]:
        """The partitions that there are; the others are answered with an error."""
        topics = self._table.topics
        known: list[_Named] = []
        for topic in message.topics:
            topic_id = field(topic, "topic_id")
            name = field(topic, "name") or (topics.topic_name(topic_id) if topic_id else None)
            if message.__version__ < _TOPIC_IDS:
                topic_id = topics.topic_id(name or "")
            missing = ErrorCode.unknown_topic_or_partition
            if name is None:
                missing = ErrorCode.unknown_topic_id
            count = topics.partition_count(name) if name else None
            for part in topic.partitions:
                if name and count is not None and 0 <= part.partition_index < count:
                    known.append((name, topic_id, part))
                else:
                    answers.say(name or "", topic_id, part.partition_index, missing)
        return known

    def _check_commit(self, message: Any, generation: int, now_ms: int) -> PartitionCheck:
        group = self._table.groups.get(message.group_id)
        if group is None:
            if generation < 0:
                return no_check  # a simple consumer: the group is made with its offset
            newer = message.__version__ >= _GROUP_NOT_FOUND
            raise Refused(ErrorCode.group_id_not_found if newer else ErrorCode.illegal_generation)
        member_id = message.member_id
        check = group.check_commit(
            member_id, field(message, "group_instance_id"), generation, False, message.__version__
        )
        keeps = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)
        if isinstance(group, ClassicGroup) and group.state in keeps and member_id in group.members:
            timeout_ms = group.members[member_id].session_timeout_ms
            self._joining.expect_heartbeat(group, member_id, timeout_ms, now_ms)
        return check

    def _refuse(self, asked: Request, code: ErrorCode) -> Reply:
        """The same error for every partition of a commit, but for those that there are not."""
        answers = _Commits()
        for name, topic_id, part in self._known(asked.message, answers):
            answers.say(name, topic_id, part.partition_index, code)
        return Reply(asked.ticket, respond(asked.message, topics=answers.told()))

    # ---- TxnOffsetCommit

    def check_transactional(self, asked: Request) -> Reply | None:
        """Why a TxnOffsetCommit is refused; None where it is not."""
        message = asked.message
        answers = _Commits()
        if not self._known(message, answers) and answers.told():
            return Reply(asked.ticket, respond(message, topics=answers.told()))
        try:
            if not message.group_id:
                raise Refused(ErrorCode.invalid_group_id)
            generation = int(field(message, "generation_id", -1))
            group = self._table.groups.get(message.group_id)
            if group is None and generation >= 0:
                raise Refused(ErrorCode.illegal_generation)
            if group is not None:
                check = group.check_commit(
                    field(message, "member_id", ""),
                    field(message, "group_instance_id"),
                    generation,
                    True,
                    message.__version__,
                )
                for topic in message.topics:
                    for part in topic.partitions:
                        check(self._table.topics.topic_id(topic.name), part.partition_index)
        except Refused as refused:
            stale = refused.code is ErrorCode.stale_member_epoch
            return self._refuse(asked, ErrorCode.illegal_generation if stale else refused.code)
        return None

    def commit_transactional(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """TxnOffsetCommit: the offsets count when the transaction is committed."""
        if (refusal := self.check_transactional(asked)) is not None:
            return [refusal]
        message = asked.message
        answers = _Commits()
        known = self._known(message, answers)
        producer = (message.producer_id, message.producer_epoch)
        return self._write(asked, known, answers, now_ms, producer=producer)

    def refuse_transactional(self, asked: Request, code: ErrorCode) -> Reply:
        """A TxnOffsetCommit that is not part of a transaction."""
        return self._refuse(asked, code)

    # ---- OffsetDelete

    def delete(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """OffsetDelete."""
        message = asked.message
        try:
            if not message.group_id:
                raise Refused(ErrorCode.invalid_group_id)
            group = self._table.get(message.group_id)
            group.check_offset_delete()
        except Refused as refused:
            return [Reply(asked.ticket, respond(message, error_code=refused.code))]
        answers = _Commits()
        gone: list[Partition] = []
        has = set(self._table.offsets.of(message.group_id)) | self._table.offsets.pending(message.group_id)
        for topic in message.topics:
            count = self._table.topics.partition_count(topic.name)
            for part in topic.partitions:
                code = ErrorCode.none
                if count is None or not 0 <= part.partition_index < count:
                    code = ErrorCode.unknown_topic_or_partition
                elif group.is_subscribed_to(topic.name):
                    code = ErrorCode.group_subscribed_to_topic
                elif (topic.name, part.partition_index) in has:
                    gone.append((topic.name, part.partition_index))
                answers.say(topic.name, None, part.partition_index, code)
        return self._table.append(
            message.group_id,
            [records.offset_gone(message.group_id, partition) for partition in gone],
            now_ms,
            lambda: [Reply(asked.ticket, respond(message, topics=answers.told()))],
            lambda code: [Reply(asked.ticket, respond(message, error_code=code))],
        )

    # ---- offsets that go by themselves

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> list[Effect]:
        """Forget the offsets of topics that are gone."""
        gone = set(names)
        effects: list[Effect] = []
        for group_id in tuple(self._table.groups):
            has = set(self._table.offsets.of(group_id)) | self._table.offsets.pending(group_id)
            tombstones = [records.offset_gone(group_id, part) for part in sorted(has) if part[0] in gone]
            effects += self._table.append(group_id, tombstones, now_ms, lambda: (), lambda _: ())
        return effects

    def expire(self, now_ms: int, delete_group: Callable[[str], Sequence[CoordinatorRecord]]) -> list[Effect]:
        """Forget offsets whose time is over, and groups that have neither members nor offsets."""
        effects: list[Effect] = []
        for group_id, group in tuple(self._table.groups.items()):
            pending = self._table.offsets.pending(group_id)
            has = self._table.offsets.of(group_id)
            gone = [
                partition
                for partition, commit in has.items()
                if partition not in pending
                and not group.is_subscribed_to(partition[0])
                and self._is_expired(commit, group.expires_from(commit), now_ms)
            ]
            written = [records.offset_gone(group_id, partition) for partition in gone]
            if len(gone) == len(has) and not pending and group.is_empty:
                written += delete_group(group_id)
            effects += self._table.append(group_id, written, now_ms, lambda: (), lambda _: ())
        return effects

    def _is_expired(self, commit: Committed, since_ms: int | None, now_ms: int) -> bool:
        if commit.expire_ms is not None:
            return now_ms >= commit.expire_ms
        return since_ms is not None and now_ms - since_ms >= self._table.config.offsets_retention_ms
