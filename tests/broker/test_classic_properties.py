"""Classic groups under anything that clients do: members agree, and nobody waits forever."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.broker.members import Member, subscription
from tests.broker.world import World
from tidelog.broker.effects import CONSUMER_OFFSETS
from tidelog.broker.groups.classic_group import ClassicGroup, GroupState

ACTIONS = ["join", "join", "sync", "sync", "beat", "leave", "change", "wait", "fail", "restart"]


class Client(Member):
    """A member that does what clients do with the answers."""

    state = "out"

    def turn(self) -> None:
        """Take whatever answer has come."""
        if self.state == "joining" and (answer := self.at.replies.pop(self.ticket, None)) is not None:
            self.handle_join(answer)
        if self.state == "syncing" and (answer := self.at.replies.pop(self.sync_ticket, None)) is not None:
            self.handle_sync(answer)

    def ask_join(self) -> None:
        self.state = "joining"
        answer = self.join()
        if answer is not None:
            self.handle_join(answer)

    def handle_join(self, answer: Any) -> None:
        if answer.error_code is ErrorCode.none:
            self.id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
            self.members = [each.member_id for each in answer.members]
            self.state = "joined"
        else:
            self.out(answer.error_code)

    def ask_sync(self) -> None:
        self.state = "syncing"
        shares = {name: name.encode() for name in self.members} if self.leader == self.id else {}
        answer = self.sync(shares)
        if answer is not None:
            self.handle_sync(answer)

    def handle_sync(self, answer: Any) -> None:
        if answer.error_code is ErrorCode.none:
            self.state, self.assignment = "stable", answer.assignment
        else:
            self.out(answer.error_code)

    def out(self, code: ErrorCode) -> None:
        self.state = "out"
        if code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.id, self.generation = "", -1

    def step(self) -> None:
        match self.state:
            case "out":
                self.ask_join()
            case "joined":
                self.ask_sync()
            case "stable":
                code = self.beat()
                if code != "none":
                    self.out(ErrorCode[code])


def act(client: Client, action: str, argument: int) -> None:
    at = client.at
    match action:
        case "join" if client.state in ("out", "stable"):
            client.ask_join()
        case "sync" if client.state == "joined":
            client.ask_sync()
        case "beat" if client.state in ("stable", "joined"):
            code = client.beat()
            if code != "none":
                client.out(ErrorCode[code])
        case "leave" if client.state in ("stable", "joined"):
            client.leave()
            client.out(ErrorCode.unknown_member_id)
        case "change":
            client.said["protocols"] = [{"name": "range", "metadata": subscription("t", f"x{argument}")}]
        case "wait":
            at.pass_time(argument * 1_500)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(0, 7)), min_size=5, max_size=60
    ),
    static=st.booleans(),
)
def test_members_of_a_generation_agree_and_the_group_settles(
    actions: list[tuple[str, int, int]], static: bool
) -> None:
    at = World()
    clients = [Client(at, **({"group_instance_id": f"i{number}"} if static else {})) for number in range(4)]
    for action, number, argument in actions:
        if action == "fail":
            at.failing[CONSUMER_OFFSETS] = ErrorCode.not_enough_replicas
        act(clients[number], action if action != "fail" else "sync", argument)
        at.failing.clear()
        for client in clients:
            client.turn()
        if action == "restart":
            at.restart()
            for client in clients:
                if client.state in ("joining", "syncing"):
                    client.out(ErrorCode.coordinator_not_available)
        invariants(at)
    for _ in range(60):
        for client in clients:
            client.turn()
            client.step()
        at.pass_time(1_000)
    assert [client.state for client in clients] == ["stable"] * 4
    assert len({client.generation for client in clients}) == 1
    assert all(client.assignment == client.id.encode() for client in clients)
    group = at.coordinators.groups.table.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state is GroupState.STABLE
    assert sorted(group.members) == sorted(client.id for client in clients)
    before = {name: member.assignment for name, member in group.members.items()}
    generation, leader = group.generation, group.leader
    at.restart()
    again = at.coordinators.groups.table.groups["g"]
    assert isinstance(again, ClassicGroup)
    assert {name: member.assignment for name, member in again.members.items()} == before
    assert (again.generation, again.leader) == (generation, leader)


def invariants(at: World) -> None:
    group = at.coordinators.groups.table.groups.get("g")
    if not isinstance(group, ClassicGroup):
        return
    assert (group.leader in group.members) == bool(group.members)
    assert set(group.static_members.values()) <= set(group.members)
    assert group.pending_syncs <= set(group.members)
    assert not group.pending_joins & set(group.members)
    if group.state is GroupState.EMPTY:
        assert not group.members
    if group.state is GroupState.STABLE:
        assert all(member.syncing is None for member in group.members.values())
        assert all(member.joining is None for member in group.members.values())
    if group.members:
        waits = {("join", "g"), ("sync", "g")} | {("heartbeat", "g", name) for name in group.members}
        assert any(at.coordinators._timers.deadline(name) is not None for name in waits)
