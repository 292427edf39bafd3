"""Index files that Kafka wrote: their entries are sound, and each question gets Kafka's answer."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest

from tests.golden import GoldenPartition, golden_partition, golden_partitions
from tidelog.index import AbortedTxn, OffsetIndex, TimeIndex, TransactionIndex
from tidelog.storage import Directory

pytestmark = pytest.mark.usefixtures("kernel")

each_partition = pytest.mark.parametrize("partition", golden_partitions(), ids=lambda each: each.name)


def bases(partition: GoldenPartition) -> list[int]:
    return [int(path.stem) for path in partition.logs()]


@each_partition
def test_entries_are_sound(partition: GoldenPartition) -> None:
    directory = Directory(partition.directory)
    starts = bases(partition)
    for base, following in zip(starts, [*starts[1:], 2**62], strict=True):
        index, times = OffsetIndex(directory, base), TimeIndex(directory, base)
        index.sanity_check()
        times.sanity_check()
        offsets, positions = index.entries_array()
        assert len(offsets) == Path(index.path).stat().st_size // 8
        assert (np.diff(offsets) > 0).all()
        assert (np.diff(positions) > 0).all()
        assert ((offsets >= base) & (offsets < following)).all()
        log_size = partition.directory.joinpath(f"{base:020}.log").stat().st_size
        assert ((positions > 0) & (positions < log_size)).all()
        timestamps, at = times.entries_array()
        assert (np.diff(timestamps) > 0).all()
        assert ((at >= base) & (at < following)).all()


@each_partition
def test_an_index_entry_points_at_the_batch_with_its_offset(partition: GoldenPartition) -> None:
    directory = Directory(partition.directory)
    for base in bases(partition):
        log = partition.directory.joinpath(f"{base:020}.log").read_bytes()
        offsets, positions = OffsetIndex(directory, base).entries_array()
        for offset, position in zip(offsets.tolist(), positions.tolist(), strict=True):
            first = int.from_bytes(log[position : position + 8], "big")
            magic = log[position + 16]
            last = first + int.from_bytes(log[position + 23 : position + 27], "big") if magic == 2 else first
            assert last == offset


@each_partition
def test_each_offset_finds_kafkas_entry(partition: GoldenPartition) -> None:
    directory = Directory(partition.directory)
    starts = bases(partition)
    indexes = {base: OffsetIndex(directory, base) for base in starts}
    asked = [line for line in partition.lookups() if "offset" in line]
    if partition.lookups_path is None:
        pytest.skip("Kafka was not asked about this one")
    assert asked
    for line in asked:
        base = starts[bisect_right(starts, line["offset"]) - 1]
        found = indexes[base].lookup(line["offset"])
        assert (base, found.offset, found.position) == (
            line["segment"],
            line["index_offset"],
            line["index_position"],
        )
    for base, index in indexes.items():
        lines = [line for line in asked if line["segment"] == base]
        offsets, positions = index.lookup_many([line["offset"] for line in lines])
        assert offsets.tolist() == [line["index_offset"] for line in lines]
        assert positions.tolist() == [line["index_position"] for line in lines]


@each_partition
def test_time_index_entries_agree_with_the_records(partition: GoldenPartition) -> None:
    """Nothing up to an entry's offset is later than its timestamp."""
    directory = Directory(partition.directory)
    records = [record for record in partition.records() if record["timestamp"] >= 0]
    starts = bases(partition)
    for base, following in zip(starts, [*starts[1:], 2**62], strict=True):
        timestamps, offsets = TimeIndex(directory, base).entries_array()
        mine = [record for record in records if base <= record["offset"] < following]
        for timestamp, offset in zip(timestamps.tolist(), offsets.tolist(), strict=True):
            assert all(record["timestamp"] <= timestamp for record in mine if record["offset"] <= offset)


@pytest.mark.parametrize("name", ["golden-txn-0", "golden-txncompact-0"])
def test_committed_reads_find_kafkas_aborted_transactions(name: str) -> None:
    """As a log collects them: segment by segment until an index says that it is complete."""
    partition = golden_partition(name)
    directory = Directory(partition.directory)
    starts = bases(partition)
    lines = [line for line in partition.lookups() if "committed_from" in line]
    stable = next(line for line in partition.lookups() if "last_stable_offset" in line)["last_stable_offset"]
    assert sum(len(line["aborted"]) for line in lines) > 5
    for line in lines:
        first = bisect_right(starts, line["committed_from"]) - 1
        bound = min(starts[first + 1] if first + 1 < len(starts) else stable, stable)
        found: list[AbortedTxn] = []
        for base in starts[first:]:
            index = TransactionIndex(directory, base)
            index.sanity_check()
            aborted, complete = index.collect_aborted_txns(line["committed_from"], bound)
            found += aborted
            if complete:
                break
        assert [[txn.producer_id, txn.first_offset] for txn in found] == line["aborted"]


def test_transaction_index_entries_in_words() -> None:
    directory = Directory(golden_partition("golden-txn-0").directory)
    entries = TransactionIndex(directory, 369).all_aborted_txns()
    data = Path(directory.path, "00000000000000000369.txnindex").read_bytes()
    assert len(entries) == 1
    assert entries[0].encode() == data
    assert entries[0].first_offset < entries[0].last_offset
    assert entries[0].last_offset >= 369


def test_a_partition_without_aborts_has_none() -> None:
    index = TransactionIndex(Directory(golden_partition("golden-none-0").directory), 0)
    assert index.is_empty
    assert index.all_aborted_txns() == []
    assert index.collect_aborted_txns(0, 100) == ([], False)
    index.sanity_check()
