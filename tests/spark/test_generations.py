"""A topic that was deleted and created anew is another topic: reported as data loss or read from its start,
never read on from where the old one ended.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.spark.test_streaming import ALL, read, reader
from tests.spark.writer import LogWriter
from tidelog.errors import DataLossError
from tidelog.records import Record
from tidelog.scanning.partitions import find_partitions
from tidelog.spark.exporting.job import plan_export
from tidelog.spark.source import batch
from tidelog.spark.source.batch import plan_batch, read_part
from tidelog.spark.source.options import SourceOptions
from tidelog.spark.source.schemas import Wanted, source_schema
from tidelog.spark.source.streaming import decode_offset
from tidelog.spark.source.topic_ids import decode_ids, encode_ids, topic_id_at
from tidelog.tables.table import Done
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def values(first: int, end: int, mark: str = "new") -> list[bytes]:
    return [f"{mark} {n}".encode() for n in range(first, end)]


def create(root: Path, count: int, mark: str = "new", partitions: int = 1) -> None:
    """Make topic t anew, with so many records in each partition."""
    with tidelog.open(root, background=False) as store:
        if "t" in store.topics:
            store.delete_topic("t")
        store.create_topic("t", partitions)
        for partition in store.topic("t"):
            if count:
                partition.append([Record(value) for value in values(0, count, mark)])


def append(root: Path, first: int, end: int, mark: str = "new") -> None:
    with tidelog.open(root, background=False) as store:
        store.partition("t").append([Record(value) for value in values(first, end, mark)])


def lenient(root: Path, **options: Any) -> Any:
    return reader(root, startingOffsets="earliest", failOnDataLoss=False, **options)


class TestStreams:
    @pytest.mark.parametrize("count", [0, 5, 10, 25])
    def test_a_recreated_topic_is_data_loss(self, tmp_path: Path, count: int) -> None:
        """Whether it has fewer records than the old one, as many, or more."""
        create(tmp_path, 10, "old")
        stream = reader(tmp_path, startingOffsets="earliest")
        end = stream.latestOffset(stream.initialOffset(), ALL)
        create(tmp_path, count)
        for again in (stream, reader(tmp_path, startingOffsets="earliest")):
            with pytest.raises(DataLossError, match=r"topic t was deleted and created anew.*failOnDataLoss"):
                again.latestOffset(end, ALL)

    @pytest.mark.parametrize("count", [1, 5, 10, 25])
    def test_or_a_new_generation_from_its_start(self, tmp_path: Path, count: int) -> None:
        create(tmp_path, 10, "old")
        stream = lenient(tmp_path)
        start = stream.initialOffset()
        first = stream.latestOffset(start, ALL)
        assert read(stream, start, first) == values(0, 10, "old")
        create(tmp_path, count)
        second = stream.latestOffset(first, ALL)
        assert read(stream, first, second) == values(0, count)
        append(tmp_path, count, count + 3)
        restarted = lenient(tmp_path)
        third = restarted.latestOffset(json.loads(json.dumps(second)), ALL)
        assert read(restarted, second, third) == values(count, count + 3)
        # A batch that is run again is the same batch, or says that it cannot be.
        assert read(restarted, first, second) == values(0, count)
        assert read(restarted, start, first) == []
        with pytest.raises(DataLossError, match="offsets 0 to 9 of the old one cannot be read"):
            reader(tmp_path).partitions(start, first)

    def test_a_new_generation_comes_in_as_many_batches_as_the_limit_makes(self, tmp_path: Path) -> None:
        create(tmp_path, 10, "old")
        stream = lenient(tmp_path, maxOffsetsPerTrigger=4)
        end = lenient(tmp_path).latestOffset(stream.initialOffset(), ALL)
        create(tmp_path, 9)
        found: list[bytes] = []
        for _ in range(4):
            start, end = end, stream.latestOffset(end, stream.getDefaultReadLimit())
            found += read(stream, start, end)
        assert found == values(0, 9)

    def test_a_checkpoint_without_ids_is_believed_and_gets_them(self, tmp_path: Path) -> None:
        create(tmp_path, 10)
        stream = reader(tmp_path, startingOffsets="earliest")
        old = {"t": {"0": 6}}
        assert stream.latestOffset({"t": {"0": 10}}, ALL) == {"t": {"0": 10}}
        end = stream.latestOffset(old, ALL)
        assert end == {"t": {"0": 10}, "@ids": {"t": topic_id_at(str(tmp_path / "t-0"))}}
        assert read(stream, old, end) == values(6, 10)
        create(tmp_path, 20)
        with pytest.raises(DataLossError, match="created anew"):
            stream.latestOffset(end, ALL)

    def test_a_topic_without_an_id_is_read_as_before(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path, "events", 0)
        writer.append([b"0", b"1"])
        stream = reader(tmp_path, startingOffsets="earliest")
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        assert "@ids" not in end
        writer.append([b"2"])
        assert read(stream, end, stream.latestOffset(end, ALL)) == [b"2"]

    def test_an_id_that_is_gone_is_no_proof_of_the_same_topic(self, tmp_path: Path) -> None:
        create(tmp_path, 10)
        stream = reader(tmp_path, startingOffsets="earliest")
        end = stream.latestOffset(stream.initialOffset(), ALL)
        (tmp_path / "t-0" / "partition.metadata").unlink()
        with pytest.raises(DataLossError, match=r"has no readable partition\.metadata now"):
            stream.latestOffset(end, ALL)

    def test_fewer_partitions_than_before(self, tmp_path: Path) -> None:
        create(tmp_path, 10, "old", partitions=3)
        stream = lenient(tmp_path)
        first = stream.latestOffset(stream.initialOffset(), ALL)
        create(tmp_path, 4)
        with pytest.raises(DataLossError, match="created anew"):
            reader(tmp_path).latestOffset(first, ALL)
        second = stream.latestOffset(first, ALL)
        assert read(stream, first, second) == values(0, 4)
        create(tmp_path, 12, partitions=2)
        third = stream.latestOffset(second, ALL)
        assert sorted(read(stream, second, third)) == sorted(values(0, 12) * 2)

    def test_deleted_for_a_while_then_created_anew(self, tmp_path: Path) -> None:
        create(tmp_path, 10, "old")
        stream = lenient(tmp_path, subscribePattern=".*")
        end = stream.latestOffset(stream.initialOffset(), ALL)
        with tidelog.open(tmp_path, background=False) as store:
            store.delete_topic("t")
        gone = stream.latestOffset(end, ALL)
        assert decode_offset(gone) == {T0: 10}
        create(tmp_path, 25)
        assert read(stream, gone, stream.latestOffset(gone, ALL)) == values(0, 25)

    def test_created_anew_between_plan_and_read(self, tmp_path: Path) -> None:
        create(tmp_path, 10, "old")
        stream, easy = reader(tmp_path, startingOffsets="earliest"), lenient(tmp_path)
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        planned = stream.partitions(start, end)
        create(tmp_path, 10)
        with pytest.raises(DataLossError, match="what was planned of the old one cannot be read"):
            list(stream.read(planned[0]))
        assert list(easy.read(planned[0])) == []
        with pytest.raises(DataLossError, match="of the old one cannot be read"):
            stream.partitions(start, end)


def test_a_batch_read_does_not_mix_two_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_FEW_ROWS", 1)  # small batches come one by one
    create(tmp_path, 10, "old")
    options = SourceOptions.parse({"path": str(tmp_path)})
    (part,) = plan_batch(options)
    wanted = Wanted.of(source_schema(options))
    reading = read_part(part, options, wanted)
    assert next(reading).num_rows == 10
    create(tmp_path, 10)  # after the file was opened: what was read of it is the old topic's
    with pytest.raises(
        DataLossError, match=r"while it was read; run it again|gone since the scan was planned"
    ):
        list(reading)
    with pytest.raises(DataLossError, match="created anew"):
        list(read_part(part, options, wanted))


class TestExportPlans:
    def plan(self, root: Path, before: Done, **options: Any) -> Any:
        chosen = SourceOptions.parse({"path": str(root), **options})
        return plan_export(find_partitions(root), before, chosen)

    def test_ids_are_kept_and_another_one_is_data_loss(self, tmp_path: Path) -> None:
        create(tmp_path, 10, "old", partitions=2)
        done = self.plan(tmp_path, Done()).done
        assert done.offsets == {T0: 10, T1: 10}
        assert done.ids == {name: topic_id_at(str(tmp_path / str(name))) for name in (T0, T1)}
        create(tmp_path, 25)
        with pytest.raises(DataLossError, match=r"created anew.*exported up to offset 10"):
            self.plan(tmp_path, done)
        plan = self.plan(tmp_path, done, failOnDataLoss="false")
        assert [(one.start, one.end) for one in plan.ranges] == [(0, 25)]
        assert plan.done.offsets == {T0: 25}
        assert plan.done.generations == {"t": 2}
        again = self.plan(tmp_path, plan.done)
        assert (again.ranges, again.done) == ([], plan.done)

    def test_offsets_without_ids_are_believed(self, tmp_path: Path) -> None:
        create(tmp_path, 10)
        plan = self.plan(tmp_path, Done({T0: 6}))
        assert [(one.start, one.end) for one in plan.ranges] == [(6, 10)]
        assert plan.done.ids == {T0: topic_id_at(str(tmp_path / "t-0"))}

    def test_a_log_that_was_cut_back(self, tmp_path: Path) -> None:
        create(tmp_path, 10)
        done = self.plan(tmp_path, Done()).done
        with tidelog.open(tmp_path, background=False) as store:
            store.partition("t").log.truncate_to(0)
            store.partition("t").append([Record(value) for value in values(0, 4)])
        with pytest.raises(DataLossError, match="exported up to offset 10, but its log ends at 4"):
            self.plan(tmp_path, done)
        plan = self.plan(tmp_path, done, failOnDataLoss="false")
        assert plan.ranges == []
        assert (plan.done.offsets, plan.done.generations) == ({T0: 4}, {"t": 2})


def test_ids_as_json() -> None:
    same = {T0: "a", T1: "a", TopicPartition("u", 0): "b"}
    assert encode_ids(same) == {"t": "a", "u": "b"}
    mixed = {T0: "a", T1: "b"}
    assert encode_ids(mixed) == {"t": {"0": "a", "1": "b"}}
    for ids in (same, mixed):
        assert decode_ids(json.loads(json.dumps(encode_ids(ids))), ids) == ids
    assert decode_ids({}, [T0]) == {}


def test_an_export_keeps_both_generations_apart(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    import tidelog.spark

    root, out = tmp_path / "root", tmp_path / "out"

    def exported() -> list[bytes]:
        found = [pq.read_table(path, partitioning=None) for path in sorted(out.rglob("*.parquet"))]
        return sorted(value for table in found for value in table["value"].to_pylist())

    create(root, 10, "old")
    tidelog.spark.export(spark, root, out)
    create(root, 10)
    with pytest.raises(DataLossError, match="created anew"):
        tidelog.spark.export(spark, root, out)
    tidelog.spark.export(spark, root, out, fail_on_data_loss=False)
    assert exported() == sorted(values(0, 10, "old") + values(0, 10))
    append(root, 10, 15)
    tidelog.spark.export(spark, root, out)
    assert exported() == sorted(values(0, 10, "old") + values(0, 15))
    shutil.rmtree(root)
