"""Segments that Kafka wrote: each question gets Kafka's answer, and written or recovered anew they come out
byte for byte the same."""

from __future__ import annotations

import base64
import shutil
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.golden import GoldenPartition, golden_partition, golden_partitions
from tests.segment.crafting import Nothing, created, opened, table_of
from tidelog.index import AbortedTxn
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.records import BatchTable
from tidelog.segment import SealedSegment
from tidelog.storage import Directory

RAFT = "__cluster_metadata-0"  # restarts have reset its cadence of index entries

each_partition = pytest.mark.parametrize("partition", golden_partitions(), ids=lambda each: each.name)
each_segmented = pytest.mark.parametrize(
    "partition", [each for each in golden_partitions() if each.name != RAFT], ids=lambda each: each.name
)


def segments(partition: GoldenPartition) -> list[SealedSegment]:
    directory = Directory(partition.directory)
    return [SealedSegment.open(directory, int(path.stem)) for path in partition.logs()]


def holder(listed: list[SealedSegment], offset: int) -> SealedSegment:
    return listed[bisect_right([segment.base_offset for segment in listed], offset) - 1]


@each_partition
def test_an_offset_is_found_where_kafka_finds_it(partition: GoldenPartition, kernel: str) -> None:
    asked = [line for line in partition.lookups() if "offset" in line]
    if partition.lookups_path is None:
        pytest.skip("Kafka was not asked about this one")
    assert asked
    listed = segments(partition)
    for line in asked[:: 1 if kernel == "compiled" else 10]:
        segment = holder(listed, line["offset"])
        assert segment.base_offset == line["segment"]
        entry = segment.offset_index.lookup(line["offset"])
        assert (entry.offset, entry.position) == (line["index_offset"], line["index_position"])
        found = segment.translate_offset(line["offset"])
        if found is None:
            assert line["batch_offset"] is line["batch_position"] is None
            continue
        assert (found.offset, found.position) == (line["batch_offset"], line["batch_position"])
        read = segment.read(line["offset"], 0, min_one_message=True)
        assert read is not None
        assert (read.start, len(read.data)) == (found, found.size)
        assert segment.translate_offset(line["offset"], starting_position=found.position) == found


@each_partition
def test_a_time_finds_what_it_finds_in_kafka(partition: GoldenPartition, kernel: str) -> None:
    asked = [line for line in partition.lookups() if "timestamp" in line]
    listed = segments(partition)
    for line in asked[:: 1 if kernel == "compiled" else 10]:
        late = [segment for segment in listed if segment.largest_timestamp >= line["timestamp"]]
        found = late[0].find_offset_by_timestamp(line["timestamp"], partition.log_start) if late else None
        answer = None if found is None else {"timestamp": found.timestamp, "offset": found.offset}
        assert answer == line["found"]


@each_partition
def test_each_record_is_read_by_its_offset(partition: GoldenPartition, kernel: str) -> None:
    expected = partition.records()
    listed = segments(partition)
    for line in expected[:: 1 if kernel == "compiled" else 25]:
        record = holder(listed, line["offset"]).read_record(line["offset"])
        assert record is not None
        assert record.offset == line["offset"]
        for name in (
            "timestamp",
            "leader_epoch",
            "producer_id",
            "producer_epoch",
            "transactional",
            "control",
        ):
            assert getattr(record, name) == line[name], name
        assert record.timestamp_type.label == line["timestamp_type"]
        assert record.sequence == line["sequence"]
        for name in ("key", "value"):
            data = line[name]
            assert getattr(record, name) == (None if data is None else base64.b64decode(data)), name
        headers = [
            [header.key, None if header.value is None else base64.b64encode(header.value).decode()]
            for header in record.headers
        ]
        assert headers == line["headers"]
    there = {line["offset"] for line in expected}
    for segment in listed:
        for offset in range(segment.base_offset, segment.next_offset()):
            if offset not in there and offset % 7 == 0:
                assert segment.read_record(offset) is None


