"""`spark.read.format("tidelog")`: Kafka's records, whatever the splits, options and damage."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden import GOLDEN, golden_partition, golden_partitions
from tests.scanning import expected
from tests.spark.conftest import Source, direct, golden_copy, rows
from tidelog.errors import CorruptRecordError, DataLossError, InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEAN, LEGACY = GOLDEN / "clean", GOLDEN / "legacy"
CONNECTOR_COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]


def golden_rows(*names: str, **keywords: Any) -> list[dict[str, Any]]:
    """What Kafka says of these partitions (all that are not internal), in order."""
    chosen = [p for p in golden_partitions() if p.name in names or (not names and p.name[:2] != "__")]
    found = [row for partition in chosen for row in expected.rows(partition, **keywords)]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def offsets(df: Any) -> list[int]:
    return sorted(row.offset for row in df.select("offset").collect())


def test_the_schema_is_the_connectors(source: Source) -> None:
    assert source(CLEAN).dtypes == CONNECTOR_COLUMNS
    headers = ("headers", "array<struct<key:string,value:binary>>")
    assert source(CLEAN, includeHeaders=True).dtypes == [*CONNECTOR_COLUMNS, headers]
    with_facts = source(CLEAN, includeBatchFacts=True).dtypes
    assert with_facts[:7] == CONNECTOR_COLUMNS
    assert dict(with_facts[7:])["producer_id"] == "bigint"


@pytest.mark.parametrize("splits", [1, 50])
def test_all_topics_equal_what_kafka_reads(source: Source, splits: int) -> None:
    df = source([CLEAN, LEGACY], includeHeaders=True, includeControlRecords=True, minPartitions=splits)
    assert rows(df) == golden_rows()
    assert splits <= df.rdd.getNumPartitions() <= max(splits, 18) + 20


@pytest.mark.parametrize("splits", [1, 3, 50])
def test_one_topic_in_as_many_splits_as_its_index_allows(source: Source, splits: int) -> None:
    df = source(CLEAN, subscribe="golden-txncompact", includeHeaders=True, minPartitions=splits)
    assert rows(df) == golden_rows("golden-txncompact-0", control=False)
    assert df.rdd.getNumPartitions() == {1: 1, 3: 3, 50: 40}[splits]


def test_without_control_records_as_consumers_see_it(source: Source) -> None:
    assert rows(source(CLEAN, subscribe="golden-txn", includeHeaders=True)) == golden_rows(
        "golden-txn-0", control=False
    )


def test_committed_reads(source: Source) -> None:
    df = source(CLEAN, subscribe="golden-txn", kafka__isolation__level="read_committed", minPartitions=7)
    assert offsets(df) == sorted(expected.visible(golden_partition("golden-txn-0"), 1390))


def test_a_schema_decodes_only_what_it_names(source: Source) -> None:
    df = source(
        CLEAN / "golden-zstd-0",
        schema="Offset bigint not null, headers array<struct<key:string,value:binary>>, codec string",
    )
    found = sorted(df.toArrow().to_pylist(), key=lambda row: row["Offset"])
    wanted = expected.rows(golden_partition("golden-zstd-0"))
    assert [row["Offset"] for row in found] == [row["offset"] for row in wanted]
    assert [row["headers"] for row in found] == [row["headers"] for row in wanted]
    assert {row["codec"] for row in found} == {"zstd"}
    assert source(CLEAN / "golden-zstd-0", schema="offset bigint").count() == len(wanted)


def test_batch_facts(source: Source) -> None:
    df = source(CLEAN, subscribe="golden-txn", includeBatchFacts=True, includeControlRecords=True)
    wanted = expected.records(golden_partition("golden-txn-0"))
    names = ["base_offset", "position", "producer_id", "producer_epoch", "sequence", "leader_epoch"]
    names += ["transactional", "control", "codec", "magic"]
    found = [{name: row[name] for name in names} for row in rows(df)]
    assert found == [{name: record[name] for name in names} for record in wanted]


def test_ranges_by_offset_and_time(source: Source) -> None:
    records = expected.records(golden_partition("golden-none-0"))
    one = {"path": CLEAN, "subscribe": "golden-none", "schema": "offset bigint"}
    df = source(
        **one, startingOffsets='{"golden-none":{"0":100}}', endingOffsets='{"golden-none":{"0":1200}}'
    )
    assert offsets(df) == list(range(100, 1200))
    first, last = records[400]["timestamp"], records[900]["timestamp"]
    from_time = next(r["offset"] for r in records if r["timestamp"] >= first)
    to_time = next(r["offset"] for r in records if r["timestamp"] >= last)
    df = source(**one, startingTimestamp=first, endingOffsetsByTimestamp=f'{{"golden-none":{{"0":{last}}}}}')
    assert offsets(df) == list(range(from_time, to_time))
    late = source(**one, startingTimestamp=1 << 50, startingOffsetsByTimestampStrategy="latest")
    assert offsets(late) == []
    assert offsets(
        source(**one, startingOffsets='{"golden-none":{"0":-2}}', endingTimestamp=1 << 50)
    ) == list(range(1560))


def test_the_high_watermark_is_the_checkpoints(source: Source, tmp_path: Path) -> None:
    directory = golden_copy("golden-none-0", tmp_path)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\ngolden-none 0 700\n")
    assert offsets(source(directory, upTo="highWatermark", schema="offset bigint")) == list(range(700))
    assert source(tmp_path, schema="offset bigint").count() == 1560


def test_trimmed_logs_start_where_the_checkpoint_says(source: Source) -> None:
    assert offsets(source(CLEAN, subscribe="golden-trimmed"))[0] == 333


def test_segments_outside_the_range_are_never_opened(source: Source, tmp_path: Path) -> None:
    directory = golden_copy("golden-none-0", tmp_path)
    logs = sorted(directory.glob("*.log"))
    for log in logs[:-1]:
        if log.stem != f"{480:020}":
            log.write_bytes(b"\xff" * log.stat().st_size)
    df = source(
        directory,
        startingOffsets='{"golden-none":{"0":500}}',
        endingOffsets='{"golden-none":{"0":600}}',
    )
    assert offsets(df) == list(range(500, 600))


def test_limits_on_splits(source: Source) -> None:
    by_records = source(CLEAN, subscribe="golden-none", maxRecordsPerPartition=100)
    assert by_records.rdd.getNumPartitions() == 16
    assert by_records.count() == 1560
    by_bytes = source(CLEAN, subscribe="golden-none", maxBytesPerPartition=30_000)
    assert by_bytes.rdd.getNumPartitions() == 7


def test_an_empty_log_and_an_empty_plan(source: Source, tmp_path: Path) -> None:
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / f"{0:020}.log").touch()
    assert source(tmp_path).collect() == []
    nothing = source(CLEAN, subscribePattern="golden-n.*", startingTimestamp=0, endingTimestamp=0)
    assert nothing.collect() == []


def test_internal_topics_are_left_out_unless_named(source: Source) -> None:
    everything = source(CLEAN).select("topic").distinct().collect()
    assert not [row.topic for row in everything if row.topic.startswith("__")]
    assert source(CLEAN / "__consumer_offsets-0").count() == 11
    assert source(CLEAN, subscribe="__consumer_offsets").count() == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nosuch"}, "option subscribe: no topic nosuch under"),
        ({"assign": '{"golden-none":[0,1]}'}, "option assign: no partition golden-none-1 under"),
        ({"path": "/nowhere"}, "option path: /nowhere does not exist"),
        ({"startingOffsets": "soon"}, "option startingOffsets: not JSON"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        direct(**({"path": CLEAN} | options))


def test_bad_options_fail_at_load(source: Source) -> None:
    with pytest.raises(Exception, match="InvalidInputError: option path: /nowhere does not exist"):
        source("/nowhere")


@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        ({"startingOffsets": "latest"}, None, "option startingOffsets: cannot be latest in a batch query"),
        (
            {"startingOffsets": '{"golden-none":{"1":0}}'},
            None,
            "must name every partition, golden-none-0 too",
        ),
        (
            {"startingTimestamp": 1 << 50},
            None,
            "option startingTimestamp: no record of golden-none-0 is at or after",
        ),
        ({}, "colour", "schema: there is no column 'colour'"),
    ],
)
def test_what_needs_the_files(options: dict[str, Any], column: str | None, message: str) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    wanted = None
    if column is not None:
        wanted = types.StructType([types.StructField(column, types.StringType())])
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        direct(CLEAN, wanted, subscribe="golden-none", **options)


def test_a_bad_schema_fails_at_the_first_action(source: Source) -> None:
    df = source(CLEAN, "offset string", subscribe="golden-none")
    with pytest.raises(Exception, match="schema: column 'offset' is bigint, not string"):
        df.collect()


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="option path: no Kafka partition directory under"):
        direct(tmp_path)


class TestDataLoss:
    """`failOnDataLoss` decides; cleaning and transactions leave gaps that are no loss."""

    def test_gaps_of_cleaning_and_transactions_are_none(self, source: Source) -> None:
        df = source(CLEAN, subscribe="golden-compact,golden-txncompact,golden-txn")
        assert df.count() == len(
            golden_rows("golden-compact-0", "golden-txncompact-0", "golden-txn-0", control=False)
        )

    def test_a_corrupt_segment(self, source: Source, tmp_path: Path) -> None:
        directory = golden_copy("golden-none-0", tmp_path)
        log = directory / f"{480:020}.log"
        data = bytearray(log.read_bytes())
        data[100] ^= 0xFF
        log.write_bytes(data)
        with pytest.raises(Exception, match="DataLossError") as failed:
            source(directory).collect()
        assert f"{log}, position 0, offset 480" in str(failed.value)
        assert "set failOnDataLoss to false" in str(failed.value)
        first_batch = [
            r["offset"]
            for r in expected.records(golden_partition("golden-none-0"))
            if r["base_offset"] == 480
        ]
        rest = [offset for offset in range(1560) if offset not in first_batch]
        assert offsets(source(directory, failOnDataLoss=False)) == rest

    def test_a_damaged_end(self, tmp_path: Path) -> None:
        directory = golden_copy("golden-none-0", tmp_path)
        with sorted(directory.glob("*.log"))[-1].open("ab") as file:
            file.write(b"\xff" * 64)
        with pytest.raises(CorruptRecordError, match="position"):
            direct(directory)
        assert direct(directory, failOnDataLoss=False).num_rows == 1560

    @pytest.mark.parametrize(
        ("bounds", "message", "kept"),
        [
            (
                {"startingOffsets": 0},
                "offsets 0 to 332 of golden-trimmed-0 are gone: its log starts at 333",
                467,
            ),
            ({"endingOffsets": 900}, "offset 900 of golden-trimmed-0 is not there: its log ends at 800", 467),
            ({"startingOffsets": 900}, "offset 900 of golden-trimmed-0 is not there", 0),
        ],
    )
    def test_offsets_that_the_log_does_not_reach(
        self, bounds: dict[str, int], message: str, kept: int
    ) -> None:
        options = {name: f'{{"golden-trimmed":{{"0":{offset}}}}}' for name, offset in bounds.items()}
        with pytest.raises(DataLossError, match=re.escape(message)):
            direct(CLEAN, subscribe="golden-trimmed", **options)
        assert direct(CLEAN, subscribe="golden-trimmed", failOnDataLoss=False, **options).num_rows == kept

    def test_a_segment_deleted_between_planning_and_reading(self, source: Source, tmp_path: Path) -> None:
        directory = golden_copy("golden-none-0", tmp_path)
        frames = {fail: source(directory, failOnDataLoss=fail) for fail in (True, False)}
        for df in frames.values():
            assert df.rdd.getNumPartitions() == 1  # plans
        (directory / f"{480:020}.log").unlink()
        with pytest.raises(Exception, match=r"00000000000000000480.log has gone since the scan was planned"):
            frames[True].collect()
        assert frames[False].count() == 1560 - 240
        with pytest.raises(DataLossError, match=r"the segment at offset 480 of .* has lost its log file"):
            direct(directory)


def test_a_frame_keeps_its_plan_and_a_new_one_sees_more(source: Source, tmp_path: Path) -> None:
    directory = golden_copy("golden-none-0", tmp_path)
    last = sorted(directory.glob("*.log"))[-1]
    files = sorted(directory.glob(f"{last.stem}.*"))
    for file in files:
        shutil.move(file, tmp_path / file.name)
    before = source(directory)
    assert before.count() == int(last.stem)
    for file in files:
        shutil.move(tmp_path / file.name, file)
    assert before.count() == int(last.stem)
    assert source(directory).count() == 1560


def test_sql(spark: SparkSession, source: Source) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW one USING tidelog OPTIONS (path '{CLEAN}', subscribe 'golden-none')")
    assert spark.sql("SELECT max(offset) AS top FROM one").first().top == 1559
    source(CLEAN, subscribe="golden-multi").createOrReplaceTempView("multi")
    found = spark.sql("SELECT count(*) AS n FROM multi WHERE offset >= 600").first()
    assert found.n == 100


def test_streams_refuse_what_is_not_for_them() -> None:
    from tidelog.spark.source.options import SourceOptions

    options = SourceOptions.parse({"path": "/a", "endingOffsets": "latest"})
    with pytest.raises(InvalidInputError, match="option endingOffsets: not valid in a streaming query"):
        options.require("streaming", ["endingOffsets"])


def test_the_connectors_numbers_for_earliest_and_latest_in_place_of_a_timestamp() -> None:
    topic = {"subscribe": "golden-none"}
    whole = direct(CLEAN, **topic).num_rows
    assert whole > 0
    assert direct(CLEAN, **topic, startingTimestamp=-2, endingTimestamp=-1).num_rows == whole
    assert direct(CLEAN, **topic, startingTimestamp=-1).num_rows == 0
    assert direct(CLEAN, **topic, endingTimestamp=-2).num_rows == 0
    by_partition = json.dumps({"golden-none": {"0": -2}})
    assert direct(CLEAN, **topic, startingOffsetsByTimestamp=by_partition).num_rows == whole
    assert direct(CLEAN, **topic, startingTimestamp=5, endingTimestamp=-1).num_rows == whole


def test_a_pattern_is_found_anywhere_in_a_name_as_in_the_connector() -> None:
    def topics(pattern: str) -> set[str]:
        return set(direct(CLEAN, subscribePattern=pattern).column("topic").to_pylist())

    assert "golden-none" in topics("none")
    assert topics("^golden-none$") == {"golden-none"}
