"""Metadata records: those in golden files to the byte, and those we write as Kafka reads them."""

from __future__ import annotations

import errno
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from tests.golden import GOLDEN
from tidelog.errors import CorruptRecordError, InvalidInputError, LogError, LogOfflineError
from tidelog.manager.metadata.files import (
    BOOTSTRAP_FILE,
    METADATA_DIRECTORY,
    encode_records_batch,
    encode_snapshot,
    read_bootstrap,
    read_cluster_metadata,
    read_snapshot,
    write_bootstrap,
)
from tidelog.manager.metadata.image import MetadataImage, PartitionImage
from tidelog.manager.metadata.registry import Registry
from tidelog.protocol.control_records import SnapshotFooter, SnapshotHeader
from tidelog.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    UnknownRecord,
    format_record,
    parse_record,
)
from tidelog.records import decode_records, encode_kraft_control, scan_batches
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id
from tidelog.testing.faults import Call, FaultyFileSystem, fail_on

if TYPE_CHECKING:
    from tests.oracle import Oracle

CLEAN = GOLDEN / "clean"
LOG = CLEAN / METADATA_DIRECTORY / f"{0:020}.log"
A, B, D = (uuid.UUID(int=number) for number in (1 << 90 | 7, 1 << 91 | 8, 1 << 92 | 9))

numbers = st.integers(-(2**31), 2**31 - 1)
ids = st.lists(numbers, max_size=4).map(tuple)
uuids = st.uuids()
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
versions = st.integers(0, 2)


def _partition(version: int, partition: int, topic: uuid.UUID, lists: list[Any], rest: list[Any]) -> Any:
    directories = tuple(rest[3]) if version > 0 else ()
    return PartitionRecord(
        partition, topic, lists[0], lists[1], *rest[:3], directories, lists[2], lists[3], version=version
    )


records = st.one_of(
    st.builds(TopicRecord, texts, uuids),
    st.builds(
        _partition,
        versions,
        numbers,
        uuids,
        st.lists(ids, min_size=4, max_size=4),
        st.tuples(numbers, numbers, numbers, st.lists(uuids, max_size=3)).map(list),
    ),
    st.builds(
        PartitionChangeRecord,
        numbers,
        uuids,
        leader=st.none() | st.integers(-1, 9),
        replicas=st.none() | ids,
        directories=st.none() | st.lists(uuids, max_size=3).map(tuple),
    ),
    st.builds(ConfigRecord, st.sampled_from(ResourceType).map(int), texts, texts, st.none() | texts),
    st.builds(RemoveTopicRecord, uuids),
    st.builds(FeatureLevelRecord, texts, st.integers(-(2**15), 2**15 - 1)),
    st.builds(ProducerIdsRecord, numbers, st.integers(-1, 2**62), st.integers(0, 2**62)),
    st.builds(BeginTransactionRecord, st.none() | texts),
    st.builds(EndTransactionRecord),
    st.builds(AbortTransactionRecord, st.none() | texts),
)

# ---- golden


def test_every_golden_record_is_written_back_to_the_byte() -> None:
    values = [
        stored.value
        for file in (LOG, CLEAN / BOOTSTRAP_FILE)
        for stored in decode_records(file.read_bytes())
        if not stored.control
    ]
    kinds = set()
    for value in values:
        record = parse_record(value)
        kinds.add(type(record))
        assert format_record(record) == value
    assert kinds >= {TopicRecord, PartitionRecord, PartitionChangeRecord, ConfigRecord, FeatureLevelRecord}
    assert kinds >= {ProducerIdsRecord, BeginTransactionRecord, EndTransactionRecord, UnknownRecord}


def test_a_golden_snapshot_is_written_back_to_the_byte() -> None:
    data = (CLEAN / BOOTSTRAP_FILE).read_bytes()
    times = scan_batches(data).table.base_timestamp.tolist()
    found = read_bootstrap(LOCAL, CLEAN)
    parts = [
        encode_kraft_control(SnapshotHeader(0), timestamp=times[0], leader_epoch=0),
        encode_records_batch(found, base_offset=1, leader_epoch=0, timestamp_ms=times[1]),
        encode_kraft_control(
            SnapshotFooter(), timestamp=times[2], leader_epoch=0, base_offset=1 + len(found)
        ),
    ]
    assert b"".join(parts) == data
    whole = encode_snapshot(found, timestamp_ms=times[1])
    assert scan_batches(whole).table.rows[:, :6].tolist() == scan_batches(data).table.rows[:, :6].tolist()
    assert read_snapshot(whole, "whole") == found


