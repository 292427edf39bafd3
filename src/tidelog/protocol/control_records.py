"""Control records: what Kafka writes into a log for itself, decoded and encoded.

A control batch (attribute bit 5) holds records whose key is version i16, type i16. The value by type:

    0 abort, 1 commit     version i16, coordinator epoch i32
    2 leader change       version i16, leader id i32, voters [], granting voters [], tags
                          voter: id i32, directory id uuid (from version 1), tags
    3 snapshot header     version i16, timestamp of the last record in the snapshot i64, tags
    4 snapshot footer     version i16, tags
    5 KRaft version       version i16, KRaft version i16, tags
    6 KRaft voters        version i16, voters [], tags
                          voter: id i32, directory id uuid, endpoints [], least and most KRaft version i16 i16
                          with tags, tags; endpoint: name, host, port u16, tags

[] is a compact array, strings are compact too, tags are skipped (`primitives`). Versions above those
known are read as the newest known; a type that is not known is no error, it is to be ignored
(`UnknownControl`).
"""

from __future__ import annotations

import enum
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.errors import InvalidInputError
from tidelog.protocol.primitives import NO_TAGS, Reader, compact_array, compact_string

__all__ = [
    "ControlRecord",
    "ControlType",
    "EndTxnMarker",
    "Endpoint",
    "KRaftVersion",
    "KRaftVoter",
    "KRaftVoters",
    "LeaderChange",
    "SnapshotFooter",
    "SnapshotHeader",
    "UnknownControl",
    "Voter",
    "control_fields",
    "parse_control",
]

_NO_DIRECTORY = uuid.UUID(int=0)


class ControlType(enum.IntEnum):
    """What a control record is, by the type in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    """The end of a producer's transaction in this partition."""

    committed: bool
    coordinator_epoch: int
    version: int = 0

    @property
    def type(self) -> ControlType:
        """COMMIT or ABORT."""
        return ControlType.COMMIT if self.committed else ControlType.ABORT


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter as a leader change names it; the directory id is all zeros before version 1."""

    id: int
    directory_id: uuid.UUID = _NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A new leader of the Raft quorum, and who voted it in."""

    leader_id: int
    voters: tuple[Voter, ...] = ()
    granting_voters: tuple[Voter, ...] = ()
    version: int = 0

    type = ControlType.LEADER_CHANGE


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The first record of a snapshot: the append time of the last log record it holds."""

    last_contained_log_timestamp: int
    version: int = 0

    type = ControlType.SNAPSHOT_HEADER


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """The last record of a snapshot."""

    version: int = 0

    type = ControlType.SNAPSHOT_FOOTER


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """The version of the KRaft protocol from here on."""

    kraft_version: int
    version: int = 0

    type = ControlType.KRAFT_VERSION


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a voter listens."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class KRaftVoter:
    """A member of the quorum and the KRaft versions it speaks."""

    id: int
    directory_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class KRaftVoters:
    """The quorum's members from here on."""

    voters: tuple[KRaftVoter, ...]
    version: int = 0

    type = ControlType.KRAFT_VOTERS


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A control record of a type that is not known; readers ignore it."""

    type: int
    value: bytes


ControlRecord = (
    EndTxnMarker
    | LeaderChange
    | SnapshotHeader
    | SnapshotFooter
    | KRaftVersion
    | KRaftVoters
    | UnknownControl
)
"""What `parse_control` answers."""


# ---- reading


def parse_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record with this key and value. Raises CorruptRecordError where Kafka refuses it too."""
    head = Reader(key or b"", "control record key")
    head.version()
    kind = head.i16()
    body = Reader(value or b"", "control record value")
    if kind not in _PARSERS:
        return UnknownControl(kind, value or b"")
    return _PARSERS[kind](body, body.version())


def _end_txn(committed: bool) -> Callable[[Reader, int], EndTxnMarker]:
    return lambda body, version: EndTxnMarker(committed, body.i32(), version)


