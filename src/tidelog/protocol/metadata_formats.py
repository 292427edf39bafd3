"""The messages of KRaft's metadata log, in the notation of `notation`.

A record has no key; its value is a frame (see `protocol.metadata_records`) and one of these.
"""

from __future__ import annotations

__all__ = ["METADATA"]

METADATA = """
RegisterBrokerRecord 0 4 0: brokerId int32, isMigratingZkBroker bool @2+, incarnationId uuid, brokerEpoch
    int64, endPoints []{name string, host string, port uint16, securityProtocol int16}, features []{name
    string, minSupportedVersion int16, maxSupportedVersion int16}, rack string?, fenced bool,
    inControlledShutdown bool @1+, logDirs []uuid #0 @3+, cordonedLogDirs []uuid? #1 @4+
UnregisterBrokerRecord 1 0 0: brokerId int32, brokerEpoch int64
TopicRecord 2 0 0: name string, topicId uuid
PartitionRecord 3 2 0: partitionId int32, topicId uuid, replicas []int32, isr []int32, removingReplicas
    []int32, addingReplicas []int32, leader int32, leaderRecoveryState int8 #0, leaderEpoch int32,
    partitionEpoch int32, directories []uuid @1+, eligibleLeaderReplicas []int32? #1 @2+, lastKnownElr
    []int32? #2 @2+
ConfigRecord 4 0 0: resourceType int8, resourceName string, name string, value string?
PartitionChangeRecord 5 2 0: partitionId int32, topicId uuid, isr []int32? #0, leader int32 #1, replicas
    []int32? #2, removingReplicas []int32? #3, addingReplicas []int32? #4, leaderRecoveryState int8 #5,
    directories []uuid? #8 @1+, eligibleLeaderReplicas []int32? #6 @2+, lastKnownElr []int32? #7 @2+
FenceBrokerRecord 7 0 0: id int32, epoch int64
UnfenceBrokerRecord 8 0 0: id int32, epoch int64
RemoveTopicRecord 9 0 0: topicId uuid
DelegationTokenRecord 10 0 0: owner string, requester string, renewers []string, issueTimestamp int64,
    maxTimestamp int64, expirationTimestamp int64, tokenId string
UserScramCredentialRecord 11 0 0: name string, mechanism int8, salt bytes, storedKey bytes, serverKey
    bytes, iterations int32
FeatureLevelRecord 12 0 0: name string, featureLevel int16
ClientQuotaRecord 14 0 0: entity []{entityType string, entityName string?}, key string, value float64,
    remove bool
ProducerIdsRecord 15 0 0: brokerId int32, brokerEpoch int64, nextProducerId int64
BrokerRegistrationChangeRecord 17 3 0: brokerId int32, brokerEpoch int64, fenced int8 #0,
    inControlledShutdown int8 #1 @1+, logDirs []uuid #2 @2+, cordonedLogDirs []uuid? #3 @3+
AccessControlEntryRecord 18 0 0: id uuid, resourceType int8, resourceName string, patternType int8,
    principal string, host string, operation int8, permissionType int8
RemoveAccessControlEntryRecord 19 0 0: id uuid
NoOpRecord 20 0 0:
ZkMigrationStateRecord 21 0 0: zkMigrationState int8
RemoveUserScramCredentialRecord 22 0 0: name string, mechanism int8
BeginTransactionRecord 23 0 0: name string? #0
EndTransactionRecord 24 0 0:
AbortTransactionRecord 25 0 0: reason string? #0
RemoveDelegationTokenRecord 26 0 0: tokenId string
RegisterControllerRecord 27 0 0: controllerId int32, incarnationId uuid, zkMigrationReady bool, endPoints
    []{name string, host string, port uint16, securityProtocol int16}, features []{name string,
    minSupportedVersion int16, maxSupportedVersion int16}
ClearElrRecord 28 0 0: topicName string
"""
