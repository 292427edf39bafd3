"""Metadata, DescribeCluster and DescribeTopicPartitions: which topics there are, on the one broker.

A topic that is asked for by name and missing is created where client and broker both want that. An offline
partition has no leader.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from tidelog.broker.catalog import ServedLog, ServedTopic
from tidelog.broker.context import Answer, Broker, Client, Values
from tidelog.broker.errors import Code, code_of
from tidelog.errors import InvalidInputError, TidelogError, TopicExistsError
from tidelog.storage.names import validate_topic

__all__ = ["describe_cluster", "describe_topic_partitions", "is_internal", "metadata"]

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NO_OPERATIONS = -(1 << 31)
_NO_ID = uuid.UUID(int=0)
_TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, and both of configs: nobody is kept from anything."""
_CONTROLLERS = 2
_CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def is_internal(name: str) -> bool:
    """Whether a topic is a broker's own."""
    return name in _INTERNAL


def metadata(request: Any, broker: Broker, client: Client) -> Answer:
    """Brokers, and the topics that are asked for."""
    asked = request.topics
    if asked is None or (request.__version__ == 0 and not asked):
        return _metadata(request, broker, client, sorted(broker.catalog.names()))
    missing = _to_create(request, broker)
    if missing:
        return _create_first(request, broker, client, missing)
    return _metadata(request, broker, client, asked)


def _to_create(request: Any, broker: Broker) -> list[str]:
    """The topics to be created by themselves."""
    wanted = getattr(request, "allow_auto_topic_creation", True)
    if not (wanted and broker.settings.auto_create_topics_enable and broker.catalog.is_writable):
        return []
    names = [topic.name for topic in request.topics if topic.name is not None]
    return [name for name in names if broker.catalog.topic(name) is None and not is_internal(name)]


async def _create_first(request: Any, broker: Broker, client: Client, missing: list[str]) -> Values:
    failed: dict[str, int] = {}

    def create() -> None:
        for name in missing:
            try:
                broker.catalog.store.create_topic(name)
            except TopicExistsError:
                pass
            except (OSError, TidelogError) as error:
                bad_name = isinstance(error, InvalidInputError)
                failed[name] = Code.INVALID_TOPIC_EXCEPTION if bad_name else code_of(error)

    await broker.in_thread(create)
    broker.refresh()
    return _metadata(request, broker, client, request.topics, failed)


def _metadata(
    request: Any, broker: Broker, client: Client, asked: Iterable[Any], failed: dict[str, int] | None = None
) -> Values:
    with_operations = getattr(request, "include_topic_authorized_operations", False)
    topics = [_topic(one, broker, with_operations, failed or {}) for one in asked]
    node = broker.advertised[client.listener]
    of_cluster = getattr(request, "include_cluster_authorized_operations", False)
    return {
        "brokers": [{"node_id": broker.catalog.node_id, "host": node.host, "port": node.port}],
        "cluster_id": broker.catalog.cluster_id,
        "controller_id": broker.catalog.node_id,
        "topics": topics,
        "cluster_authorized_operations": _CLUSTER_OPERATIONS if of_cluster else _NO_OPERATIONS,
    }


def _topic(asked: Any, broker: Broker, with_operations: bool, failed: dict[str, int]) -> Values:
    name = asked if isinstance(asked, str) else asked.name
    topic_id = None if isinstance(asked, str) else getattr(asked, "topic_id", None)
    if name is None and topic_id is not None and topic_id != _NO_ID:
        name = broker.catalog.topic_name(topic_id)
        if name is None:
            return {"error_code": Code.UNKNOWN_TOPIC_ID, "topic_id": topic_id, "name": None}
    if name is None:
        return {"error_code": Code.INVALID_REQUEST, "name": None}
    topic = broker.catalog.topic(name)
    if topic is None:
        return {"error_code": failed.get(name) or _why_missing(name), "name": name}
    return {
        "error_code": Code.NONE,
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(name),
        "partitions": [_partition(n, log, broker.catalog.node_id) for n, log in topic.logs.items()],
        "topic_authorized_operations": _TOPIC_OPERATIONS if with_operations else _NO_OPERATIONS,
    }


def _why_missing(name: str) -> Code:
    try:
        validate_topic(name)
    except InvalidInputError:
        return Code.INVALID_TOPIC_EXCEPTION
    return Code.UNKNOWN_TOPIC_OR_PARTITION


def _partition(number: int, log: ServedLog, node_id: int) -> Values:
    online = log.is_online
    return {
        "error_code": Code.NONE if online else Code.LEADER_NOT_AVAILABLE,
        "partition_index": number,
        "leader_id": node_id if online else -1,
        "leader_epoch": log.leader_epoch,
        "replica_nodes": [node_id],
        "isr_nodes": [node_id],
        "offline_replicas": [] if online else [node_id],
        # DescribeTopicPartitions
        "eligible_leader_replicas": [],
        "last_known_elr": [],
    }


def describe_cluster(request: Any, broker: Broker, client: Client) -> Values:
    """The one broker there is. It is its own controller, which has no address that clients could use."""
    endpoint_type = getattr(request, "endpoint_type", 1)
    if endpoint_type != 1:
        is_known = endpoint_type == _CONTROLLERS
        return {
            "error_code": Code.MISMATCHED_ENDPOINT_TYPE if is_known else Code.UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": "this is a broker, and was asked for controllers",
            "endpoint_type": endpoint_type,
        }
    node = broker.advertised[client.listener]
    with_operations = request.include_cluster_authorized_operations
    return {
        "endpoint_type": 1,
        "cluster_id": broker.catalog.cluster_id,
        "controller_id": broker.catalog.node_id,
        "brokers": [{"broker_id": broker.catalog.node_id, "host": node.host, "port": node.port}],
        "cluster_authorized_operations": _CLUSTER_OPERATIONS if with_operations else _NO_OPERATIONS,
    }


def describe_topic_partitions(request: Any, broker: Broker, client: Client) -> Values:
    """Topics in order, as many partitions as are wanted, and where to go on."""
    cursor = request.cursor
    named = [topic.name for topic in request.topics]
    names = sorted(set(named) if named else set(broker.catalog.names()))
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = max(1, min(request.response_partition_limit, broker.settings.max_request_partition_size_limit))
    topics: list[Values] = []
    left = limit
    for name in names:
        topic = broker.catalog.topic(name)
        if topic is None:
            topics.append({"error_code": _why_missing(name), "name": name})
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        numbers = [number for number in topic.logs if number >= first]
        if left == 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": first}}
        topics.append(_described(topic, numbers[:left], broker))
        if len(numbers) > left:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": numbers[left]}}
        left -= len(numbers)
    return {"topics": topics, "next_cursor": None}


def _described(topic: ServedTopic, numbers: list[int], broker: Broker) -> Values:
    return {
        "error_code": Code.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(topic.name),
        "partitions": [_partition(n, topic.logs[n], broker.catalog.node_id) for n in numbers],
        "topic_authorized_operations": _TOPIC_OPERATIONS,
    }
