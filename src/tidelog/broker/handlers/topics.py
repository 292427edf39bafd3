"""CreateTopics, DeleteTopics and CreatePartitions. There is one broker: one replica, always on this node."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tidelog.broker.catalog import ServedLog
from tidelog.broker.context import Broker, Client, Values
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.broker.handlers.configs import check_config, described_config
from tidelog.errors import ConfigError, InvalidInputError, TidelogError
from tidelog.storage.names import colliding_topic, validate_topic

__all__ = ["create_partitions", "create_topics", "delete_topics"]

_NO_ID = uuid.UUID(int=0)
_MOST_PARTITIONS = 10_000
"""Of one new topic, as in Kafka, whose controller takes no more records at once."""


async def create_topics(request: Any, broker: Broker, client: Client) -> Values:
    """Create topics, each by itself; with `validate_only` only say whether that would work."""
    named = Counter(topic.name for topic in request.topics)

    def create() -> list[Values]:
        once = {topic.name: topic for topic in request.topics}.values()
        return [_create(broker, topic, request.validate_only, named[topic.name]) for topic in once]

    topics = await broker.in_thread(create)
    broker.refresh()
    return {"topics": topics}


def _create(broker: Broker, asked: Any, validate_only: bool, times: int) -> Values:
    def work() -> Values:
        if times > 1:
            raise RefusedError(Code.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
        store = broker.catalog.store
        _check_name(broker, asked.name)
        count = _count(broker, asked)
        config = {one.name: one.value for one in asked.configs}
        if None in config.values():
            raise ConfigError("Null value not supported for topic configs")
        defaults = store.config.topic_defaults
        check_config(config, defaults)
        topic_id = None
        if not validate_only:
            topic_id = store.create_topic(asked.name, count, config).topic_id
        return {
            "name": asked.name,
            "topic_id": topic_id,
            "error_code": Code.NONE,
            "num_partitions": count,
            "replication_factor": 1,
            "configs": described_config(config, store.config),
        }

    return _tried(work, {"name": asked.name, "configs": None})


def _check_name(broker: Broker, name: str) -> None:
    try:
        validate_topic(name)
    except InvalidInputError as error:
        raise RefusedError(Code.INVALID_TOPIC_EXCEPTION, str(error)) from None
    if broker.catalog.topic(name) is not None:
        raise RefusedError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = colliding_topic(name, broker.catalog.names())
    if other is not None:
        raise RefusedError(
            Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )


def _count(broker: Broker, asked: Any) -> int:
    """How many partitions a new topic is to have."""
    node_id = broker.catalog.node_id
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise RefusedError(
                Code.INVALID_REQUEST, "assignments are given: number of partitions and replicas must be -1"
            )
        if sorted(one.partition_index for one in asked.assignments) != list(range(len(asked.assignments))):
            raise RefusedError(
                Code.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0 on, without gaps"
            )
        if any(tuple(one.broker_ids) != (node_id,) for one in asked.assignments):
            raise RefusedError(Code.INVALID_REPLICA_ASSIGNMENT, f"there is one broker, {node_id}")
        return len(asked.assignments)
    if asked.replication_factor not in (-1, 1):
        raise RefusedError(
            Code.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {asked.replication_factor} time(s): there is one broker",
        )
    count: int = asked.num_partitions
    if count == -1:
        count = broker.catalog.store.config.num_partitions
    if count < 1:
        raise RefusedError(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid value")
    if count > _MOST_PARTITIONS:
        raise RefusedError(Code.POLICY_VIOLATION, f"{count} partitions at once; {_MOST_PARTITIONS} at most")
    return count


def _tried(work: Callable[[], Values], otherwise: Values) -> Values:
    try:
        return work()
    except (TidelogError, RefusedError, OSError) as error:
        return {**otherwise, "error_code": code_of(error), "error_message": str(error)}


async def delete_topics(request: Any, broker: Broker, client: Client) -> Values:
    """Delete topics by name or id; their files follow after `file.delete.delay.ms`."""
    wanted: list[tuple[str | None, uuid.UUID | None]] = []
    if hasattr(request, "topics"):
        wanted = [
            (topic.name, None if topic.topic_id == _NO_ID else topic.topic_id) for topic in request.topics
        ]
    else:
        wanted = [(name, None) for name in request.topic_names]
    times = Counter(wanted)
    deleted: list[str] = []

    def delete() -> list[Values]:
        return [_delete(broker, *each, times[each], deleted) for each in times]

    responses = await broker.in_thread(delete)
    gone = [log.topic_partition for name in deleted for log in _logs(broker, name)]
    broker.refresh()
    for partition in gone:  # whoever waits for its records would wait in vain
        broker.watchers.notify(partition)
    if deleted:
        broker.topics_deleted(tuple(deleted))
    return {"responses": responses}


def _logs(broker: Broker, name: str) -> Iterable[ServedLog]:
    """The logs of a topic, as they are still listed."""
    topic = broker.catalog.topic(name)
    return () if topic is None else topic.logs.values()


def _delete(
    broker: Broker, name: str | None, topic_id: uuid.UUID | None, times: int, deleted: list[str]
) -> Values:
    def work() -> Values:
        if (name is None) == (topic_id is None):
            raise RefusedError(Code.INVALID_REQUEST, "a topic is named by its name or its id")
        if times > 1:
            raise RefusedError(Code.INVALID_REQUEST, "the topic is named twice")
        found = name if topic_id is None else broker.catalog.topic_name(topic_id)
        if found is None:
            raise RefusedError(Code.UNKNOWN_TOPIC_ID, "there is no topic with this id")
        topic = broker.catalog.topic(found)
        if topic is None:
            raise RefusedError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {found!r}")
        if not broker.settings.delete_topic_enable:
            raise RefusedError(Code.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        broker.catalog.store.delete_topic(found)
        deleted.append(found)
        return {"name": found, "topic_id": topic.topic_id, "error_code": Code.NONE}

    return _tried(work, {"name": name, "topic_id": topic_id})


async def create_partitions(request: Any, broker: Broker, client: Client) -> Values:
    """Give topics more partitions."""
    named = Counter(topic.name for topic in request.topics)

    def grow() -> list[Values]:
        once = {topic.name: topic for topic in request.topics}.values()
        return [_grow(broker, topic, request.validate_only, named[topic.name]) for topic in once]

    results = await broker.in_thread(grow)
    broker.refresh()
    return {"results": results}


def _grow(broker: Broker, asked: Any, validate_only: bool, times: int) -> Values:
    def work() -> Values:
        if times > 1:
            raise RefusedError(Code.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
        store = broker.catalog.store
        topic = broker.catalog.topic(asked.name)
        if topic is None:
            raise RefusedError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name!r}")
        more = asked.count - len(topic.logs)
        if more <= 0:
            said = "already has" if more == 0 else "currently has"
            raise RefusedError(
                Code.INVALID_PARTITIONS, f"The topic {asked.name} {said} {len(topic.logs)} partition(s)"
            )
        if more > _MOST_PARTITIONS:
            raise RefusedError(
                Code.POLICY_VIOLATION, f"{more} partitions at once; {_MOST_PARTITIONS} at most"
            )
        assigned = asked.assignments
        if assigned is not None:
            node_id = broker.catalog.node_id
            if len(assigned) != more or any(tuple(one.broker_ids) != (node_id,) for one in assigned):
                raise RefusedError(
                    Code.INVALID_REPLICA_ASSIGNMENT, f"{more} new partitions, each on broker {node_id}"
                )
        if not validate_only:
            store.create_partitions(asked.name, asked.count)
        return {"name": asked.name, "error_code": Code.NONE, "error_message": None}

    return _tried(work, {"name": asked.name})
