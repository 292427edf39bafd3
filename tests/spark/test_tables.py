"""`export` to Delta and Iceberg: every record once in the table, whoever writes to it too."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import GreaterThan

import tidelog
import tidelog.spark
from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tests.spark.writer import LogWriter
from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.records import Record
from tidelog.spark import ParquetSettings
from tidelog.tables.opening import open_table
from tidelog.tables.table import DataFile, Done, Table, TableFormat
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
CLEAN = GOLDEN / "clean"
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Kind:
    """A table of a format, below a directory: how it is named, and how others read and write it."""

    format: str
    directory: Path

    @property
    def target(self) -> str:
        return "test.db.events" if self.is_iceberg else str(self.directory / "table")

    @property
    def is_iceberg(self) -> bool:
        return self.format == "iceberg"

    @property
    def options(self) -> dict[str, str]:
        if not self.is_iceberg:
            return {}
        at = {"uri": f"sqlite:///{self.directory}/catalog.db", "warehouse": f"file://{self.directory}/lake"}
        return {"type": "sql", **at}

    def iceberg(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("test", **self.options).load_table("db.events")

    def export(self, spark: SparkSession, path: Path, **more: Any) -> DataFrame:
        return tidelog.spark.export(
            spark, path, self.target, format=self.format, table_options=self.options, **more
        )

    def open(self) -> Table:
        return open_table(TableFormat(self.format), self.target, self.options)

    def read(self) -> pa.Table:
        """What its own library reads."""
        from deltalake import DeltaTable

        if self.is_iceberg:
            return self.iceberg().scan().to_arrow()
        return DeltaTable(self.target).to_pyarrow_table()

    def polars(self) -> pl.LazyFrame:
        return pl.scan_iceberg(self.iceberg()) if self.is_iceberg else pl.scan_delta(self.target)

    def write_as_another(self, rows: pa.Table) -> None:
        from deltalake import write_deltalake

        if self.is_iceberg:
            self.iceberg().append(rows)
        else:
            write_deltalake(self.target, rows, mode="append")

    @property
    def location(self) -> Path:
        return self.directory / "lake/db/events" if self.is_iceberg else Path(self.target)

    def files_after(self, timestamp_ms: int) -> tuple[int, int]:
        """By the metadata: how many files have to be read for later records, and how many there are."""
        from deltalake import DeltaTable

        if self.is_iceberg:
            at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
            later = self.iceberg().scan(row_filter=GreaterThan("timestamp", at.isoformat()))
            return len(list(later.plan_files())), len(list(self.iceberg().scan().plan_files()))
        files = pa.table(DeltaTable(self.target).get_add_actions(flatten=True))
        largest = files["max.timestamp"].cast(pa.int64())
        return pc.sum(pc.greater(largest, timestamp_ms * 1000)).as_py(), files.num_rows


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(request.param, tmp_path)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def values(kind: Kind) -> list[int]:
    return sorted(int(value) for value in kind.read()["value"].to_pylist())


def numbers(first: int, end: int) -> list[bytes]:
    return [str(n).encode() for n in range(first, end)]


def data_files(kind: Kind) -> set[str]:
    return {str(path.relative_to(kind.location)) for path in kind.location.rglob("data/**/*.parquet")}


def test_golden_topics_arrive_whole(spark: SparkSession, kind: Kind) -> None:
    topics = ["golden-none", "golden-txn", "golden-trimmed", "golden-zstd"]
    report = kind.export(spark, CLEAN, topics=topics).toArrow()
    visible = expected.visible(golden_partition("golden-txn-0"), 1390)
    wanted = [
        row
        for topic in sorted(topics)
        for row in expected.rows(golden_partition(f"{topic}-0"), control=False)
        if topic != "golden-txn" or row["offset"] in visible
    ]
    found = rows(kind.polars().collect().to_arrow())
    assert [{name: row[name] for name in wanted[0]} for row in found] == wanted
    if kind.is_iceberg:  # pyiceberg reads a null list of structs as an empty one
        wanted = [row | {"headers": row["headers"] or []} for row in wanted]
    assert [{name: row[name] for name in wanted[0]} for row in rows(kind.read())] == wanted
    assert sum(report["records"].to_pylist()) == len(wanted)
    assert kind.export(spark, CLEAN, topics=topics).count() == 0
    assert kind.read().num_rows == len(wanted)
    assert not list((kind.location / "_tidelog/runs").iterdir()), "no run is under way"


def test_runs_go_on_where_the_last_one_ended_and_others_may_write(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writers = [LogWriter(log, "events", 0)]
    count = 0
    for run in range(3):
        for writer in writers:
            writer.append(numbers(count, count + 10))
            count += 10
        report = kind.export(spark, log, value_format="string").toArrow()
        assert sum(report["records"].to_pylist()) == 10 * len(writers)
        assert [v for v in values(kind) if v >= 0] == list(range(count))
        kind.write_as_another(kind.read().slice(0, 1).set_column(*_negative(kind.read(), run)))
        writers.append(LogWriter(log, "events", run + 1))
    assert values(kind)[:3] == [-3, -2, -1]


def _negative(table: pa.Table, run: int) -> tuple[int, str, pa.Array]:
    return table.schema.get_field_index("value"), "value", pa.array([str(-1 - run)])


def test_later_records_are_found_without_opening_the_earlier_files(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0)
    for hour in range(4):
        writer.append(numbers(10 * hour, 10 * hour + 10), timestamp=START_MS + hour * HOUR_MS)
        kind.export(spark, log, value_format="string")
    after = START_MS + 2 * HOUR_MS
    assert kind.files_after(after - 1) == (2, 4)
    assert kind.files_after(after) == (1, 4)
    late = kind.polars().filter(pl.col("timestamp") > pl.lit(after).cast(pl.Datetime("ms", "UTC")))
    assert sorted(late.collect()["offset"].to_list()) == list(range(30, 40))


def test_json_values_become_columns_and_new_fields_are_added(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0)
    writer.append([json.dumps({"id": n, "x": {"y": [n / 2]}}).encode() for n in range(5)])
    kind.export(spark, log, value_format="json")
    writer.append([b'{"id":5,"new":"a"}', b"broken"])
    kind.export(spark, log, value_format="json")
    writer.append([b'{"id":6,"new":"b","x":{"z":true}}'])
    kind.export(spark, log, value_format="json", evolve=True)
    writer.append([b'{"id":7}'])
    kind.export(spark, log, value_format="json")
    found = rows(kind.read())
    assert [row["value"] and row["value"]["id"] for row in found] == [0, 1, 2, 3, 4, None, None, 6, 7]
    assert [row["value_invalid"] for row in found[5:7]] == [b'{"id":5,"new":"a"}', b"broken"]
    assert found[4]["value"] == {"id": 4, "x": {"y": [2.0], "z": None}, "new": None}
    assert found[7]["value"] == {"id": 6, "x": {"y": None, "z": True}, "new": "b"}
    writer.append([b'{"id":1.5}'])
    with pytest.raises(InvalidInputError, match=r"values need wider types than .* has"):
        kind.export(spark, log, value_format="json", evolve=True)
    with pytest.raises(
        InvalidInputError, match=r"column value of .* is struct.*, and binary is to be exported"
    ):
        kind.export(spark, log)
    assert kind.export(spark, log, value_format="json").count() == 1
    assert rows(kind.read())[9]["value_invalid"] == b'{"id":1.5}'


def test_types_are_widened_where_the_format_can(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0)
    writer.append([b'{"id":1,"x":[{"y":2}]}'])
    kind.export(spark, log, value_format="json", schema="id INT, x ARRAY<STRUCT<y: INT>>")
    writer.append([b'{"id":8589934592,"x":[{"y":8589934593}]}'])
    if not kind.is_iceberg:
        with pytest.raises(InvalidInputError, match="its format does not widen them so"):
            kind.export(spark, log, value_format="json", evolve=True)
        return
    kind.export(spark, log, value_format="json", evolve=True)
    found = [row["value"] for row in rows(kind.read())]
    assert found == [{"id": 1, "x": [{"y": 2}]}, {"id": 8589934592, "x": [{"y": 8589934593}]}]


def make_topic(root: Path, count: int, partitions: int = 1) -> None:
    with tidelog.open(root, background=False) as store:
        if "events" in store.topics:
            store.delete_topic("events")
        store.create_topic("events", partitions)
        for partition in store.topic("events"):
            partition.append([Record(value) for value in numbers(0, count)])


def test_a_topic_that_was_created_anew_is_not_taken_for_the_old_one(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    make_topic(log, 10)
    kind.export(spark, log, value_format="string")
    make_topic(log, 20)
    with pytest.raises(DataLossError, match="topic events was deleted and created anew"):
        kind.export(spark, log, value_format="string")
    assert values(kind) == list(range(10))
    kind.export(spark, log, value_format="string", fail_on_data_loss=False)
    assert values(kind) == sorted([*range(10), *range(20)]), "both topics, whole"
    with tidelog.open(log, background=False) as store:
        store.partition("events").append([Record(b"20")])
    kind.export(spark, log, value_format="string")
    assert values(kind) == sorted([*range(10), *range(21)])


def test_rows_are_sorted_within_row_groups(spark: SparkSession, kind: Kind) -> None:
    log, dice = kind.directory / "log", random.Random(7)
    order = [*range(100)]
    dice.shuffle(order)
    with tidelog.open(log, background=False) as store:
        topic = store.create_topic("events")
        topic[0].append([Record(b"v", key=b"%02d" % n, timestamp=START_MS + n // 10) for n in order])
    kind.export(spark, log, settings=ParquetSettings(sort_by=("timestamp", "key")))
    (file,) = kind.open().files()
    with pq.ParquetFile(file.url) as found:
        keys = found.read(columns=["key"])["key"].to_pylist()
        assert keys == [b"%02d" % n for n in range(100)]
        group = found.metadata.row_group(0)
        names = [group.column(each.column_index).path_in_schema for each in group.sorting_columns]
        assert names == ["timestamp", "key"]
        columns = {one.path_in_schema: one for one in map(group.column, range(group.num_columns))}
        assert (columns["key"].statistics.min, columns["key"].statistics.max) == (b"00", b"99")
    with tidelog.open(log, background=False) as store:
        store.topic("events")[0].append([Record(b"v", key=b"00", timestamp=START_MS)])
    sorted_ = ParquetSettings(sort_by=("key",))
    kind.export(spark, log, settings=sorted_)
    how = {"format": kind.format, "table_options": kind.options, "settings": sorted_}
    tidelog.spark.merge_files(spark, kind.target, **how)
    (merged,) = kind.open().files()
    keys = pq.read_table(merged.url, columns=["key"], partitioning=None)["key"].to_pylist()
    assert keys == [b"00", *(b"%02d" % n for n in range(100))], "merged files are sorted, too"
    with pytest.raises(InvalidInputError, match="rows are sorted by any of key, timestamp, offset"):
        ParquetSettings(sort_by=("value",))


def test_partition_columns(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    for partition in range(2):
        LogWriter(log, "events", partition).append(numbers(0, 3))
    kind.export(spark, log, value_format="string", partition_by=["partition"])
    assert kind.open().partition_by == ("partition",)
    for found in (rows(kind.read()), rows(kind.polars().collect().to_arrow())):
        assert [(row["topic"], row["partition"], row["value"]) for row in found] == [
            ("events", partition, str(n)) for partition in range(2) for n in range(3)
        ]
    with pytest.raises(InvalidInputError, match="a table is partitioned by any of topic, partition, date"):
        kind.export(spark, log, partition_by=["key"])


class Appending:
    """Commits of files, one after the other, without Spark."""

    T0, T1 = TopicPartition("events", 0), TopicPartition("events", 1)

    @pytest.fixture
    def table(self, kind: Kind) -> Kind:
        schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("date", pa.date32())])
        schema = pa.schema([*schema, ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
        kind.open().create(schema if kind.format == "delta" else schema.remove(2))
        return kind

    def add(self, kind: Kind, table: Table, name: TopicPartition, first: int, end: int, run: str) -> None:
        import pyarrow.parquet as pq

        at = pa.array([START_MS * 1000] * (end - first), pa.timestamp("us", "UTC"))
        data = {
            "topic": [name.topic] * len(at),
            "partition": pa.array([name.partition] * len(at), pa.int32()),
        }
        whole = pa.table(data | {"offset": range(first, end), "timestamp": at})
        path = kind.location / "data" / run / "topic=events" / "date=2023-11-14" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = table.file_schema(whole.schema)
        pq.write_table(whole.select(schema.names).cast(schema), path)
        relative = str(path.relative_to(kind.location))
        us = START_MS * 1000
        facts = (len(at), path.stat().st_size, first, end - 1, us, us, 0)
        file = DataFile(relative, name.topic, name.partition, "2023-11-14", *facts)
        before = Done({name: first} if first else {}, {name: "id"} if first else {})
        table.append(f"data/{run}", [file], before, Done({name: end}, {name: "id"}))


class TestTwoExportsAtOnce(Appending):
    """Without a lock, as in an object store: the commits decide."""

    def test_of_the_same_partition_one_is_refused(self, table: Kind) -> None:
        a, b = table.open(), table.open()
        self.add(table, a, self.T0, 0, 10, "a")
        with pytest.raises(LogLockedError, match=r"another export to .* came in between; nothing was added"):
            self.add(table, b, self.T0, 0, 10, "b")
        assert table.read().num_rows == 10
        assert b.done({self.T0: "id"}) == Done({self.T0: 10}, {self.T0: "id"})
        self.add(table, b, self.T0, 10, 15, "c")
        assert sorted(table.read()["offset"].to_pylist()) == list(range(15))

    def test_of_other_partitions_both_succeed(self, table: Kind) -> None:
        a, b = table.open(), table.open()
        self.add(table, a, self.T0, 0, 10, "a")
        self.add(table, b, self.T1, 0, 7, "b")
        done = table.open().done({self.T0: "id", self.T1: "id"})
        assert done.offsets == {self.T0: 10, self.T1: 7}
        assert table.read().num_rows == 17

    def test_a_column_that_others_add_meanwhile_is_kept(self, table: Kind) -> None:
        mine, other = table.open(), table.open()
        schema = other.schema()
        assert schema is not None
        other.add_columns(schema.append(pa.field("more", pa.string())))
        self.add(table, mine, self.T0, 0, 10, "a")
        assert table.read()["more"].null_count == 10
        assert mine.partition_by == table.open().partition_by == ("topic", "date")

    def test_a_rule_that_others_make_meanwhile_is_not_broken(self, table: Kind) -> None:
        if table.is_iceberg:
            pytest.skip("Iceberg has no such rules")
        from deltalake import DeltaTable

        mine = table.open()
        DeltaTable(table.target).alter.add_constraint({"few": "offset < 5"})
        with pytest.raises(InvalidInputError, match=r"has delta\.constraints\.few"):
            self.add(table, mine, self.T0, 0, 10, "a")
        assert table.read().num_rows == 0


class TestTheTableIsMaintained(Appending):
    """What others do to a table between two exports."""

    def test_offsets_stay_when_history_is_cut_off(self, table: Kind) -> None:
        for first in range(0, 30, 10):
            self.add(table, table.open(), self.T0, first, first + 10, f"run-{first}")
        if table.is_iceberg:
            from pyiceberg.expressions import EqualTo

            table.iceberg().delete(EqualTo("offset", 0))  # a snapshot without our offsets is the last
            old = [each.snapshot_id for each in table.iceberg().snapshots()[:-1]]
            table.iceberg().maintenance.expire_snapshots().by_ids(old).commit()
            assert len(table.iceberg().snapshots()) == 1
        else:
            from deltalake import DeltaTable

            DeltaTable(table.target).delete("offset = 0")
            DeltaTable(table.target).optimize.compact()
            DeltaTable(table.target).create_checkpoint()
            for log in Path(table.target, "_delta_log").glob("*.json"):
                log.unlink()  # as the cleanup does when they are old enough
        assert table.open().done({self.T0: "id"}) == Done({self.T0: 30}, {self.T0: "id"})
        assert sorted(table.read()["offset"].to_pylist()) == list(range(1, 30))

    def test_offsets_go_back_with_an_iceberg_table_that_is_rolled_back(self, table: Kind) -> None:
        if not table.is_iceberg:
            pytest.skip("Delta keeps app transactions when a table is restored")
        for first in range(0, 30, 10):
            self.add(table, table.open(), self.T0, first, first + 10, f"run-{first}")
        second = table.iceberg().snapshots()[1].snapshot_id
        table.iceberg().manage_snapshots().rollback_to_snapshot(second).commit()
        assert table.read().num_rows == 20
        assert table.open().done({self.T0: "id"}).offsets == {self.T0: 20}
        self.add(table, table.open(), self.T0, 20, 30, "again")
        assert sorted(table.read()["offset"].to_pylist()) == list(range(30))

    def test_an_iceberg_table_that_is_rolled_back_to_before_all_exports_is_refused(self, table: Kind) -> None:
        if not table.is_iceberg:
            pytest.skip("Delta keeps app transactions when a table is restored")
        self.add(table, table.open(), self.T1, 0, 5, "first")
        rows = table.read()
        with table.iceberg().transaction() as other:
            other.remove_properties("tidelog.offsets")
            other.overwrite(rows)
        old = table.iceberg().snapshots()
        self.add(table, table.open(), self.T0, 0, 10, "run")
        table.iceberg().maintenance.expire_snapshots().by_ids([old[0].snapshot_id]).commit()
        before = old[-1].snapshot_id
        table.iceberg().manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
        with pytest.raises(DataLossError, match="was rolled back to a snapshot that does not tell where"):
            table.open().done({self.T0: "id"})


def test_files_of_a_dead_run_are_removed_and_no_others(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    LogWriter(log, "events", 0).append(numbers(0, 10))
    kind.export(spark, log, value_format="string")
    kept = data_files(kind)
    writer = LogWriter(log, "events", 1)
    writer.append(numbers(10, 20))
    runs = kind.location / "_tidelog/runs"
    began = [["events", 0, None, 10], ["events", 1, None, None]]
    for run in ("dead", "unknown"):
        (kind.location / "data" / run).mkdir()
        (kind.location / "data" / run / "x.parquet").write_bytes(b"half")
    (runs / "dead").mkdir()
    (runs / "dead/run.json").write_text(json.dumps({"began": began}))
    (committed,) = {path.split("/")[1] for path in kept}
    (runs / committed).mkdir()  # its run died right after its commit
    (runs / committed / "run.json").write_text(json.dumps({"began": [["events", 0, None, None]]}))
    kind.export(spark, log, value_format="string")
    assert values(kind) == list(range(20))
    assert kept < data_files(kind)
    assert "data/dead/x.parquet" not in data_files(kind)
    assert "data/unknown/x.parquet" in data_files(kind), "nobody knows whose it is"
    assert not list(runs.iterdir())


def test_a_failed_run_leaves_nothing(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0, batches_per_segment=1)
    for first in range(0, 30, 10):
        writer.append(numbers(first, first + 10))
    damaged = writer.directory / f"{20:020}.log"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 0xFF
    damaged.write_bytes(data)
    with pytest.raises(tidelog.errors.ChecksumError):
        kind.export(spark, log, value_format="string")
    assert data_files(kind) == set()
    kind.export(spark, log, value_format="string", fail_on_data_loss=False)
    assert values(kind) == list(range(20))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["append", "by-key", "compact"])
@pytest.mark.parametrize("kind_name", ["delta", "iceberg"])
def test_exports_that_are_killed_at_any_step_add_every_record_once(
    kind_name: str, way: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.spark.table_kills", str(tmp_path), kind_name, "30", "5", way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["before"] > (0 if way == "compact" else 3), "some runs died before their commit"
    assert told["after"] > 3, "some died after it"
    assert told["files"] <= told["commits"] + 1, "nothing is left of the others"
