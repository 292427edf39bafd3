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

[] is a compact array (unsigned varint of count + 1, then elements), a string is likewise prefixed, tags are
an unsigned varint count of (tag, size, bytes), which are skipped. Versions above those known are read as the
newest known; a type that is not known is no error, it is to be ignored (`UnknownControl`).
"""

from __future__ import annotations

import enum
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, Unpack

import pyarrow as pa

from tidelog.errors import BadVarintError, CorruptRecordError, InvalidInputError, RecordOverrunError
from tidelog.records.builder import BatchOptions, encode_batches

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
    "encode_end_txn_marker",
    "encode_kraft_control",
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
    head = _Reader(key or b"", "control record key")
    head.version()
    kind = head.i16()
    body = _Reader(value or b"", "control record value")
    if kind not in _PARSERS:
        return UnknownControl(kind, value or b"")
    return _PARSERS[kind](body, body.version())


_T = TypeVar("_T")


class _Reader:
    """Numbers and strings from bytes, never past their end."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def take(self, size: int) -> bytes:
        start = self._at
        if not 0 <= size <= len(self._data) - start:
            raise RecordOverrunError(f"{self._what} ends early: {size} bytes wanted at {start}")
        self._at = start + size
        return self._data[start : self._at]

    def i16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def i32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.take(16))

    def version(self) -> int:
        version = self.i16()
        if version < 0:
            raise CorruptRecordError(f"{self._what} has the impossible version {version}")
        return version

    def unsigned_varint(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000  # Java's int has a sign
        raise BadVarintError(f"{self._what} holds a variable-length number that does not end")

    def length(self) -> int:
        """A compact length: a count or size, which is one less than what is stored and never null here."""
        length = self.unsigned_varint() - 1
        if not 0 <= length <= len(self._data) - self._at:
            raise RecordOverrunError(f"{self._what} has the impossible length {length} at {self._at}")
        return length

    def string(self) -> str:
        return self.take(self.length()).decode("utf-8", "replace")

    def array(self, element: Callable[[], _T]) -> tuple[_T, ...]:
        return tuple(element() for _ in range(self.length()))

    def skip_tags(self) -> None:
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self.take(self.unsigned_varint())


def _end_txn(committed: bool) -> Callable[[_Reader, int], EndTxnMarker]:
    return lambda body, version: EndTxnMarker(committed, body.i32(), version)


def _leader_change(body: _Reader, version: int) -> LeaderChange:
    def voter() -> Voter:
        found = Voter(body.i32(), body.uuid() if version > 0 else _NO_DIRECTORY)
        body.skip_tags()
        return found

    change = LeaderChange(body.i32(), body.array(voter), body.array(voter), version)
    body.skip_tags()
    return change


def _snapshot_header(body: _Reader, version: int) -> SnapshotHeader:
    header = SnapshotHeader(body.i64(), version)
    body.skip_tags()
    return header


def _snapshot_footer(body: _Reader, version: int) -> SnapshotFooter:
    body.skip_tags()
    return SnapshotFooter(version)


def _kraft_version(body: _Reader, version: int) -> KRaftVersion:
    found = KRaftVersion(body.i16(), version)
    body.skip_tags()
    return found


def _kraft_voters(body: _Reader, version: int) -> KRaftVoters:
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


_PARSERS: dict[int, Callable[[_Reader, int], ControlRecord]] = {
    ControlType.ABORT: _end_txn(committed=False),
    ControlType.COMMIT: _end_txn(committed=True),
    ControlType.LEADER_CHANGE: _leader_change,
    ControlType.SNAPSHOT_HEADER: _snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _snapshot_footer,
    ControlType.KRAFT_VERSION: _kraft_version,
    ControlType.KRAFT_VOTERS: _kraft_voters,
}


# ---- writing

_NO_TAGS = b"\0"


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
            voters = (_compact([_voter(voter, record.version) for voter in some]) for some in lists)
            return b"".join((struct.pack(">i", record.leader_id), *voters, _NO_TAGS))
        case SnapshotHeader():
            return struct.pack(">q", record.last_contained_log_timestamp) + _NO_TAGS
        case SnapshotFooter():
            return _NO_TAGS
        case KRaftVersion():
            return struct.pack(">h", record.kraft_version) + _NO_TAGS
        case KRaftVoters():
            return _compact([_kraft_voter(voter) for voter in record.voters]) + _NO_TAGS
        case UnknownControl():
            return record.value


def _voter(voter: Voter, version: int) -> bytes:
    if version == 0 and voter.directory_id != _NO_DIRECTORY:
        raise InvalidInputError("a leader change of version 0 has no directory ids")
    directory = voter.directory_id.bytes if version > 0 else b""
    return struct.pack(">i", voter.id) + directory + _NO_TAGS


def _kraft_voter(voter: KRaftVoter) -> bytes:
    endpoints = [
        _string(endpoint.name) + _string(endpoint.host) + struct.pack(">H", endpoint.port) + _NO_TAGS
        for endpoint in voter.endpoints
    ]
    versions = struct.pack(">hh", voter.min_supported_version, voter.max_supported_version) + _NO_TAGS
    return b"".join(
        (struct.pack(">i", voter.id), voter.directory_id.bytes, _compact(endpoints), versions, _NO_TAGS)
    )


def _compact(elements: Sequence[bytes]) -> bytes:
    return _unsigned_varint(len(elements) + 1) + b"".join(elements)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise InvalidInputError(f"a string of {len(data)} bytes is too long; 32767 is the most")
    return _unsigned_varint(len(data) + 1) + data


def _unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction, ready to be appended."""
    return _control_batch(
        marker,
        timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def encode_kraft_control(
    record: LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters,
    *,
    timestamp: int,
    leader_epoch: int,
    base_offset: int = 0,
) -> bytes:
    """A control batch of the Raft quorum (metadata log, snapshots), ready to be appended."""
    return _control_batch(record, timestamp, base_offset=base_offset, leader_epoch=leader_epoch)


def _control_batch(record: ControlRecord, timestamp: int, **options: Unpack[BatchOptions]) -> bytes:
    key, value = control_fields(record)
    columns = pa.record_batch(
        {"key": [key], "value": [value], "timestamp": pa.array([timestamp], pa.int64())}
    )
    options["control"] = True
    return bytes(encode_batches(columns, **options))