def test_the_golden_root_tells_its_topics() -> None:
    found = read_cluster_metadata(LOCAL, CLEAN)
    assert (found.in_log, found.end_offset, found.leader_epoch, found.fault) == (True, 405, 3, None)
    image = found.image
    assert image.features["metadata.version"] == 30
    assert image.next_producer_id == 1000
    assert len(image.topics) == 16
    multi = image.topics["golden-multi"]
    assert format_id(multi.topic_id) in (CLEAN / "golden-multi-0" / "partition.metadata").read_text()
    assert sorted(multi.partitions) == [0, 1, 2]
    newest = (CLEAN / "golden-multi-0" / "leader-epoch-checkpoint").read_text().split()[-2]
    assert multi.partitions[0].leader_epoch == 5 >= int(newest)
    assert image.topic_config("golden-big")["max.message.bytes"] == "4000000"
    assert image.topic_config("nobody") == {}


def test_a_torn_metadata_log_is_read_up_to_the_damage(tmp_path: Path) -> None:
    copy = shutil.copytree(CLEAN / METADATA_DIRECTORY, tmp_path / METADATA_DIRECTORY)
    table = scan_batches(LOG.read_bytes()).table
    log = copy / LOG.name
    log.write_bytes(log.read_bytes()[: int(table.position[100]) + 30])
    found = read_cluster_metadata(LOCAL, tmp_path)
    assert found.end_offset == int(table.base_offset[100])
    assert found.fault is not None
    assert str(log) in str(found.fault)


# ---- an image


def partition(number: int, topic: uuid.UUID, **changes: Any) -> PartitionRecord:
    facts = {"leader": 1, "leader_epoch": 3, "partition_epoch": 4, "directories": (D,)} | changes
    return PartitionRecord(number, topic, (1,), (1,), **facts)


def test_an_image_adds_up() -> None:
    topic = [TopicRecord("a", A), partition(0, A), ConfigRecord(ResourceType.TOPIC, "a", "k", "v")]
    image = MetadataImage.of(
        [
            *topic,
            TopicRecord("b", B),
            partition(0, B),
            ConfigRecord(ResourceType.TOPIC, "a", "k2", "v2"),
            ConfigRecord(ResourceType.TOPIC, "a", "k", None),
            ConfigRecord(ResourceType.BROKER, "", "k", "other"),
            PartitionChangeRecord(0, A, leader=-1),
            PartitionChangeRecord(0, A, replicas=(2,), directories=()),
            PartitionChangeRecord(9, A, leader=1),
            UnknownRecord(0, 0, b""),
            RemoveTopicRecord(B),
        ]
    )
    assert list(image.topics) == ["a"]
    assert image.topics["a"].partitions == {0: PartitionImage((2,), -1, 4, 6, ())}
    assert image.topic_config("a") == {"k2": "v2"}
    assert MetadataImage.of([*topic, RemoveTopicRecord(A), TopicRecord("a", B)]).topic_config("a") == {}


