"""Logs that Kafka wrote, opened as it opens them: the same answers, the same files afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden import GoldenPartition, golden_partition, golden_partitions
from tests.log.logs import answers, contents, data_files, golden_config
from tidelog.log import Log
from tidelog.records import scan_batches

PARTITIONS = [partition for partition in golden_partitions() if partition.lookups_path is not None]

UNKEPT = "golden-txncompact-0"
"""Compaction removed data whose aborts its index still has; no recovery, not Kafka's, finds them again."""


def _copy(partition: GoldenPartition, into: Path) -> Path:
    return shutil.copytree(partition.directory, into / partition.name)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda partition: partition.name)
def test_a_clean_open_answers_what_kafka_answers(partition: GoldenPartition, tmp_path: Path) -> None:
    path = _copy(partition, tmp_path)
    expected = partition.lookups()
    with Log.open(path, golden_config(partition), clean=True, log_start_offset=partition.log_start) as log:
        assert list(answers(log, expected)) == expected
    assert data_files(path) == data_files(partition.directory)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda partition: partition.name)
def test_recovery_from_the_start_rebuilds_what_kafka_wrote(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    path = _copy(partition, tmp_path)
    for index in [*path.glob("*index"), *path.glob("*.snapshot")]:
        if index.suffix != ".txnindex" or partition.name != UNKEPT:
            index.unlink()
    expected = partition.lookups()
    with Log.open(path, golden_config(partition), clean=False, log_start_offset=partition.log_start) as log:
        got = list(answers(log, expected))
    if partition.name == UNKEPT:
        expected, got = [[line for line in lines if "aborted" not in line] for lines in (expected, got)]
    assert got == expected
    rebuilt = data_files(path)
    if partition.name == UNKEPT:
        rebuilt = {name: data for name, data in rebuilt.items() if not name.endswith(".txnindex")}
    assert rebuilt.items() <= data_files(partition.directory).items()


@pytest.mark.parametrize("missing", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt_even_after_an_orderly_stop(missing: str, tmp_path: Path) -> None:
    partition = golden_partition("golden-txn-0")
    path = _copy(partition, tmp_path)
    for index in sorted(path.glob(f"*{missing}"))[1::2]:
        index.unlink()
    Log.open(path, golden_config(partition), clean=True).close()
    assert data_files(path) == data_files(partition.directory)


@pytest.mark.parametrize("name", ["golden-none-0", "golden-txn-0", "golden-zstd-0", "legacy-v1-lz4-0"])
@pytest.mark.parametrize("damage", ["cut", "flip", "zeros", "garbage"])
def test_recovery_keeps_what_comes_before_the_first_bad_batch(name: str, damage: str, tmp_path: Path) -> None:
    partition = golden_partition(name)
    path = _copy(partition, tmp_path)
    log_file = sorted(path.glob("*.log"))[-2]
    data = bytearray(log_file.read_bytes())
    batches = scan_batches(data).require()
    bad = len(batches) // 2
    at = int(batches.position[bad])
    match damage:
        case "cut":
            del data[at + 30 :]
        case "flip":
            data[at + int(batches.size[bad]) - 1] ^= 4
        case "zeros":
            data[at:] = bytes(len(data) - at)
        case _:
            data[at:] = bytes(range(1, 256)) * 4
    log_file.write_bytes(data)
    base_offset = int(log_file.stem)
    before = contents(partition.directory)
    with Log.open(path, golden_config(partition), clean=False, recovery_point=base_offset) as log:
        end = log.log_end_offset
        assert log.segments.last.base_offset == base_offset, "later segments go with what was cut"
        assert log.segments.last.size == at
    kept = scan_batches(bytes(data[:at])).require()
    assert end == (int(kept.last_offset[-1]) + 1 if len(kept) else base_offset)
    for file, content in data_files(path).items():
        if int(file[:20]) < base_offset:
            assert content == before[file]


def test_damage_below_the_recovery_point_is_not_cut(tmp_path: Path) -> None:
    partition = golden_partition("golden-none-0")
    path = _copy(partition, tmp_path)
    first = sorted(path.glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    with Log.open(path, golden_config(partition), clean=False, recovery_point=1500) as log:
        assert log.log_end_offset == 1560
    assert first.read_bytes() == data
