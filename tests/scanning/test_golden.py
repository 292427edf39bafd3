"""Scans of directories that Kafka wrote equal what Kafka's own reader and log say of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tests.golden import GOLDEN, GoldenPartition, golden_partition, golden_partitions
from tests.scanning import expected
from tidelog.records.schema import ALL_COLUMNS, Projection
from tidelog.scanning import ScanTask, plan_scan, run_task
from tidelog.scanning.log_end import log_end_offset, stable_offset
from tidelog.scanning.partitions import Partition, find_partitions
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.splits import Split, plan_splits
from tidelog.scanning.timestamps import offset_for_timestamp

PARTITIONS = golden_partitions()
ASKED = [partition for partition in PARTITIONS if partition.lookups_path is not None]

by_name = pytest.mark.parametrize("golden", PARTITIONS, ids=lambda partition: partition.name)
asked = pytest.mark.parametrize("golden", ASKED, ids=lambda partition: partition.name)


def whole(golden: GoldenPartition) -> OffsetRange:
    partition = opened(golden)
    return OffsetRange(partition, partition.log_start_offset, log_end_offset(partition))


def opened(golden: GoldenPartition) -> Partition:
    (partition,) = find_partitions(golden.directory)
    return partition


def run(splits: list[Split], columns: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    projection = Projection.of(columns)
    batches = [batch for split in splits for task in split.tasks for batch in run_task(task, projection)]
    return [row for batch in batches for row in batch.to_pylist()]


@by_name
@pytest.mark.parametrize("wanted", [1, 3, 50])
def test_splits_hold_every_record_once_and_in_order(golden: GoldenPartition, wanted: int) -> None:
    splits = plan_splits([whole(golden)], min_splits=wanted)
    assert run(splits) == expected.rows(golden)
    assert len(splits) <= wanted
    assert wanted != 1 or len(splits) == 1


@by_name
def test_splits_by_records_hold_no_more(golden: GoldenPartition) -> None:
    splits = plan_splits([whole(golden)], max_records=7)
    pieces = [run([split], ("offset",)) for split in splits]
    assert max(len(piece) for piece in pieces) <= 7
    offsets = [row["offset"] for piece in pieces for row in piece]
    assert offsets == [record["offset"] for record in expected.records(golden)]


def test_splits_by_bytes_are_as_small_as_the_index_allows() -> None:
    golden = golden_partition("golden-none-0")
    total = sum(log.stat().st_size for log in golden.logs())
    splits = plan_splits([whole(golden)], max_bytes=20_000)
    assert sum(split.size for split in splits) == total
    assert max(split.size for split in splits) <= 25_000
    assert len(splits) == -(-total // 20_000)


def test_splits_of_several_partitions_are_as_many_as_wanted_together() -> None:
    goldens = [golden_partition(name) for name in ("golden-none-0", "golden-txn-0", "golden-zstd-0")]
    splits = plan_splits([whole(golden) for golden in goldens], min_splits=12)
    assert 12 <= len(splits) <= 15
    assert {split.topic for split in splits} == {"golden-none", "golden-txn", "golden-zstd"}


@by_name
def test_a_range_is_cut_to_the_offset(golden: GoldenPartition) -> None:
    all_rows = expected.rows(golden)
    offsets = [row["offset"] for row in all_rows]
    for first, last in ((0.2, 0.8), (0.5, 0.5), (0.0, 0.1), (0.9, 1.0)):
        start = offsets[int(first * (len(offsets) - 1))]
        end = offsets[int(last * (len(offsets) - 1))] + 1
        got = tidelog.scan(golden.directory, start=start, end=end, split_bytes=700, control_records=True)
        got = got.read_all()
        assert got.to_pylist() == [row for row in all_rows if start <= row["offset"] < end]


def test_segments_outside_a_range_get_no_task() -> None:
    golden = golden_partition("golden-none-0")
    bases = [int(log.stem) for log in golden.logs()]
    tasks = plan_scan(golden.directory, start=bases[2] + 1, end=bases[3])
    assert [task.log_name for task in tasks] == [f"{bases[2]:020}.log"]
    assert plan_scan(golden.directory, start=bases[3], end=bases[3]) == []


@asked
def test_log_ends_and_stable_offsets_are_kafkas(golden: GoldenPartition) -> None:
    partition = opened(golden)
    end = log_end_offset(partition)
    facts = {key: value for line in golden.lookups()[:2] for key, value in line.items()}
    assert (partition.log_start_offset, end) == (facts["log_start_offset"], facts["log_end_offset"])
    assert stable_offset(partition, end) == facts["last_stable_offset"]


@asked
def test_offsets_by_time_are_kafkas(golden: GoldenPartition) -> None:
    partition = opened(golden)
    checked = 0
    for line in golden.lookups():
        if line.get("timestamp", -1) >= 0:
            found = offset_for_timestamp(partition, line["timestamp"])
            got = None if found is None else {"timestamp": found.timestamp, "offset": found.offset}
            assert got == line["found"], line["timestamp"]
            checked += 1
    assert checked > 50


@asked
@pytest.mark.parametrize("split_bytes", [1 << 30, 600])
def test_a_committed_scan_sees_what_kafka_committed(golden: GoldenPartition, split_bytes: int) -> None:
    stable = golden.lookups()[1]["last_stable_offset"]
    got = tidelog.scan(golden.directory, isolation="read_committed", split_bytes=split_bytes).read_all()
    assert set(got["offset"].to_pylist()) == expected.visible(golden, stable)


@pytest.mark.parametrize("start", [0, 5, 62, 113, 500, 1100, 1389])
def test_a_committed_scan_may_begin_inside_a_transaction(start: int) -> None:
    golden = golden_partition("golden-txn-0")
    got = tidelog.scan(golden.directory, isolation="read_committed", start=start, end=start + 90)
    wanted = {offset for offset in expected.visible(golden, 1390) if start <= offset < start + 90}
    assert set(got.read_all()["offset"].to_pylist()) == wanted


def test_a_high_watermark_below_an_abort_marker_hides_the_transaction() -> None:
    golden = golden_partition("golden-txn-0")
    partition = opened(golden)
    aborts = [r["offset"] for r in expected.records(golden) if r["control"]]
    for marker in aborts[:6]:
        before = stable_offset(partition, marker)
        assert before < marker
        assert before <= stable_offset(partition, marker + 1)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(threads: int) -> None:
    one = tidelog.scan(GOLDEN / "legacy", columns=ALL_COLUMNS).read_all()
    many = tidelog.scan(GOLDEN / "legacy", columns=ALL_COLUMNS, threads=threads, split_bytes=900).read_all()
    assert many.equals(one)
    assert len(one) > 2000


def test_a_reader_that_stops_early_leaves_no_thread() -> None:
    import threading

    before = threading.active_count()
    reader = tidelog.scan(GOLDEN / "legacy", threads=3, max_rows=10, split_bytes=900)
    reader.read_next_batch()
    reader.close()
    del reader
    assert threading.active_count() == before


def test_tasks_travel() -> None:
    tasks = plan_scan(GOLDEN / "clean", "golden-txn", isolation="read_committed", split_bytes=5000)
    sent: list[ScanTask] = pickle.loads(pickle.dumps(tasks))
    assert sent == tasks
    assert len(sent) > 5
    assert all(Path(task.url).is_absolute() for task in sent)


def test_several_roots_and_globs() -> None:
    roots = [GOLDEN / "clean" / "golden-none-0", GOLDEN / "legacy"]
    topics = set(tidelog.scan(roots, columns=["topic"]).read_all()["topic"].to_pylist())
    assert topics == {"golden-none"} | {
        f"legacy-v{v}-{c}" for v in (0, 1) for c in ("none", "gzip", "snappy", "lz4")
    }
    matched = tidelog.scan(f"{GOLDEN}/clean/golden-t*", columns=["topic"]).read_all()
    assert set(matched["topic"].to_pylist()) == {"golden-trimmed", "golden-txn", "golden-txncompact"}
    assert tidelog.scan((GOLDEN / "legacy").as_uri(), columns=[]).read_all().num_columns == 0


def test_constant_memory_settings_bound_batches() -> None:
    batches = list(tidelog.scan(GOLDEN / "clean", "golden-none", max_rows=100))
    assert max(batch.num_rows for batch in batches) <= 100
    assert sum(batch.num_rows for batch in batches) == 1560
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
