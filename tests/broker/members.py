"""Clients of groups without sockets: members of the classic protocol and consumers of the new one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.broker.world import World, request
from tidelog.broker.groups import GroupConfig
from tidelog.broker.groups.classic_group import ClassicGroup
from tidelog.broker.groups.consumer_group import ConsumerGroup

DELAY = 3_000


def subscription(*topics: str) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Member:
    """A client: it keeps its id and generation, as one does."""

    def __init__(self, at: World, version: int = 9, **said: Any) -> None:
        self.at, self.version = at, version
        self.id, self.generation, self.leader = "", -1, ""
        self.said: dict[str, Any] = {
            "group_id": "g",
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("t")}],
            **said,
        }
        self.ticket = 0

    def join(self, **more: Any) -> Any:
        """Send JoinGroup, twice if an id is required; the answer if there is one."""
        self.ticket = self.at.send(request("join_group", self.version, member_id=self.id, **self.said | more))
        answer = self.at.replies.pop(self.ticket, None)
        if answer is not None and answer.error_code is ErrorCode.member_id_required:
            self.id = answer.member_id
            return self.join(**more)
        return self.took(answer)

    def took(self, answer: Any = None) -> Any:
        answer = self.at.replies.pop(self.ticket, None) if answer is None else answer
        if answer is not None and answer.error_code is ErrorCode.none:
            self.id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5, **more: Any) -> Any:
        asked = request(
            "sync_group",
            version,
            **{
                "group_id": "g",
                "generation_id": self.generation,
                "member_id": self.id,
                "group_instance_id": self.said.get("group_instance_id"),
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [
                    {"member_id": name, "assignment": data} for name, data in (assignments or {}).items()
                ],
                **more,
            },
        )
        self.sync_ticket = self.at.send(asked)
        return self.at.replies.pop(self.sync_ticket, None)

    def synced(self) -> Any:
        return self.at.replies.pop(self.sync_ticket, None)

    def beat(self, **more: Any) -> str:
        said = {"group_id": "g", "generation_id": self.generation, "member_id": self.id, **more}
        said.setdefault("group_instance_id", self.said.get("group_instance_id"))
        return str(self.at.ask("heartbeat", 4, **said).error_code.name)

    def leave(self) -> Any:
        return self.at.ask("leave_group", 5, group_id="g", members=[{"member_id": self.id}])

    def commit(self, offset: int = 1, version: int = 8, **more: Any) -> str:
        said: dict[str, Any] = {"group_id": "g", "generation_id_or_member_epoch": self.generation}
        said |= {"member_id": self.id, "group_instance_id": self.said.get("group_instance_id"), **more}
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        answer = self.at.ask("offset_commit", version, topics=[{"name": "t", "partitions": [part]}], **said)
        return str(answer.topics[0].partitions[0].error_code.name)


def settled(count: int = 2, **config: Any) -> tuple[World, list[Member]]:
    """A stable group with so many members."""
    at = World(options={"group_config": GroupConfig(**config)})
    members = [Member(at) for _ in range(count)]
    rejoined(at, members)
    return at, members


def rejoined(at: World, members: list[Member], answers: dict[int, Any] | None = None) -> None:
    for member in members:
        member.join()
    at.pass_time(2 * DELAY)
    for member in members:
        assert member.generation >= 0 or member.took().error_code == 0
        member.took()
    leader = next(member for member in members if member.id == member.leader)
    for member in members:
        if member is not leader:
            assert member.sync() is None
    answer = leader.sync({member.id: member.id.encode() for member in members})
    assert answer.assignment == leader.id.encode()
    for member in members:
        if member is not leader:
            assert member.synced().assignment == member.id.encode()


class Consumer:
    """A client of the consumer protocol: it keeps its epoch, and gives up and takes what it is told."""

    def __init__(self, at: World, name: str, *topics: str, group: str = "g", **said: Any) -> None:
        self.at, self.id, self.epoch, self.group = at, name, 0, group
        self.owned: dict[UUID, set[int]] = {}
        self.said: dict[str, Any] = {
            "subscribed_topic_names": topics,
            "rebalance_timeout": 60_000,
            **said,
        }
        self.instance = said.get("instance_id")

    def ask(self, **more: Any) -> Any:
        said = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        return self.at.ask("consumer_group_heartbeat", 1, **(said | more))

    def beat(self, *, full: bool = False, acknowledges: bool = True, **more: Any) -> Any:
        """A heartbeat; what the answer tells is given up and taken at once, and told in the next one."""
        joins = self.epoch == 0
        parts = [{"topic_id": topic, "partitions": sorted(ids)} for topic, ids in self.owned.items()]
        said = dict(self.said) if joins or full else {}
        answer = self.ask(**(said | {"topic_partitions": [] if joins else parts} | more))
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.member_epoch
            if answer.assignment is not None and acknowledges:
                self.owned = {
                    each.topic_id: set(each.partitions) for each in answer.assignment.topic_partitions
                }
        return answer

    @property
    def has(self) -> list[tuple[str, int]]:
        return sorted(
            (self.at.topics.topic_name(topic) or "?", number)
            for topic, numbers in self.owned.items()
            for number in numbers
        )

    def leave(self, epoch: int = -1) -> Any:
        answer = self.ask(member_epoch=epoch, topic_partitions=None)
        self.epoch, self.owned = 0, {}
        return answer


def settle(*consumers: Consumer) -> None:
    for _ in range(6):
        for consumer in consumers:
            if consumer.beat().error_code is not ErrorCode.none:
                consumer.epoch, consumer.owned = 0, {}


def classic_group(at: World, name: str = "g") -> ClassicGroup:
    found = at.coordinators.groups.table.groups[name]
    assert isinstance(found, ClassicGroup)
    return found


def consumer_group(at: World, name: str = "g") -> ConsumerGroup:
    found = at.coordinators.groups.table.groups[name]
    assert isinstance(found, ConsumerGroup)
    return found
