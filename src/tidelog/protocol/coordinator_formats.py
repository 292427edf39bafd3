"""The messages of the coordinators' topics, in the notation of `notation`.

A record's key begins with an i16, which says what the record is about (the api key here); its value begins
with an i16, the version. There is no other frame. Keys have one version each.
"""

from __future__ import annotations

__all__ = [
    "CONSUMER_PROTOCOL",
    "GROUP_KEYS",
    "GROUP_VALUES",
    "SHARE_KEYS",
    "SHARE_VALUES",
    "TRANSACTION_KEYS",
    "TRANSACTION_VALUES",
]

GROUP_KEYS = """
LegacyOffsetCommitKey 0 0 -: group string, topic string, partition int32
OffsetCommitKey 1 0 -: group string, topic string, partition int32
GroupMetadataKey 2 0 -: group string
ConsumerGroupMetadataKey 3 0 -: groupId string
ConsumerGroupPartitionMetadataKey 4 0 -: groupId string
ConsumerGroupMemberMetadataKey 5 0 -: groupId string, memberId string
ConsumerGroupTargetAssignmentMetadataKey 6 0 -: groupId string
ConsumerGroupTargetAssignmentMemberKey 7 0 -: groupId string, memberId string
ConsumerGroupCurrentMemberAssignmentKey 8 0 -: groupId string, memberId string
ShareGroupMemberMetadataKey 10 0 -: groupId string, memberId string
ShareGroupMetadataKey 11 0 -: groupId string
ShareGroupTargetAssignmentMetadataKey 12 0 -: groupId string
ShareGroupTargetAssignmentMemberKey 13 0 -: groupId string, memberId string
ShareGroupCurrentMemberAssignmentKey 14 0 -: groupId string, memberId string
ShareGroupStatePartitionMetadataKey 15 0 -: groupId string
ConsumerGroupRegularExpressionKey 16 0 -: groupId string, regularExpression string
StreamsGroupMetadataKey 17 0 -: groupId string
StreamsGroupMemberMetadataKey 19 0 -: groupId string, memberId string
StreamsGroupTargetAssignmentMetadataKey 20 0 -: groupId string
StreamsGroupTargetAssignmentMemberKey 21 0 -: groupId string, memberId string
StreamsGroupCurrentMemberAssignmentKey 22 0 -: groupId string, memberId string
StreamsGroupTopologyKey 23 0 -: groupId string
"""

