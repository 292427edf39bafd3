"""DescribeLogDirs, AlterReplicaLogDirs and DescribeProducers: what is on which disk, and who writes."""

from __future__ import annotations

from typing import Any

from tidelog.broker.catalog import HeldLog
from tidelog.broker.context import Broker, Client, Values
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.errors import TidelogError
from tidelog.manager.store.store import Store
from tidelog.storage.space import disk_space

__all__ = ["alter_replica_log_dirs", "describe_log_dirs", "describe_producers"]


def describe_log_dirs(request: Any, broker: Broker, client: Client) -> Values:
    """The roots, their free space and what they hold."""
    try:
        store = broker.catalog.store
    except RefusedError as error:
        return {"error_code": error.code, "results": []}
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    return {"error_code": Code.NONE, "results": [_root(store, root, wanted) for root in store.roots]}


def _root(store: Store, root: Any, wanted: set[tuple[str, int]] | None) -> Values:
    if root.offline is not None:
        return {"error_code": Code.KAFKA_STORAGE_ERROR, "log_dir": root.path}
    topics: dict[str, list[Values]] = {}
    for partition in store.partitions:
        name = partition.topic_partition
        if partition.root is not root or not partition.is_online:
            continue
        if wanted is None or (name.topic, name.partition) in wanted:
            topics.setdefault(name.topic, []).append(
                {
                    "partition_index": name.partition,
                    "partition_size": partition.log.size,
                    "offset_lag": 0,
                    "is_future_key": False,
                }
            )
    total, usable = disk_space(root.path)
    return {
        "error_code": Code.NONE,
        "log_dir": root.path,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        "total_bytes": total,
        "usable_bytes": usable,
    }


async def alter_replica_log_dirs(request: Any, broker: Broker, client: Client) -> Values:
    """Move partitions to other roots. The response comes when they have moved."""
    results: dict[str, list[Values]] = {}
    moves: list[tuple[str, int, str]] = []
    for wanted in request.dirs:
        for topic in wanted.topics:
            for number in topic.partitions:
                code = _check_move(broker, wanted.path, topic.name, number)
                results.setdefault(topic.name, []).append({"partition_index": number, "error_code": code})
                if code == Code.NONE:
                    moves.append((topic.name, number, wanted.path))
    failed = await broker.in_thread(lambda: _move_all(broker, moves))
    return {
        "results": [
            {
                "topic_name": name,
                "partitions": [
                    {**part, "error_code": failed.get((name, part["partition_index"]), part["error_code"])}
                    for part in parts
                ],
            }
            for name, parts in results.items()
        ],
    }


def _move_all(broker: Broker, moves: list[tuple[str, int, str]]) -> dict[tuple[str, int], int]:
    """Move partitions; the codes of those that failed."""
    failed: dict[tuple[str, int], int] = {}
    for topic, number, path in moves:
        try:
            broker.catalog.store.move_partition(topic, number, path)
        except (TidelogError, OSError) as error:
            failed[topic, number] = code_of(error)
    return failed


def _check_move(broker: Broker, path: str, topic: str, number: int) -> int:
    try:
        store = broker.catalog.store
    except RefusedError as error:
        return error.code
    if path not in [root.path for root in store.roots]:
        return Code.LOG_DIR_NOT_FOUND
    log = broker.catalog.log(topic, number)
    if log is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    return Code.NONE if log.is_online else Code.KAFKA_STORAGE_ERROR


def describe_producers(request: Any, broker: Broker, client: Client) -> Values:
    """The producers that a log remembers."""
    topics = []
    for topic in request.topics:
        partitions = [_producers(broker, topic.name, number) for number in topic.partition_indexes]
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _producers(broker: Broker, name: str, number: int) -> Values:
    log = broker.catalog.log(name, number)
    if log is None:
        return {"partition_index": number, "error_code": Code.UNKNOWN_TOPIC_OR_PARTITION}
    if not isinstance(log, HeldLog):
        return {"partition_index": number, "error_code": Code.CLUSTER_AUTHORIZATION_FAILED}
    try:
        producers = log.partition.log.active_producers
    except TidelogError as error:
        return {"partition_index": number, "error_code": code_of(error), "error_message": str(error)}
    return {
        "partition_index": number,
        "error_code": Code.NONE,
        "active_producers": [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "last_sequence": one.last_sequence,
                "last_timestamp": one.last_timestamp,
                "coordinator_epoch": one.coordinator_epoch,
                "current_txn_start_offset": -1 if one.txn_first_offset is None else one.txn_first_offset,
            }
            for one in producers.values()
        ],
    }
