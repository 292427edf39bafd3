"""Control records: those in Kafka's own logs, every type both ways, bad bytes."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN, golden_partition
from tidelog.errors import BadVarintError, CorruptRecordError, InvalidInputError, RecordOverrunError
from tidelog.protocol.control_records import (
    ControlRecord,
    ControlType,
    Endpoint,
    EndTxnMarker,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    Voter,
    control_fields,
    parse_control,
)
from tidelog.records.batches import scan_batches
from tidelog.records.control_batches import encode_end_txn_marker, encode_kraft_control
from tidelog.records.record import decode_records

if TYPE_CHECKING:
    from tests.oracle import Oracle

NOW = 1_700_000_000_000

i16 = st.integers(0, 32767)
i32 = st.integers(-(1 << 31), (1 << 31) - 1)
texts = st.text(max_size=20)
voters = st.lists(st.builds(Voter, i32), max_size=4).map(tuple)
members = st.lists(
    st.builds(
        KRaftVoter,
        i32,
        st.uuids(),
        st.lists(st.builds(Endpoint, texts, texts, st.integers(0, 65535)), max_size=3).map(tuple),
        i16,
        i16,
    ),
    max_size=3,
).map(tuple)
known = st.one_of(
    st.builds(EndTxnMarker, st.booleans(), i32),
    st.builds(LeaderChange, i32, voters, voters),
    st.builds(SnapshotHeader, st.integers(-(1 << 63), (1 << 63) - 1)),
    st.just(SnapshotFooter()),
    st.builds(KRaftVersion, i16),
    st.builds(KRaftVoters, members),
)


# ---- Kafka's own


def test_markers_of_kafkas_transactions() -> None:
    logs = golden_partition("golden-txn-0").logs()
    found = [
        parse_control(record.key, record.value)
        for log in logs
        for record in decode_records(log.read_bytes())
        if record.control
    ]
    assert set(found) == {EndTxnMarker(True, 0), EndTxnMarker(False, 0)}


def test_rewrites_kafkas_markers_byte_for_byte() -> None:
    for log in golden_partition("golden-txn-0").logs():
        data = log.read_bytes()
        table = scan_batches(data).require()
        for batch in table[:].rows[table.is_control].tolist():
            original = data[batch[0] : batch[0] + batch[1]]
            (record,) = decode_records(original)
            marker = parse_control(record.key, record.value)
            assert isinstance(marker, EndTxnMarker)
            again = encode_end_txn_marker(
                marker,
                producer_id=record.producer_id,
                producer_epoch=record.producer_epoch,
                timestamp=record.timestamp,
                base_offset=record.offset,
                leader_epoch=record.leader_epoch,
            )
            assert again == original


def test_control_records_of_kafkas_metadata() -> None:
    log = golden_partition("__cluster_metadata-0").logs()[0]
    found = [parse_control(r.key, r.value) for r in decode_records(log.read_bytes()) if r.control]
    assert set(found) == {LeaderChange(1, (Voter(1),), (Voter(1),))}
    snapshot = (GOLDEN / "clean/bootstrap.checkpoint").read_bytes()
    found = [parse_control(r.key, r.value) for r in decode_records(snapshot) if r.control]
    assert isinstance(found[0], SnapshotHeader)
    assert found[-1] == SnapshotFooter()


def _questions() -> list[tuple[ControlRecord, dict[str, Any]]]:
    directory = uuid.UUID(int=(5 << 64) + 9)
    member = KRaftVoter(
        3, directory, (Endpoint("CONTROLLER", "größe.example", 9093), Endpoint("B", "", 65535)), 0, 1
    )
    endpoints = [["CONTROLLER", "größe.example", 9093], ["B", "", 65535]]
    return [
        (EndTxnMarker(True, 17), {"control": 1, "coordinator_epoch": 17}),
        (EndTxnMarker(False, 0), {"control": 0, "coordinator_epoch": 0}),
        (
            LeaderChange(2, (Voter(1), Voter(2), Voter(3)), (Voter(2),)),
            {"control": 2, "leader_id": 2, "voters": [1, 2, 3], "granting_voters": [2]},
        ),
        (
            LeaderChange(0, tuple(map(Voter, range(200)))),
            {"control": 2, "leader_id": 0, "voters": [*range(200)], "granting_voters": []},
        ),
        (SnapshotHeader(NOW), {"control": 3, "last_timestamp": NOW}),
        (SnapshotFooter(), {"control": 4}),
        (KRaftVersion(1), {"control": 5, "kraft_version": 1}),
        (KRaftVoters((member,)), {"control": 6, "voters": [[3, 5, 9, endpoints, 0, 1]]}),
        (KRaftVoters(()), {"control": 6, "voters": []}),
    ]


def test_kafka_writes_the_same_control_batches(oracle: Oracle) -> None:
    common = {"base_offset": 77, "timestamp": NOW, "leader_epoch": 4, "producer_id": 12, "producer_epoch": 3}
    questions = _questions()
    answers = oracle.programs.ask(
        "tidelog.oracle.Build", {"sets": [question | common for _, question in questions]}
    )
    for (record, _), answer in zip(questions, answers, strict=True):
        if isinstance(record, EndTxnMarker):
            mine = encode_end_txn_marker(
                record, producer_id=12, producer_epoch=3, timestamp=NOW, base_offset=77, leader_epoch=4
            )
        else:
            assert not isinstance(record, UnknownControl)
            mine = encode_kraft_control(record, timestamp=NOW, leader_epoch=4, base_offset=77)
        assert mine == base64.b64decode(answer["data"]), record
        (stored,) = decode_records(mine)
        assert stored.control
        assert parse_control(stored.key, stored.value) == record


# ---- both ways


@given(record=known)
def test_round_trip(record: ControlRecord) -> None:
    key, value = control_fields(record)
    assert parse_control(key, value) == record
    assert int.from_bytes(key[2:], "big") == record.type


def test_directory_ids_of_a_later_leader_change() -> None:
    directory = uuid.UUID(int=7)
    change = LeaderChange(1, (Voter(1, directory),), (), version=1)
    assert parse_control(*control_fields(change)) == change
    with pytest.raises(InvalidInputError, match="no directory ids"):
        control_fields(LeaderChange(1, (Voter(1, directory),)))


def test_types_and_versions_that_are_not_known() -> None:
    later = b"\x00\x09\x00\x01"
    assert parse_control(b"\x00\x00\x00\x63", b"abc") == UnknownControl(99, b"abc")
    assert parse_control(b"\x00\x00\xff\xff", None) == UnknownControl(-1, b"")
    assert parse_control(later + b"more", b"\x00\x05\x00\x00\x00\x03more") == EndTxnMarker(True, 3, version=5)
    assert control_fields(UnknownControl(99, b"abc")) == (b"\x00\x00\x00\x63", b"abc")


def test_tags_are_skipped() -> None:
    tags = b"\x02" + b"\x05\x03abc" + b"\x81\x01\x00"
    value = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x02\x00\x00\x00\x01" + tags + b"\x01" + tags
    assert parse_control(b"\x00\x00\x00\x02", value) == LeaderChange(1, (Voter(1),))


# ---- bad bytes


@given(record=known, data=st.data())
def test_cut_values_are_refused(record: ControlRecord, data: st.DataObject) -> None:
    key, value = control_fields(record)
    size = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(CorruptRecordError):
        parse_control(key, value[:size])
    with pytest.raises(RecordOverrunError):
        parse_control(key[: data.draw(st.integers(0, 3))], value)


@given(kind=st.sampled_from(ControlType), value=st.binary(max_size=60))
def test_garbage_raises_corrupt_record_errors_only(kind: ControlType, value: bytes) -> None:
    try:
        parse_control(b"\x00\x00" + kind.to_bytes(2, "big"), b"\x00\x00" + value)
    except CorruptRecordError:
        pass


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"", RecordOverrunError),
        (b"\xff\xff\x00\x01", b"\x00\x00\x00\x00\x00\x00", CorruptRecordError),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00", CorruptRecordError),
        (b"\x00\x00\x00\x01", None, RecordOverrunError),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x01" + b"\x80" * 5, BadVarintError),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x01" + b"\xff\xff\xff\xff\x07", RecordOverrunError),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x01\x00", RecordOverrunError),
        (b"\x00\x00\x00\x04", b"\x00\x00\x01\x00\xff\xff\xff\xff\x0f", RecordOverrunError),
    ],
)
def test_impossible_values(key: bytes | None, value: bytes | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_control(key, value)


@pytest.mark.parametrize(
    "record",
    [
        EndTxnMarker(True, 1 << 31),
        KRaftVersion(1 << 15),
        SnapshotHeader(1 << 63),
        UnknownControl(1 << 15, b""),
        KRaftVoters((KRaftVoter(1, uuid.UUID(int=0), (Endpoint("", "", 65536),), 0, 0),)),
        KRaftVoters((KRaftVoter(1, uuid.UUID(int=0), (Endpoint("x" * 40000, "", 1),), 0, 0),)),
    ],
)
def test_what_does_not_fit_is_refused(record: ControlRecord) -> None:
    with pytest.raises(InvalidInputError):
        control_fields(record)
