"""Consumer groups whatever happens: no partition has two readers, and in the end each has one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.broker.members import (
    Consumer,
    consumer_group,
    settle,
)
from tests.broker.world import Topics, World
from tidelog.broker.effects import CONSUMER_OFFSETS
from tidelog.broker.groups.assignors import ASSIGNORS, Subscriber
from tidelog.broker.groups.consumer_group import ConsumerGroup


@st.composite
def actions(draw: st.DrawFn) -> list[tuple[str, int, Any]]:
    names = ["beat", "beat", "beat", "join", "leave", "subscribe", "grow", "wait", "restart", "fail", "topic"]
    one = st.tuples(st.sampled_from(names), st.integers(0, 3), st.integers(0, 7))
    return draw(st.lists(one, min_size=5, max_size=40))


TOPICS = ("t", "u", "v")


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=actions(), assignor=st.sampled_from(["uniform", "range"]))
def test_no_partition_has_two_readers_and_in_the_end_each_has_one(
    actions: list[tuple[str, int, Any]], assignor: str
) -> None:
    at = World(topics=Topics(t=3, u=2))
    consumers = [Consumer(at, f"m{number}", "t", server_assignor=assignor) for number in range(4)]
    here: set[int] = set()
    for action, number, argument in actions:
        consumer = consumers[number]
        topics = [topic for bit, topic in enumerate(TOPICS) if argument >> bit & 1]
        if action == "fail":
            at.failing[CONSUMER_OFFSETS] = ErrorCode.not_enough_replicas
        match action:
            case "join" if number not in here:
                consumer.epoch, consumer.owned = 0, {}
                if consumer.beat().error_code is ErrorCode.none:
                    here.add(number)
            case "leave" if number in here:
                consumer.leave()
                here.discard(number)
            case "subscribe" if number in here:
                consumer.said["subscribed_topic_names"] = topics
                consumer.beat(full=True)
            case "grow":
                at.topics.counts["t"] = min(at.topics.counts["t"] + 1, 6)
            case "topic":
                at.topics.counts.setdefault("v", 2)
            case "wait":
                at.pass_time(argument * 5_000)
            case "restart":
                before = consumer_group(at).draft() if here else None
                at.restart()
                assert before is None or consumer_group(at) == before
            case _ if number in here:
                consumer.beat()
        at.failing.clear()
        known = at.coordinators.groups.table.groups.get("g")
        members = known.members if isinstance(known, ConsumerGroup) else {}
        for each in sorted(here):
            if consumers[each].id not in members:
                here.discard(each)
                consumers[each].epoch, consumers[each].owned = 0, {}
        held = [part for member in members.values() for part in (*member.assigned, *member.revoking)]
        assert len(held) == len(set(held))
    active = [consumers[number] for number in sorted(here)]
    for consumer in active:
        consumer.beat(full=True)
    settle(*active)
    if active:
        settle(*active)
        assert consumer_group(at).state_name == "Stable"
        wanted = {topic for consumer in active for topic in consumer.said["subscribed_topic_names"]}
        every = [(topic, part) for topic in sorted(wanted) for part in range(at.topics.counts.get(topic, 0))]
        assert sorted(part for consumer in active for part in consumer.has) == every
        for consumer in active:
            assert {topic for topic, _ in consumer.has} <= set(consumer.said["subscribed_topic_names"])


IDS = [UUID(int=number) for number in range(1, 5)]


@settings(max_examples=300, deadline=None)
@given(
    counts=st.dictionaries(st.sampled_from(IDS), st.integers(0, 7)),
    subscriptions=st.lists(st.frozensets(st.sampled_from(IDS)), min_size=1, max_size=5),
    same=st.booleans(),
    name=st.sampled_from(sorted(ASSIGNORS)),
    data=st.data(),
)
def test_assignors_give_each_partition_to_one_subscriber(
    counts: dict[UUID, int],
    subscriptions: list[frozenset[UUID]],
    same: bool,
    name: str,
    data: st.DataObject,
) -> None:
    parts = [(topic, number) for topic, count in counts.items() for number in range(count + 1)]
    owners = data.draw(st.lists(st.integers(0, len(subscriptions)), min_size=len(parts), max_size=len(parts)))
    members = [
        Subscriber(
            f"m{index}",
            subscriptions[0] if same else topics,
            owned=frozenset(part for part, owner in zip(parts, owners, strict=True) if owner == index),
        )
        for index, topics in enumerate(subscriptions)
    ]
    found = ASSIGNORS[name](members, counts)
    given = [part for each in found.values() for part in each]
    read = {topic for member in members for topic in member.topics}
    assert sorted(given) == sorted(
        (topic, n) for topic in counts if topic in read for n in range(counts[topic])
    )
    for member in members:
        assert {topic for topic, _ in found[member.member_id]} <= member.topics
    if name == "uniform":
        sizes = [len(each) for each in found.values()]
        if same:
            assert max(sizes) - min(sizes) <= 1
        again = [Subscriber(each.member_id, each.topics, owned=found[each.member_id]) for each in members]
        assert ASSIGNORS[name](again, counts) == found
