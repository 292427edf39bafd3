"""Control records in the words of kafka-dump-log: what a record line says instead of key and payload."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from tidelog.protocol.control_records import (
    ControlRecord,
    EndTxnMarker,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    Voter,
    parse_control,
)

__all__ = ["control_note"]


def control_note(key: bytes | None, value: bytes | None) -> str:
    """The words for a control record. Raises CorruptRecordError, without a place, if it is none."""
    record = parse_control(key, value)
    match record:
        case EndTxnMarker():
            return f" endTxnMarker: {record.type.name} coordinatorEpoch: {record.coordinator_epoch}"
        case UnknownControl():
            return f" controlType: UNKNOWN({record.type})"
        case LeaderChange():
            return f" LeaderChange: {_json(record)}"
        case _:
            return f" {type(record).__name__} {_json(record)}"


def _json(record: ControlRecord) -> str:
    """The fields under the names that Kafka's message definitions give them."""
    fields: dict[str, Any]
    match record:
        case LeaderChange():
            fields = {
                "leaderId": record.leader_id,
                "voters": [_voter(voter, record.version) for voter in record.voters],
                "grantingVoters": [_voter(voter, record.version) for voter in record.granting_voters],
            }
        case SnapshotHeader():
            fields = {"lastContainedLogTimestamp": record.last_contained_log_timestamp}
        case KRaftVersion():
            fields = {"kRaftVersion": record.kraft_version}
        case KRaftVoters():
            fields = {"voters": [_kraft_voter(voter) for voter in record.voters]}
        case SnapshotFooter() | EndTxnMarker() | UnknownControl():
            fields = {}
    version = 0 if isinstance(record, UnknownControl) else record.version
    return json.dumps({"version": version} | fields, separators=(",", ":"))


def _voter(voter: Voter, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"voterId": voter.id}
    if version > 0:
        fields["voterDirectoryId"] = _uuid(voter.directory_id)
    return fields


def _kraft_voter(voter: KRaftVoter) -> dict[str, Any]:
    return {
        "voterId": voter.id,
        "voterDirectoryId": _uuid(voter.directory_id),
        "endpoints": [
            {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}
            for endpoint in voter.endpoints
        ],
        "kRaftVersionFeature": {
            "minSupportedVersion": voter.min_supported_version,
            "maxSupportedVersion": voter.max_supported_version,
        },
    }


def _uuid(value: uuid.UUID) -> str:
    """A UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