def _leader_change(body: Reader, version: int) -> LeaderChange:
    def voter() -> Voter:
        found = Voter(body.i32(), body.uuid() if version > 0 else _NO_DIRECTORY)
        body.skip_tags()
        return found

    change = LeaderChange(body.i32(), body.array(voter), body.array(voter), version)
    body.skip_tags()
    return change


def _snapshot_header(body: Reader, version: int) -> SnapshotHeader:
    header = SnapshotHeader(body.i64(), version)
    body.skip_tags()
    return header


def _snapshot_footer(body: Reader, version: int) -> SnapshotFooter:
    body.skip_tags()
    return SnapshotFooter(version)


def _kraft_version(body: Reader, version: int) -> KRaftVersion:
    found = KRaftVersion(body.i16(), version)
    body.skip_tags()
    return found


def _kraft_voters(body: Reader, version: int) -> KRaftVoters:
    def endpoint() -> Endpoint:
        found = Endpoint(body.string(), body.string(), body.u16())
        body.skip_tags()
        return found

    def voter() -> KRaftVoter:
        member, directory, endpoints = body.i32(), body.uuid(), body.array(endpoint)
        least, most = body.i16(), body.i16()
        body.skip_tags()
        body.skip_tags()
        return KRaftVoter(member, directory, endpoints, least, most)

    found = KRaftVoters(body.array(voter), version)
    body.skip_tags()
    return found


_PARSERS: dict[int, Callable[[Reader, int], ControlRecord]] = {
    ControlType.ABORT: _end_txn(committed=False),
    ControlType.COMMIT: _end_txn(committed=True),
    ControlType.LEADER_CHANGE: _leader_change,
    ControlType.SNAPSHOT_HEADER: _snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _snapshot_footer,
    ControlType.KRAFT_VERSION: _kraft_version,
    ControlType.KRAFT_VOTERS: _kraft_voters,
}


# ---- writing


def control_fields(record: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of a control record, as Kafka writes them."""
    try:
        key = struct.pack(">hh", 0, record.type)
        if isinstance(record, UnknownControl):
            return key, record.value
        return key, struct.pack(">h", record.version) + _body(record)
    except (struct.error, OverflowError) as error:
        raise InvalidInputError(f"{record} does not fit its format: {error}") from error


def _body(record: ControlRecord) -> bytes:
    """The value after its version."""
    match record:
        case EndTxnMarker():
            return struct.pack(">i", record.coordinator_epoch)
        case LeaderChange():
            lists = (record.voters, record.granting_voters)
            voters = (compact_array([_voter(voter, record.version) for voter in some]) for some in lists)
            return b"".join((struct.pack(">i", record.leader_id), *voters, NO_TAGS))
        case SnapshotHeader():
            return struct.pack(">q", record.last_contained_log_timestamp) + NO_TAGS
        case SnapshotFooter():
            return NO_TAGS
        case KRaftVersion():
            return struct.pack(">h", record.kraft_version) + NO_TAGS
        case KRaftVoters():
            return compact_array([_kraft_voter(voter) for voter in record.voters]) + NO_TAGS
        case UnknownControl():
            return record.value


def _voter(voter: Voter, version: int) -> bytes:
    if version == 0 and voter.directory_id != _NO_DIRECTORY:
        raise InvalidInputError("a leader change of version 0 has no directory ids")
    directory = voter.directory_id.bytes if version > 0 else b""
    return struct.pack(">i", voter.id) + directory + NO_TAGS


def _kraft_voter(voter: KRaftVoter) -> bytes:
    endpoints = [
        compact_string(endpoint.name)
        + compact_string(endpoint.host)
        + struct.pack(">H", endpoint.port)
        + NO_TAGS
        for endpoint in voter.endpoints
    ]
    versions = struct.pack(">hh", voter.min_supported_version, voter.max_supported_version) + NO_TAGS
    return b"".join(
        (struct.pack(">i", voter.id), voter.directory_id.bytes, compact_array(endpoints), versions, NO_TAGS)
    )