GROUP_VALUES = """
LegacyOffsetCommitValue 0 0 -: offset int64, metadata string, commitTimestamp int64
OffsetCommitValue 1 4 4: offset int64, leaderEpoch int32 @3+, metadata string, commitTimestamp int64,
    expireTimestamp int64 @1, topicId uuid #0 @4+
GroupMetadataValue 2 4 4: protocolType string, generation int32, protocol string?, leader string?,
    currentStateTimestamp int64 @2+, members []{memberId string, groupInstanceId string? @3+, clientId
    string, clientHost string, rebalanceTimeout int32 @1+, sessionTimeout int32, subscription bytes,
    assignment bytes}
ConsumerGroupMetadataValue 3 0 0: epoch int32, metadataHash int64 #0
ConsumerGroupPartitionMetadataValue 4 0 0: topics []{topicId uuid, topicName string, numPartitions int32,
    partitionMetadata []{partition int32, racks []string}}
ConsumerGroupMemberMetadataValue 5 0 0: instanceId string?, rackId string?, clientId string, clientHost
    string, subscribedTopicNames []string, subscribedTopicRegex string?, rebalanceTimeoutMs int32,
    serverAssignor string?, classicMemberMetadata {sessionTimeoutMs int32, supportedProtocols []{name
    string, metadata bytes}}? #0
ConsumerGroupTargetAssignmentMetadataValue 6 0 0: assignmentEpoch int32, assignmentTimestamp int64 #0
ConsumerGroupTargetAssignmentMemberValue 7 0 0: topicPartitions []{topicId uuid, partitions []int32}
ConsumerGroupCurrentMemberAssignmentValue 8 0 0: memberEpoch int32, previousMemberEpoch int32, state int8,
    assignedPartitions []{topicId uuid, partitions []int32, assignmentEpochs []int32? #0},
    partitionsPendingRevocation []{topicId uuid, partitions []int32, assignmentEpochs []int32? #0}
ShareGroupMemberMetadataValue 10 0 0: rackId string?, clientId string, clientHost string,
    subscribedTopicNames []string
ShareGroupMetadataValue 11 0 0: epoch int32, metadataHash int64
ShareGroupTargetAssignmentMetadataValue 12 0 0: assignmentEpoch int32, assignmentTimestamp int64 #0
ShareGroupTargetAssignmentMemberValue 13 0 0: topicPartitions []{topicId uuid, partitions []int32}
ShareGroupCurrentMemberAssignmentValue 14 0 0: memberEpoch int32, previousMemberEpoch int32, state int8,
    assignedPartitions []{topicId uuid, partitions []int32}
ShareGroupStatePartitionMetadataValue 15 0 0: initializingTopics []{topicId uuid, topicName string,
    partitions []int32}, initializedTopics []{topicId uuid, topicName string, partitions []int32},
    deletingTopics []{topicId uuid, topicName string}
ConsumerGroupRegularExpressionValue 16 0 0: topics []string, version int64, timestamp int64
StreamsGroupMetadataValue 17 0 0: epoch int32, metadataHash int64, validatedTopologyEpoch int32 #0,
    lastAssignmentConfigs []{key string, value string}? #1
StreamsGroupMemberMetadataValue 19 0 0: instanceId string?, rackId string?, clientId string, clientHost
    string, rebalanceTimeoutMs int32, topologyEpoch int32, processId string, userEndpoint {host string,
    port uint16}?, clientTags []{key string, value string}
StreamsGroupTargetAssignmentMetadataValue 20 0 0: assignmentEpoch int32, assignmentTimestamp int64 #0
StreamsGroupTargetAssignmentMemberValue 21 0 0: activeTasks []{subtopologyId string, partitions []int32},
    standbyTasks []{subtopologyId string, partitions []int32}, warmupTasks []{subtopologyId string,
    partitions []int32}
StreamsGroupCurrentMemberAssignmentValue 22 0 0: memberEpoch int32, previousMemberEpoch int32, state int8,
    activeTasks []{subtopologyId string, partitions []int32, assignmentEpochs []int32? #0}, standbyTasks
    []{subtopologyId string, partitions []int32, assignmentEpochs []int32? #0}, warmupTasks
    []{subtopologyId string, partitions []int32, assignmentEpochs []int32? #0},
    activeTasksPendingRevocation []{subtopologyId string, partitions []int32, assignmentEpochs []int32?
    #0}, standbyTasksPendingRevocation []{subtopologyId string, partitions []int32, assignmentEpochs
    []int32? #0}, warmupTasksPendingRevocation []{subtopologyId string, partitions []int32,
    assignmentEpochs []int32? #0}
StreamsGroupTopologyValue 23 0 0: epoch int32, subtopologies []{subtopologyId string, sourceTopics
    []string, sourceTopicRegex []string, stateChangelogTopics []{name string, partitions int32,
    replicationFactor int16, topicConfigs []{key string, value string}}, repartitionSinkTopics []string,
    repartitionSourceTopics []{name string, partitions int32, replicationFactor int16, topicConfigs []{key
    string, value string}}, copartitionGroups []{sourceTopics []int16, sourceTopicRegex []int16,
    repartitionSourceTopics []int16}}
"""

CONSUMER_PROTOCOL = """
ConsumerProtocolAssignment 1 3 -: assignedPartitions []{topic string, partitions []int32}, userData bytes?
ConsumerProtocolSubscription 0 3 -: topics []string, userData bytes?, ownedPartitions []{topic string,
    partitions []int32} @1+, generationId int32 @2+, rackId string? @3+
"""
"""What consumers of the classic protocol write into a group's `subscription` and `assignment`."""

TRANSACTION_KEYS = """
TransactionLogKey 0 0 -: transactionalId string
"""

TRANSACTION_VALUES = """
TransactionLogValue 0 1 1: producerId int64, previousProducerId int64 #0 @1+, nextProducerId int64 #1 @1+,
    producerEpoch int16, nextProducerEpoch int16 #3 @1+, transactionTimeoutMs int32, transactionStatus
    int8, transactionPartitions []{topic string, partitionIds []int32}?, transactionLastUpdateTimestampMs
    int64, transactionStartTimestampMs int64, clientTransactionVersion int16 #2 @1+
"""

SHARE_KEYS = """
ShareSnapshotKey 0 0 -: groupId string, topicId uuid, partition int32
ShareUpdateKey 1 0 -: groupId string, topicId uuid, partition int32
"""

SHARE_VALUES = """
ShareSnapshotValue 0 0 0: snapshotEpoch int32, stateEpoch int32, leaderEpoch int32, startOffset int64,
    deliveryCompleteCount int32 #0, createTimestamp int64, writeTimestamp int64, stateBatches
    []{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount int16}
ShareUpdateValue 1 0 0: snapshotEpoch int32, leaderEpoch int32, startOffset int64, deliveryCompleteCount
    int32 #0, stateBatches []{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount
    int16}
"""
