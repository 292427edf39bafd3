"""Which handler answers which API."""

from __future__ import annotations

from tidelog.broker.context import Handler
from tidelog.broker.handlers import configs, log_dirs, metadata, offsets, replicas, topics, versions
from tidelog.broker.handlers.fetch import fetch
from tidelog.broker.handlers.produce import produce

__all__ = ["HANDLERS"]

HANDLERS: dict[str, Handler] = {
    "ApiVersions": versions.api_versions,
    "SaslHandshake": versions.late_handshake,
    "SaslAuthenticate": versions.late_authenticate,
    "Metadata": metadata.metadata,
    "DescribeCluster": metadata.describe_cluster,
    "DescribeTopicPartitions": metadata.describe_topic_partitions,
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": offsets.list_offsets,
    "OffsetForLeaderEpoch": offsets.offset_for_leader_epoch,
    "DeleteRecords": offsets.delete_records,
    "CreateTopics": topics.create_topics,
    "DeleteTopics": topics.delete_topics,
    "CreatePartitions": topics.create_partitions,
    "DescribeConfigs": configs.describe_configs,
    "IncrementalAlterConfigs": configs.incremental_alter_configs,
    "AlterConfigs": configs.alter_configs,
    "ListConfigResources": configs.list_config_resources,
    "DescribeLogDirs": log_dirs.describe_log_dirs,
    "AlterReplicaLogDirs": log_dirs.alter_replica_log_dirs,
    "DescribeProducers": log_dirs.describe_producers,
    "ElectLeaders": replicas.elect_leaders,
    "AlterPartitionReassignments": replicas.alter_partition_reassignments,
    "ListPartitionReassignments": replicas.list_partition_reassignments,
}
"""By the API's name. Those of groups and transactions are in `coordinators.COORDINATED`."""
