"""Classic groups without sockets: joining, syncing, leaving, timeouts, restarts."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.members import (
    DELAY,
    Member,
    classic_group,
    settled,
    subscription,
)
from tests.broker.world import World, request
from tidelog.broker.effects import CONSUMER_OFFSETS
from tidelog.broker.groups.classic_group import GroupState


def test_a_group_comes_together() -> None:
    at, (first, second) = settled()
    assert classic_group(at).state is GroupState.STABLE
    assert (first.generation, second.generation) == (1, 1)
    assert first.id.startswith("me-")
    assert first.leader == second.leader == first.id
    assert [member.beat() for member in (first, second)] == ["none", "none"]


def test_a_new_group_waits_for_more_members_but_not_beyond_their_rebalance_timeout() -> None:
    at = World()
    first = Member(at, rebalance_timeout=7_000)
    assert first.join() is None
    at.pass_time(2_999)
    second = Member(at, rebalance_timeout=7_000)
    assert second.join() is None
    at.pass_time(1)
    assert first.took() is None
    at.pass_time(2_999)
    third = Member(at, rebalance_timeout=7_000)
    third.join()
    at.pass_time(1_001)
    answers = [member.took() for member in (first, second, third)]
    assert [answer.generation_id for answer in answers] == [1, 1, 1]
    assert [len(answer.members) for answer in answers] == [3, 0, 0]


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins_and_syncs(version: int) -> None:
    at = World()
    member = Member(at, version)
    assert member.join() is None
    at.pass_time(DELAY)
    answer = member.took()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, member.id)
    assert [each.metadata for each in answer.members] == [subscription("t")]
    found = member.sync({member.id: b"all"}, version=min(version, 5))
    assert (found.error_code, found.assignment) == (0, b"all")


def test_a_third_member_makes_the_others_rejoin() -> None:
    at, (first, second) = settled()
    third = Member(at)
    assert third.join() is None
    assert classic_group(at).state is GroupState.PREPARING_REBALANCE
    assert first.beat() == "rebalance_in_progress"
    assert first.commit() == "none"
    assert first.join() is None
    answer = second.join()
    assert answer.generation_id == 2
    assert len(first.took().members) == 3
    assert third.took().generation_id == 2
    assert second.commit() == "rebalance_in_progress"
    assert second.sync(generation_id=1).error_code == ErrorCode.illegal_generation


def test_a_member_that_does_not_rejoin_in_time_is_out() -> None:
    at, (first, second) = settled()
    first.join()
    for _ in range(6):
        at.pass_time(9_999)
        assert second.beat() == "rebalance_in_progress"
    at.pass_time(10)
    answer = first.took()
    assert (answer.generation_id, [each.member_id for each in answer.members]) == (2, [first.id])
    assert second.beat() == "unknown_member_id"


def test_a_silent_member_is_lost_and_the_rest_rebalances() -> None:
    at, (first, second) = settled()
    at.pass_time(6_000)
    assert second.beat() == "none"
    at.pass_time(4_000)
    assert classic_group(at).state is GroupState.PREPARING_REBALANCE
    assert list(classic_group(at).members) == [second.id]
    assert second.beat() == "rebalance_in_progress"
    assert first.beat() == "unknown_member_id"
    assert second.join().leader == second.id


def test_a_commit_keeps_a_member_alive() -> None:
    at, (first,) = settled(1)
    for _ in range(5):
        at.pass_time(9_000)
        assert first.commit() == "none"
    assert first.beat() == "none"


def test_everyone_leaves_and_the_group_is_empty() -> None:
    at, members = settled()
    assert [member.leave().members[0].error_code for member in members] == [0, 0]
    assert classic_group(at).state is GroupState.PREPARING_REBALANCE or classic_group(at).is_empty
    at.pass_time(60_000)
    assert classic_group(at).is_empty
    assert classic_group(at).generation == 2
    at.restart()
    assert classic_group(at).is_empty
    assert classic_group(at).generation == 2
    assert classic_group(at).protocol_type == "consumer"


def test_leaving_is_refused_to_strangers() -> None:
    at, (first, _) = settled()
    answer = at.ask(
        "leave_group",
        5,
        group_id="g",
        members=[
            {"member_id": "stranger"},
            {"member_id": first.id, "group_instance_id": "i"},
            {"member_id": "", "group_instance_id": "i"},
            {"member_id": first.id},
        ],
    )
    assert [each.error_code.name for each in answer.members] == [
        "unknown_member_id",
        "unknown_member_id",
        "unknown_member_id",
        "none",
    ]
    assert at.ask("leave_group", 2, group_id="g", member_id="x").error_code == ErrorCode.unknown_member_id
    assert at.ask("leave_group", 2, group_id="none", member_id="x").error_code == ErrorCode.unknown_member_id
    assert at.ask("leave_group", 2, group_id="", member_id="x").error_code == ErrorCode.invalid_group_id


JOINS_REFUSED = [
    ({"group_id": ""}, "invalid_group_id"),
    ({"session_timeout": 5_999}, "invalid_session_timeout"),
    ({"session_timeout": 1_800_001}, "invalid_session_timeout"),
    ({"member_id": "stranger"}, "unknown_member_id"),
    ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
    ({"protocols": [{"name": "sticky", "metadata": b""}]}, "inconsistent_group_protocol"),
    ({"protocols": []}, "inconsistent_group_protocol"),
    ({"group_id": "new", "member_id": "stranger"}, "unknown_member_id"),
    ({"group_id": "new", "protocols": []}, "inconsistent_group_protocol"),
    ({"group_id": "new", "protocol_type": ""}, "inconsistent_group_protocol"),
]


@pytest.mark.parametrize(("change", "code"), JOINS_REFUSED)
def test_joins_that_are_refused(change: dict[str, Any], code: str) -> None:
    at, _ = settled()
    asked = {"member_id": "", **Member(at).said} | change
    assert at.ask("join_group", 9, **asked).error_code.name == code


SYNCS_REFUSED = [
    ({"group_id": ""}, "invalid_group_id"),
    ({"group_id": "none"}, "unknown_member_id"),
    ({"member_id": "stranger"}, "unknown_member_id"),
    ({"group_instance_id": "i"}, "unknown_member_id"),
    ({"generation_id": 7}, "illegal_generation"),
    ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
    ({"protocol_name": "sticky"}, "inconsistent_group_protocol"),
    ({"protocol_name": None}, "inconsistent_group_protocol"),
]


@pytest.mark.parametrize(("change", "code"), SYNCS_REFUSED)
def test_syncs_that_are_refused(change: dict[str, Any], code: str) -> None:
    _, (first, _) = settled()
    assert first.sync(**change).error_code.name == code


def test_a_stable_group_answers_a_sync_with_the_assignment_it_has() -> None:
    _, (first, second) = settled()
    assert second.sync().assignment == second.id.encode()
    assert first.sync({}).assignment == first.id.encode()


BEATS_REFUSED = [
    ({"group_id": ""}, "invalid_group_id"),
    ({"group_id": "none"}, "unknown_member_id"),
    ({"member_id": "stranger"}, "unknown_member_id"),
    ({"generation_id": 0}, "illegal_generation"),
    ({"group_instance_id": "i"}, "unknown_member_id"),
]


@pytest.mark.parametrize(("change", "code"), BEATS_REFUSED)
def test_heartbeats_that_are_refused(change: dict[str, Any], code: str) -> None:
    _, (first, _) = settled()
    assert first.beat(**change) == code


def test_the_protocol_is_the_one_that_most_prefer_and_all_support() -> None:
    at = World()

    def protocols(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "metadata": b"\0\0\0\0\0\0"} for name in names]

    members = [
        Member(at, protocols=protocols("a", "b")),
        Member(at, protocols=protocols("b", "a", "c")),
        Member(at, protocols=protocols("c", "b", "a")),
    ]
    for member in members:
        member.join()
    at.pass_time(2 * DELAY)
    assert {member.took().protocol_name for member in members} == {"b"}


def test_the_leader_may_force_a_rebalance_and_a_follower_only_with_other_metadata() -> None:
    at, (leader, follower) = settled()
    again = follower.join()
    assert (again.generation_id, again.members) == (1, ())
    assert leader.join() is None
    assert classic_group(at).state is GroupState.PREPARING_REBALANCE
    assert follower.join().generation_id == 2
    leader.took()
    leader.sync({})
    changed = [{"name": "range", "metadata": subscription("u")}]
    assert follower.join(protocols=changed) is None
    assert classic_group(at).state is GroupState.PREPARING_REBALANCE


def test_a_group_that_is_full() -> None:
    at, (first, _) = settled(2, max_size=2)
    third = Member(at)
    assert third.join().error_code == ErrorCode.group_max_size_reached
    assert first.beat() == "none"


def test_members_that_do_not_sync_are_out() -> None:
    at = World()
    members = [Member(at, session_timeout=100_000) for _ in range(2)]
    for member in members:
        member.join()
    at.pass_time(2 * DELAY)
    for member in members:
        member.took()
    leader, follower = members
    assert leader.sync({leader.id: b"x"}).assignment == b"x"
    at.pass_time(59_000)
    assert [leader.beat(), follower.beat()] == ["none", "none"]
    at.pass_time(1_000)
    assert leader.beat() == "rebalance_in_progress"
    assert follower.beat() == "unknown_member_id"


def test_an_id_that_was_given_out_and_never_used_is_forgotten() -> None:
    at, (first,) = settled(1)
    asked = request("join_group", 9, member_id="", **Member(at).said)
    ticket = at.send(asked)
    assert at.replies.pop(ticket).error_code == ErrorCode.member_id_required
    assert len(classic_group(at).pending_joins) == 1
    at.pass_time(9_000)
    first.beat()
    at.pass_time(1_000)
    assert not classic_group(at).pending_joins


# ---- failures and restarts


def test_a_group_that_cannot_be_written_is_not_made() -> None:
    at = World(failing={CONSUMER_OFFSETS: ErrorCode.kafka_storage_error})
    assert Member(at).join().error_code == ErrorCode.not_coordinator
    assert not at.coordinators.groups.table.groups


def test_an_assignment_that_cannot_be_written_is_given_to_nobody() -> None:
    at = World()
    members = [Member(at) for _ in range(2)]
    for member in members:
        member.join()
    at.pass_time(2 * DELAY)
    for member in members:
        member.took()
    assert members[1].sync() is None
    at.failing[CONSUMER_OFFSETS] = ErrorCode.not_enough_replicas
    assert members[0].sync({}).error_code == ErrorCode.coordinator_not_available
    assert members[1].synced().error_code == ErrorCode.coordinator_not_available
    assert classic_group(at).state is GroupState.PREPARING_REBALANCE
    at.failing.clear()
    members[0].join()
    assert members[1].join().generation_id == 2


def test_a_group_goes_on_after_a_restart_and_who_is_not_heard_of_is_lost() -> None:
    at, (first, second) = settled()
    before = {name: (each.assignment, each.protocols) for name, each in classic_group(at).members.items()}
    at.restart()
    after = {name: (each.assignment, each.protocols) for name, each in classic_group(at).members.items()}
    assert after == before
    assert classic_group(at).state is GroupState.STABLE
    assert first.beat() == "none"
    assert first.sync().assignment == first.id.encode()
    at.pass_time(9_000)
    assert first.beat() == "none"
    at.pass_time(1_000)
    assert first.beat() == "rebalance_in_progress"
    assert second.beat() == "unknown_member_id"


# ---- admins


def test_groups_are_listed_and_described() -> None:
    at, (first, _) = settled()
    at.ask(
        "offset_commit",
        8,
        group_id="simple",
        member_id="",
        generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    )

    def listed(version: int = 5, **filters: Any) -> list[tuple[str, ...]]:
        return [
            (each.group_id, each.protocol_type, each.group_state, each.group_type)
            for each in at.ask("list_groups", version, **filters).groups
        ]

    stable, simple = ("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")
    assert listed() == [stable, simple]
    assert listed(states_filter=["stable"]) == [stable]
    assert listed(types_filter=["consumer"]) == []
    assert listed(types_filter=["CLASSIC"]) == [stable, simple]
    assert [each.group_id for each in at.ask("list_groups", 0).groups] == ["g", "simple"]
    found = at.ask("describe_groups", 6, groups=["g", "none"]).groups
    assert (found[0].group_state, found[0].protocol_data) == ("Stable", "range")
    assert found[0].members[0].member_assignment == first.id.encode()
    assert found[0].authorized_operations == -(1 << 31)
    asked = at.ask("describe_groups", 5, groups=["g"], include_authorized_operations=True).groups[0]
    assert asked.authorized_operations == 0b1101_0100_1000
    nobody = at.ask("describe_groups", 5, groups=["none"], include_authorized_operations=True).groups[0]
    assert nobody.authorized_operations == -(1 << 31)
    assert (found[0].members[0].client_id, found[0].members[0].client_host) == ("me", "/127.0.0.1")
    assert (found[1].group_state, found[1].error_code) == ("Dead", ErrorCode.group_id_not_found)
    (old,) = at.ask("describe_groups", 5, groups=["none"]).groups
    assert (old.group_state, old.error_code) == ("Dead", 0)


def test_only_empty_groups_are_deleted_and_with_all_they_have() -> None:
    at, (first, second) = settled()
    first.commit(5)

    def delete(*names: str) -> list[str]:
        return [each.error_code.name for each in at.ask("delete_groups", 2, groups_names=names).results]

    assert delete("g", "none", "") == ["non_empty_group", "group_id_not_found", "group_id_not_found"]
    for member in (first, second):
        member.leave()
    at.pass_time(60_000)
    at.failing[CONSUMER_OFFSETS] = ErrorCode.kafka_storage_error
    assert delete("g") == ["not_coordinator"]
    assert "g" in at.coordinators.groups.table.groups
    at.failing.clear()
    assert delete("g") == ["none"]
    for _ in range(2):
        assert not at.coordinators.groups.table.groups
        assert not at.coordinators.groups.table.offsets.groups()
        at.restart()
