"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments, as a cluster of one answers them.

This broker leads every partition and has its only replica: no election is needed, nothing is reassigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.broker.context import Broker, Client, Values
from tidelog.broker.errors import Code

__all__ = ["alter_partition_reassignments", "elect_leaders", "list_partition_reassignments"]

_ELECTIONS = (0, 1)


def elect_leaders(request: Any, broker: Broker, client: Client) -> Values:
    """No partition needs an election; one that is not there is told. All of them: nothing to tell."""
    if getattr(request, "election_type", 0) not in _ELECTIONS:
        return {"error_code": Code.INVALID_REQUEST, "replica_election_results": []}
    results = [
        {
            "topic": asked.topic,
            "partition_result": [
                {"partition_id": number, **_election(broker, asked.topic, number)}
                for number in asked.partitions
            ],
        }
        for asked in request.topic_partitions or ()
    ]
    return {"error_code": Code.NONE, "replica_election_results": results}


def _election(broker: Broker, topic: str, number: int) -> Values:
    if broker.catalog.log(topic, number) is None:
        return _unknown(topic, number)
    return {"error_code": Code.ELECTION_NOT_NEEDED, "error_message": None}


def alter_partition_reassignments(request: Any, broker: Broker, client: Client) -> Values:
    """A partition stays where it is: on this broker, and nowhere else."""
    responses = [
        {
            "name": asked.name,
            "partitions": [
                {
                    "partition_index": one.partition_index,
                    **_reassignment(broker, asked.name, one.partition_index, one.replicas),
                }
                for one in asked.partitions
            ],
        }
        for asked in request.topics
    ]
    allows = getattr(request, "allow_replication_factor_change", True)
    return {"error_code": Code.NONE, "allow_replication_factor_change": allows, "responses": responses}


def _reassignment(broker: Broker, topic: str, number: int, replicas: Sequence[int] | None) -> Values:
    node_id = broker.catalog.node_id
    if broker.catalog.log(topic, number) is None:
        return _unknown(topic, number)
    if replicas is None:
        return {"error_code": Code.NO_REASSIGNMENT_IN_PROGRESS, "error_message": None}
    if tuple(replicas) != (node_id,):
        said = f"there is one broker, {node_id}: it must be the only replica"
        return {"error_code": Code.INVALID_REPLICA_ASSIGNMENT, "error_message": said}
    return {"error_code": Code.NONE, "error_message": None}


def list_partition_reassignments(request: Any, broker: Broker, client: Client) -> Values:
    """Nothing is being reassigned."""
    return {"error_code": Code.NONE, "topics": []}


def _unknown(topic: str, number: int) -> Values:
    said = f"there is no partition {topic}-{number}"
    return {"error_code": Code.UNKNOWN_TOPIC_OR_PARTITION, "error_message": said}
