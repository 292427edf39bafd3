"""Groups of the consumer protocol without sockets: assignment, reconciliation, static members, restarts."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.members import (
    Consumer,
    Member,
    consumer_group,
    settle,
)
from tests.broker.world import Topics, World
from tidelog.broker.effects import CONSUMER_OFFSETS
from tidelog.broker.groups import GroupConfig
from tidelog.broker.groups.consumer_group import MemberState

SESSION = 45_000


def world(**counts: int) -> World:
    return World(topics=Topics(**(counts or {"t": 3, "u": 2})))


def test_one_member_gets_all() -> None:
    at = world()
    one = Consumer(at, "a", "t", "u")
    answer = one.beat()
    assert (answer.member_id, answer.member_epoch, answer.error_code) == ("a", 1, 0)
    assert one.has == [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]
    assert consumer_group(at).state_name == "Stable"
    before = len(at.logs)
    answer = one.beat()
    assert (answer.assignment, answer.member_epoch, len(at.logs)) == (None, 1, before)


def test_partitions_move_only_after_they_were_given_up() -> None:
    at = world(t=4)
    one, two = Consumer(at, "a", "t"), Consumer(at, "b", "t")
    one.beat()
    answer = two.beat()
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (2, ())
    assert consumer_group(at).members["b"].state is MemberState.UNRELEASED_PARTITIONS
    answer = one.beat(acknowledges=False)
    kept = {number for each in answer.assignment.topic_partitions for number in each.partitions}
    assert (answer.member_epoch, len(kept)) == (1, 2)
    assert consumer_group(at).members["a"].state is MemberState.UNREVOKED_PARTITIONS
    # As long as the first one says that it has them, the second one gets nothing.
    one.beat(acknowledges=False)
    assert two.beat().assignment is None
    one.owned = {topic: ids & kept for topic, ids in one.owned.items()}
    assert one.beat().member_epoch == 2
    assert two.beat().assignment is not None
    assert len(two.has) == 2
    assert sorted(one.has + two.has) == [("t", number) for number in range(4)]
    assert consumer_group(at).state_name == "Stable"


def test_a_member_that_does_not_give_up_in_time_is_out() -> None:
    at = world(t=4)
    one, two = Consumer(at, "a", "t"), Consumer(at, "b", "t")
    one.beat()
    two.beat()
    for _ in range(4):
        one.beat(acknowledges=False)
        two.beat()
        at.pass_time(20_000)
    assert one.beat().error_code == ErrorCode.unknown_member_id
    settle(two)
    assert len(two.has) == 4


def test_a_silent_member_is_lost_and_the_others_take_over() -> None:
    at = world(t=4)
    one, two = Consumer(at, "a", "t"), Consumer(at, "b", "t")
    settle(one, two)
    for _ in range(5):
        at.pass_time(SESSION // 5)
        two.beat()
    assert "a" not in consumer_group(at).members
    settle(two)
    assert len(two.has) == 4
    assert one.beat().error_code == ErrorCode.unknown_member_id


def test_members_leave() -> None:
    at = world(t=4)
    one, two = Consumer(at, "a", "t"), Consumer(at, "b", "t")
    settle(one, two)
    answer = one.leave()
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    settle(two)
    assert len(two.has) == 4
    two.leave()
    assert consumer_group(at).state_name == "Empty"
    at.restart()
    assert consumer_group(at).is_empty


def test_new_partitions_and_topics_are_noticed() -> None:
    at = world(t=2)
    one = Consumer(at, "a", "t", "later")
    one.beat()
    assert one.has == [("t", 0), ("t", 1)]
    at.topics.counts["t"] = 3
    one.beat()
    assert one.has == [("t", 0), ("t", 1), ("t", 2)]
    at.topics.counts["later"] = 1
    one.beat()
    assert one.has == [("later", 0), ("t", 0), ("t", 1), ("t", 2)]
    del at.topics.counts["t"]
    one.beat()
    one.beat()
    assert one.has == [("later", 0)]


def test_a_member_changes_its_subscription() -> None:
    at = world()
    one = Consumer(at, "a", "t")
    one.beat()
    one.beat(subscribed_topic_names=["u"])
    one.beat()
    one.beat()
    assert one.has == [("u", 0), ("u", 1)]
    assert consumer_group(at).state_name == "Stable"


def test_a_regular_expression_finds_topics_and_later_ones() -> None:
    at = world(logs_a=1, logs_b=1, other=1)
    one = Consumer(at, "a", subscribed_topic_names=None, subscribed_topic_regex="logs_.*")
    one.beat()
    one.beat()
    assert one.has == [("logs_a", 0), ("logs_b", 0)]
    at.topics.counts["logs_c"] = 1
    at.pass_time(10_001)
    one.beat()
    assert one.has == [("logs_a", 0), ("logs_b", 0), ("logs_c", 0)]
    assert list(consumer_group(at).regexes) == ["logs_.*"]
    at.restart()
    assert consumer_group(at).regexes["logs_.*"].topics == {"logs_a", "logs_b", "logs_c"}
    one.leave()
    assert consumer_group(at).regexes == {}
    answer = Consumer(at, "b", subscribed_topic_names=None, subscribed_topic_regex="(").beat()
    assert answer.error_code == ErrorCode.invalid_regular_expression


CHECKS = [
    ({"group_id": ""}, "invalid_request"),
    ({"member_id": ""}, "invalid_request"),
    ({"instance_id": ""}, "invalid_request"),
    ({"rack_id": ""}, "invalid_request"),
    ({"rebalance_timeout": -1}, "invalid_request"),
    ({"topic_partitions": None}, "invalid_request"),
    ({"subscribed_topic_names": None}, "invalid_request"),
    ({"member_epoch": -3}, "invalid_request"),
    ({"member_epoch": -2}, "invalid_request"),
    ({"server_assignor": "sticky"}, "unsupported_assignor"),
    ({"group_id": "none", "member_epoch": 1}, "group_id_not_found"),
    ({"group_id": "none", "member_epoch": -1}, "group_id_not_found"),
    ({"member_id": "stranger", "member_epoch": 1}, "unknown_member_id"),
    ({"member_id": "stranger", "member_epoch": -1}, "unknown_member_id"),
    ({"member_epoch": 2}, "fenced_member_epoch"),
    ({"instance_id": "i", "member_epoch": 1}, "unknown_member_id"),
]


@pytest.mark.parametrize(("change", "code"), CHECKS)
def test_heartbeats_that_are_refused(change: dict[str, Any], code: str) -> None:
    at = world()
    one = Consumer(at, "a", "t")
    one.beat()
    one.epoch = 0
    assert one.beat(**change).error_code.name == code


def test_the_epoch_before_is_taken_if_the_answer_may_have_been_lost() -> None:
    at = world(t=4)
    one, two = Consumer(at, "a", "t"), Consumer(at, "b", "t")
    settle(one, two)
    two.leave()
    before, had = one.epoch, dict(one.owned)
    one.beat()
    assert one.epoch == before + 1
    one.epoch, one.owned = before, had
    assert one.beat().member_epoch == before + 1
    one.epoch -= 2
    assert one.beat().error_code == ErrorCode.fenced_member_epoch
    one.epoch, one.owned = 0, {}
    assert one.beat().error_code == 0


def test_a_full_group_refuses_newcomers_only() -> None:
    at = World(options={"group_config": GroupConfig(consumer_max_size=1)})
    one = Consumer(at, "a", "t")
    one.beat()
    assert Consumer(at, "b", "t").beat().error_code == ErrorCode.group_max_size_reached
    assert one.beat().error_code == 0


# ---- static members


def test_a_static_member_comes_back_to_what_it_had() -> None:
    at = world(t=4)
    one = Consumer(at, "a", "t", instance_id="i")
    two = Consumer(at, "b", "t", instance_id="j")
    settle(one, two)
    had, epoch = one.has, consumer_group(at).epoch
    again = Consumer(at, "c", "t", instance_id="i")
    assert again.beat().error_code == ErrorCode.unreleased_instance_id
    assert again.ask(member_epoch=1, topic_partitions=[]).error_code == ErrorCode.fenced_instance_id
    assert one.leave(-2).member_epoch == -2
    assert again.beat().member_epoch == epoch
    assert again.has == had
    assert consumer_group(at).epoch == epoch
    assert "a" not in consumer_group(at).members
    at.restart()
    assert again.beat().error_code == 0


def test_a_static_member_that_stays_away_is_lost() -> None:
    at = world(t=4)
    one = Consumer(at, "a", "t", instance_id="i")
    one.beat()
    one.leave(-2)
    assert consumer_group(at).members["a"].epoch == -2
    at.pass_time(SESSION)
    assert consumer_group(at).is_empty


# ---- offsets


def commit(consumer: Consumer, epoch: int, version: int = 9, part: int = 0) -> str:
    said = {"partition_index": part, "committed_offset": 5}
    answer = consumer.at.ask(
        "offset_commit",
        version,
        group_id="g",
        member_id=consumer.id,
        generation_id_or_member_epoch=epoch,
        topics=[{"name": "t", "partitions": [said]}],
    )
    return str(answer.topics[0].partitions[0].error_code.name)


def test_commits_and_fetches_check_the_epoch() -> None:
    at = world(t=2)
    one, two = Consumer(at, "a", "t"), Consumer(at, "b", "t")
    one.beat()
    assert commit(one, 1) == "none"
    assert commit(one, 2) == "stale_member_epoch"
    assert commit(one, 1, version=8) == "unsupported_version"
    assert commit(Consumer(at, "x"), 1) == "unknown_member_id"
    settle(one, two)
    mine = one.has[0][1]
    # The partition was assigned in epoch 1: a commit of that epoch is late, but right.
    assert commit(one, 1, part=mine) == "none"
    assert commit(two, 1, part=two.has[0][1]) == "stale_member_epoch"
    assert commit(one, 1, part=two.has[0][1]) == "stale_member_epoch"

    def fetch(member_id: str | None, epoch: int) -> str:
        wanted = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "topics": None}
        return str(at.ask("offset_fetch", 9, groups=[wanted]).groups[0].error_code.name)

    assert fetch(None, -1) == "none"
    assert fetch("a", one.epoch) == "none"
    assert fetch("a", one.epoch - 1) == "stale_member_epoch"
    assert fetch("x", 1) == "unknown_member_id"


# ---- other protocols and admins


def test_an_empty_group_changes_its_protocol_and_keeps_its_offsets() -> None:
    at = world()
    one = Consumer(at, "a", "t")
    one.beat()
    assert commit(one, 1) == "none"
    classic = Member(at)
    assert classic.join().error_code == ErrorCode.inconsistent_group_protocol
    one.leave()
    classic.join()
    at.pass_time(6_000)
    assert classic.took().generation_id == 1
    assert Consumer(at, "b", "t").beat().error_code == ErrorCode.group_id_not_found
    classic.leave()
    at.pass_time(60_000)
    for _ in range(2):
        answer = at.ask("offset_fetch", 8, groups=[{"group_id": "g", "topics": None}])
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 5
        at.restart()
    assert Consumer(at, "b", "t").beat().error_code == 0
    at.restart()
    assert list(consumer_group(at).members) == ["b"]


def test_groups_are_described_and_deleted() -> None:
    at = world()
    one = Consumer(at, "a", "t", server_assignor="range")
    one.beat()
    found, none = at.ask("consumer_group_describe", 1, group_ids=["g", "none"]).groups
    (empty,) = at.ask("consumer_group_describe", 1, group_ids=[""]).groups
    assert empty.error_code == ErrorCode.invalid_group_id
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)
    assert (found.assignor_name, found.members[0].member_type) == ("range", 1)
    (parts,) = found.members[0].assignment.topic_partitions
    assert (parts.topic_name, parts.partitions) == ("t", (0, 1, 2))
    assert found.members[0].target_assignment == found.members[0].assignment
    assert none.error_code == ErrorCode.group_id_not_found
    (listed,) = at.ask("list_groups", 5, types_filter=["consumer"]).groups
    assert (listed.group_type, listed.group_state, listed.protocol_type) == ("consumer", "Stable", "consumer")
    assert at.ask("describe_groups", 6, groups=["g"]).groups[0].error_code == ErrorCode.group_id_not_found
    assert at.ask("delete_groups", 2, groups_names=["g"]).results[0].error_code == ErrorCode.non_empty_group
    one.leave()
    assert at.ask("delete_groups", 2, groups_names=["g"]).results[0].error_code == 0
    at.restart()
    assert not at.coordinators.groups.table.groups


def test_a_heartbeat_that_cannot_be_written_changes_nothing() -> None:
    at = world()
    one = Consumer(at, "a", "t")
    at.failing[CONSUMER_OFFSETS] = ErrorCode.not_enough_replicas
    assert one.beat().error_code == ErrorCode.coordinator_not_available
    assert not at.coordinators.groups.table.groups
    at.failing.clear()
    one.beat()
    before = consumer_group(at).draft()
    at.failing[CONSUMER_OFFSETS] = ErrorCode.not_enough_replicas
    Consumer(at, "b", "t").beat()
    at.pass_time(SESSION)
    assert consumer_group(at) == before
    at.failing.clear()
    at.pass_time(1_000)
    assert consumer_group(at).is_empty