def test_names_that_are_none_become_no_directories(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    with tidelog.open(root, background=False) as store:
        good = store.create_topic("good").topic_id
    evil = uuid.UUID(int=777)
    records = [
        *read_bootstrap(LOCAL, root),
        TopicRecord("../outside/evil", evil),
        partition(0, evil),
        partition(-1, good),
    ]
    write_bootstrap(LOCAL, root, records, timestamp_ms=0)
    with tidelog.open(root, background=False) as store:
        assert list(store.topics) == ["good"]
        assert list(store.topic("good").partitions) == [0]
        reasons = [one.reason for one in store.skipped if one.path == "the metadata"]
    assert len(reasons) == 2
    assert "'../outside/evil' holds characters" in reasons[0]
    assert reasons[1].startswith("partition -1 ")
    assert not list(outside.iterdir())


def test_a_transaction_counts_at_its_end() -> None:
    begin, end, abort = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
    topic: list[MetadataRecord] = [TopicRecord("a", A)]
    assert list(MetadataImage.of([begin, *topic, end]).topics) == ["a"]
    assert MetadataImage.of([begin, *topic, abort]).topics == {}
    unfinished = MetadataImage.of([begin, *topic])
    assert unfinished.topics == {}
    assert unfinished.in_transaction


def test_a_snapshot_is_the_state_at_its_offset(tmp_path: Path) -> None:
    directory = tmp_path / METADATA_DIRECTORY
    directory.mkdir()
    version: list[MetadataRecord] = [FeatureLevelRecord("metadata.version", 25)]
    later = encode_records_batch([TopicRecord("b", B)], base_offset=7, leader_epoch=6, timestamp_ms=1)
    old = encode_records_batch([TopicRecord("x", D)], base_offset=4, leader_epoch=2, timestamp_ms=1)
    (directory / f"{4:020}.log").write_bytes(old)
    (directory / f"{5:020}-{2:010}.checkpoint").write_bytes(encode_snapshot(version, timestamp_ms=1))
    newest = directory / f"{7:020}-{3:010}.checkpoint"
    newest.write_bytes(encode_snapshot([*version, TopicRecord("a", A)], timestamp_ms=1, leader_epoch=3))
    found = read_cluster_metadata(LOCAL, tmp_path)
    assert (found.end_offset, found.leader_epoch, list(found.image.topics)) == (7, 3, ["a"])
    (directory / f"{7:020}.log").write_bytes(later)
    found = read_cluster_metadata(LOCAL, tmp_path)
    assert (found.end_offset, found.leader_epoch, list(found.image.topics)) == (8, 6, ["a", "b"])
    newest.write_bytes(newest.read_bytes()[:-75])
    with pytest.raises(LogError, match="no footer"):
        read_cluster_metadata(LOCAL, tmp_path)


def test_bootstrap_counts_while_the_log_knows_no_version(tmp_path: Path) -> None:
    assert read_cluster_metadata(LOCAL, tmp_path).image.topics == {}
    write_bootstrap(LOCAL, tmp_path, [TopicRecord("a", A)], timestamp_ms=1)
    (tmp_path / METADATA_DIRECTORY).mkdir()
    found = read_cluster_metadata(LOCAL, tmp_path)
    assert (found.in_log, list(found.image.topics)) == (False, ["a"])


# ---- any record


@given(record=records)
def test_what_is_formatted_is_parsed(record: MetadataRecord) -> None:
    assert parse_record(format_record(record)) == record


@given(
    data=st.binary(max_size=60)
    | records.map(format_record).flatmap(
        lambda value: st.integers(0, len(value)).map(lambda cut: value[:cut])
    )
)
def test_bad_bytes_raise_one_kind_of_error(data: bytes) -> None:
    try:
        parse_record(data)
    except CorruptRecordError:
        pass


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="does not fit"):
        format_record(FeatureLevelRecord("f", 1 << 15))
    with pytest.raises(InvalidInputError, match="too long"):
        format_record(TopicRecord("t" * 40_000, A))
    with pytest.raises(CorruptRecordError, match="frame version 2"):
        parse_record(b"\2\0\0")
    with pytest.raises(CorruptRecordError, match="bytes too many"):
        parse_record(format_record(EndTransactionRecord()) + b"\0")


# ---- Kafka