@each_partition
def test_facts(partition: GoldenPartition) -> None:
    expected = partition.records()
    listed = segments(partition)
    for segment, following in zip(listed, [*listed[1:], None], strict=True):
        table = table_of(segment.buffer())
        assert segment.size == int(table.size.sum())
        assert segment.next_offset() == int(table.last_offset[-1]) + 1
        assert segment.first_batch_timestamp == int(table.max_timestamp[0])
        assert segment.max_timestamp_so_far.timestamp == max(-1, int(table.max_timestamp.max()))
        assert segment.index_fault() is None
        assert not segment.has_overflow
        if following is not None:
            assert segment.next_offset() <= following.base_offset
    assert listed[-1].next_offset() > expected[-1]["offset"]


def files(path: Path, base_offset: int) -> dict[str, bytes]:
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    return {kind: file.read_bytes() for kind in kinds if (file := path / f"{base_offset:020}{kind}").exists()}


@pytest.mark.parametrize("run", [1, 10_000])
@each_segmented
def test_appended_anew_it_comes_out_the_same(
    partition: GoldenPartition, run: int, tmp_path: Path, kernel: str
) -> None:
    directory = Directory(tmp_path)
    for log in partition.logs()[: None if kernel == "compiled" else 2]:
        base_offset, data = int(log.stem), log.read_bytes()
        table = table_of(data)
        interval = partition.index_interval_bytes
        segment = created(directory, base_offset, index_interval_bytes=interval, segment_index_bytes=65536)
        for first in range(0, len(table), run):
            part = table[first : first + run]
            segment.append(memoryview(data)[int(part.position[0]) : part.end], part)
        largest = segment.max_timestamp_so_far
        segment.seal()
        expected = files(partition.directory, base_offset)
        expected.pop(".txnindex", None)
        assert files(tmp_path, base_offset) == expected
        assert SealedSegment.open(directory, base_offset).max_timestamp_so_far == largest


class Producers:
    """The producers of a log, as its recovery fills them."""

    def __init__(self) -> None:
        self.manager = ProducerStateManager()

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        for txn in self.manager.load(batches, read_markers(buffer, batches)):
            if txn.is_aborted:
                yield AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)


@each_segmented
def test_recovered_from_its_log_alone_it_comes_out_the_same(
    partition: GoldenPartition, tmp_path: Path, kernel: str
) -> None:
    directory = Directory(tmp_path)
    producers = Producers()
    for log in partition.logs():
        shutil.copy(log, tmp_path)
        base_offset, interval = int(log.stem), partition.index_interval_bytes
        segment = opened(directory, base_offset, index_interval_bytes=interval, segment_index_bytes=65536)
        assert segment.recover(producers if partition.name == "golden-txn-0" else Nothing()) == 0
        segment.close()
        expected = files(partition.directory, base_offset)
        if partition.name != "golden-txn-0":
            expected.pop(".txnindex", None)
        assert files(tmp_path, base_offset) == expected


def test_recovery_finds_aborted_transactions() -> None:
    """So that the test above means something: the partition has some, in more than one segment."""
    sizes = [path.stat().st_size for path in golden_partition("golden-txn-0").directory.glob("*.txnindex")]
    assert sum(size > 0 for size in sizes) > 1


@pytest.mark.parametrize("name", ["golden-none-0", "golden-outoforder-0", "golden-zstd-0", "legacy-v1-lz4-0"])
def test_without_indexes_the_answers_are_the_same(name: str, tmp_path: Path) -> None:
    partition = golden_partition(name)
    for log in partition.logs():
        shutil.copy(log, tmp_path)
    bare = [SealedSegment.open(Directory(tmp_path), int(path.stem)) for path in partition.logs()]
    for segment, plain in zip(segments(partition), bare, strict=True):
        assert "missing" in str(plain.index_fault())
        assert plain.next_offset() == segment.next_offset()
        assert plain.max_timestamp_so_far == segment.max_timestamp_so_far
        assert plain.largest_timestamp == segment.largest_timestamp
        assert plain.fetch_upper_bound_offset(0, 10) is None
        for offset in range(segment.base_offset, segment.next_offset() + 2, 7):
            assert plain.translate_offset(offset) == segment.translate_offset(offset)
            record = segment.read_record(offset)
            assert plain.read_record(offset) == record
            if record is not None:
                found = segment.find_offset_by_timestamp(record.timestamp, segment.base_offset)
                assert plain.find_offset_by_timestamp(record.timestamp, segment.base_offset) == found
