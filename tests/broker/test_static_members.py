"""Static members of classic groups without sockets: they come back, are fenced, missed and removed."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker.members import (
    Member,
    classic_group,
    rejoined,
)
from tests.broker.world import World
from tidelog.broker.effects import CONSUMER_OFFSETS


def static(at: World, name: str = "i", **more: Any) -> Member:
    return Member(at, group_instance_id=name, **more)


def test_a_static_member_is_back_without_a_rebalance_and_its_old_self_is_fenced() -> None:
    at = World()
    members = [static(at, "i"), static(at, "j")]
    rejoined(at, members)
    old_leader, other = members
    assert old_leader.id.startswith("i-")
    again = static(at, "i")
    answer = again.join()
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, True)
    assert answer.leader == again.id != old_leader.id
    assert again.sync().assignment == old_leader.id.encode()
    assert old_leader.beat() == "fenced_instance_id"
    assert old_leader.commit() == "fenced_instance_id"
    assert old_leader.join().error_code == ErrorCode.fenced_instance_id
    assert old_leader.sync().error_code == ErrorCode.fenced_instance_id
    assert [other.beat(), again.beat()] == ["none", "none"]
    at.restart()
    assert again.beat() == "none"
    assert classic_group(at).static_members["i"] == again.id


def test_a_static_member_of_an_older_version_is_told_the_old_leader() -> None:
    at = World()
    rejoined(at, [leader := static(at, "i")])
    again = static(at, "i")
    again.version = 6
    answer = again.join()
    assert (answer.leader, answer.members) == (leader.id, ())


def test_a_static_member_whose_new_id_cannot_be_written_keeps_the_old_one() -> None:
    at = World()
    rejoined(at, [first := static(at, "i")])
    at.failing[CONSUMER_OFFSETS] = ErrorCode.kafka_storage_error
    assert static(at, "i").join().error_code == ErrorCode.not_coordinator
    at.failing.clear()
    assert first.beat() == "none"
    assert classic_group(at).leader == first.id


def test_a_static_member_survives_a_rebalance_that_it_missed() -> None:
    at = World()
    rejoined(
        at, members := [static(at, "i", session_timeout=200_000), static(at, "j", session_timeout=200_000)]
    )
    first, second = members
    first.join()
    at.pass_time(60_000)
    answer = first.took()
    assert answer.generation_id == 2
    assert {each.group_instance_id for each in answer.members} == {"i", "j"}
    assert second.beat() == "illegal_generation"


def test_an_admin_removes_a_static_member_by_its_name() -> None:
    at = World()
    rejoined(at, [member := static(at, "i")])
    answer = at.ask("leave_group", 5, group_id="g", members=[{"member_id": "", "group_instance_id": "i"}])
    assert answer.members[0].error_code == 0
    assert member.beat() == "unknown_member_id"