def test_kafka_reads_what_we_write(oracle: Oracle, tmp_path: Path) -> None:
    written: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 25),
        TopicRecord("ä-topic", A),
        ConfigRecord(ResourceType.TOPIC, "ä-topic", "retention.ms", "-1"),
        ConfigRecord(ResourceType.TOPIC, "ä-topic", "segment.ms", None),
        *(partition(number, A, version=number, directories=(D,) if number else ()) for number in range(3)),
        PartitionChangeRecord(0, A, leader=5, replicas=(5, 6), directories=(D, B)),
        RemoveTopicRecord(A),
        ProducerIdsRecord(1, -1, 5000),
        BeginTransactionRecord("some"),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ]
    write_bootstrap(LOCAL, tmp_path, written, timestamp_ms=1_700_000_000_000)
    read = oracle.programs.ask("tidelog.oracle.ReadMetadata", {"bootstrap": str(tmp_path)})
    assert [line["type"] for line in read] == [
        "FEATURE_LEVEL_RECORD",
        "TOPIC_RECORD",
        *["CONFIG_RECORD"] * 2,
        *["PARTITION_RECORD"] * 3,
        "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
        "PRODUCER_IDS_RECORD",
        "BEGIN_TRANSACTION_RECORD",
        "END_TRANSACTION_RECORD",
        "ABORT_TRANSACTION_RECORD",
    ]
    data = [line["data"] for line in read]
    assert data[0] == {"name": "metadata.version", "featureLevel": 25}
    assert data[1] == {"name": "ä-topic", "topicId": format_id(A)}
    config = {"resourceType": 2, "resourceName": "ä-topic"}
    assert data[2:4] == [
        config | {"name": "retention.ms", "value": "-1"},
        config | {"name": "segment.ms", "value": None},
    ]
    for number, found in enumerate(data[4:7]):
        assert found == {
            "partitionId": number,
            "topicId": format_id(A),
            "replicas": [1],
            "isr": [1],
            "removingReplicas": [],
            "addingReplicas": [],
            "leader": 1,
            "leaderEpoch": 3,
            "partitionEpoch": 4,
        } | ({"directories": [format_id(D)]} if number else {})
        assert read[4 + number]["version"] == number
    assert data[7]["leader"] == 5
    assert data[7]["directories"] == [format_id(D), format_id(B)]
    assert data[9] == {"brokerId": 1, "brokerEpoch": -1, "nextProducerId": 5000}
    assert data[10] == {"name": "some"}
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(encode_records_batch(written, base_offset=0, leader_epoch=3, timestamp_ms=5))
    assert oracle.programs.ask("tidelog.oracle.ReadMetadata", {"files": [str(log)]}) == read
    file = {"files": [str(tmp_path / BOOTSTRAP_FILE)]}
    whole = oracle.programs.ask("tidelog.oracle.ReadMetadata", file)
    assert [whole[0], whole[-1]] == [{"type": "CONTROL", "offset": at} for at in (0, 1 + len(written))]


@pytest.mark.parametrize("operation", ["list", "open"])
def test_a_broker_that_removes_old_files_meanwhile_hides_no_topic(tmp_path: Path, operation: str) -> None:
    """A new snapshot takes the place of an old one, and of the segments up to it, between two looks."""
    directory = tmp_path / METADATA_DIRECTORY
    directory.mkdir()
    feature = FeatureLevelRecord("metadata.version", 29)
    records: list[MetadataRecord] = [feature, *(TopicRecord(f"t{n}", uuid.UUID(int=n)) for n in range(1, 6))]

    def write(base: int, end: int) -> None:
        data = encode_records_batch(records[base:end], base_offset=base, leader_epoch=1, timestamp_ms=0)
        (directory / f"{base:020}.log").write_bytes(data)

    def snapshot(end: int) -> Path:
        path = directory / f"{end:020}-{1:010}.checkpoint"
        path.write_bytes(encode_snapshot(records[:end], timestamp_ms=0))
        return path

    old = snapshot(2)
    write(2, 4)
    seen = 0

    def move_on(call: Call) -> None:
        nonlocal seen
        if call.operation == operation and call.path.startswith(str(directory)):
            seen += 1
            if seen == 2:
                snapshot(4)
                write(4, 6)
                (directory / f"{2:020}.log").unlink()
                old.unlink()

    fs = FaultyFileSystem(LOCAL, move_on)
    image = read_cluster_metadata(fs, str(tmp_path)).image
    assert sorted(image.topics) in ([f"t{n}" for n in range(1, end)] for end in (4, 6))


@pytest.mark.parametrize("operation", ["sync", "pwrite"])
def test_a_change_whose_sync_failed_is_not_in_the_log(tmp_path: Path, operation: str) -> None:
    shutil.copytree(CLEAN / METADATA_DIRECTORY, tmp_path / METADATA_DIRECTORY)
    fs = FaultyFileSystem(LOCAL, fail_on(operation, LOG.name, errno.EIO, times=1))
    registry = Registry(fs, str(tmp_path), 1, lambda: 0)
    with pytest.raises((OSError, LogOfflineError)):
        registry.register(largest_producer_id=10**7)
    assert read_cluster_metadata(LOCAL, tmp_path).end_offset == 405
    assert registry.register(largest_producer_id=10**7)
    assert read_cluster_metadata(LOCAL, tmp_path).image.next_producer_id > 10**7
