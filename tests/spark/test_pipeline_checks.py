"""What a dry run of a pipeline finds: nothing of this needs a step to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.errors import InvalidInputError

pytest.importorskip("pyspark")

from tidelog.spark.pipeline.checks import check_steps, check_topics, needs_spark
from tidelog.spark.pipeline.config import PipelineConfig, read_config
from tidelog.spark.pipeline.run import plan_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INGEST = "ingest: {source: in, format: parquet, topic: t, key: string(id)}"


def configured(tmp_path: Path, *steps: str) -> PipelineConfig:
    (tmp_path / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "in/1.parquet")
    (tmp_path / "p.yaml").write_text("root: root\nsteps:\n" + "".join(f"  - {step}\n" for step in steps))
    return read_config(tmp_path / "p.yaml")


@pytest.mark.parametrize("step", ["retention: {topics: [t, gone]}", "export: {to: out, topics: gone}"])
def test_topics_that_will_not_be_there(tmp_path: Path, step: str) -> None:
    config = configured(tmp_path, INGEST, step)
    with pytest.raises(InvalidInputError, match=r"step 2, .*: there is no topic gone in .*root"):
        check_topics(config)
    with pytest.raises(InvalidInputError, match="no topic gone"):
        plan_pipeline(config)
    with tidelog.open(tmp_path / "root", create=True) as store:
        store.create_topic("gone")
    check_topics(config)


def test_topics_that_a_column_names_cannot_be_known(tmp_path: Path) -> None:
    check_topics(
        configured(tmp_path, INGEST.replace("topic: t, ", ""), "verify: {}", "retention: {topics: x}")
    )
    late = configured(tmp_path, "retention: {topics: [t]}", INGEST)
    with pytest.raises(InvalidInputError, match="no step before makes it"):
        check_topics(late)


@pytest.mark.parametrize("step", ["verify: {}", "compact: {}", "export: {to: out}", "retention: {}"])
def test_a_root_that_will_not_be_there(tmp_path: Path, step: str) -> None:
    with pytest.raises(InvalidInputError, match=r"step 1, .*: there is no .*root, and no step before makes"):
        plan_pipeline(configured(tmp_path, step, INGEST))
    assert [one.status for one in plan_pipeline(configured(tmp_path, INGEST, step))] == ["would run"] * 2
    (tmp_path / "root").write_text("a file")
    with pytest.raises(InvalidInputError, match="root is not a directory"):
        plan_pipeline(configured(tmp_path, step))


def test_topics_that_are_not_compacted(tmp_path: Path) -> None:
    compacted = INGEST.replace("topic: t", "topic: t, config: {cleanup.policy: compact}")
    step = "compact: {topics: [t]}"
    with pytest.raises(InvalidInputError, match=r"step 2, compact: topic t .* cleanup\.policy=delete"):
        check_topics(configured(tmp_path, INGEST, step))
    check_topics(configured(tmp_path, compacted, step))
    with tidelog.open(tmp_path / "root", create=True) as store:
        store.create_topic("t")
    with pytest.raises(InvalidInputError, match="topic t is not compacted"):  # it has its policy already
        check_topics(configured(tmp_path, compacted, step))
    check_topics(configured(tmp_path, "compact: {}"))


def test_targets_that_an_export_cannot_go_on_with(tmp_path: Path) -> None:
    config = configured(tmp_path, INGEST, "export: {to: out, topics: [t], values: json}")
    (tmp_path / "out/_tidelog/commits").mkdir(parents=True)
    (tmp_path / "out/_tidelog/export.json").write_text('{"version": 1, "values": "bytes"}')
    check_topics(config)  # nothing was committed that way
    (tmp_path / "out/_tidelog/commits/0.jsonl").write_text("")
    with pytest.raises(InvalidInputError, match=r"step 2, export: .*out was exported with values 'bytes'"):
        check_topics(config)
    with pytest.raises(InvalidInputError, match=r"1\.parquet is not a directory"):
        check_topics(configured(tmp_path, INGEST, "export: {to: in/1.parquet, topics: [t]}"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("config: {shoe.size: 43}", "step 1, ingest, config: there is no 'shoe.size'"),
        ("config: {cleanup.policy: squash}", "squash"),
        ("name: a/b", "'a/b' is not a name for an ingest"),
        ("compression: zip", "must be none or gzip"),
    ],
)
def test_settings_of_an_ingest(tmp_path: Path, settings: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        configured(tmp_path, INGEST.replace("topic: t", f"topic: t, {settings}"))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([INGEST.replace("parquet", "parkett")], "step 1, ingest: .*parkett"),
        ([INGEST.replace("string(id)", "'string(id'")], "step 1, ingest: .*PARSE_SYNTAX_ERROR"),
        ([INGEST.replace("string(id)", "string(idd)")], "step 1, ingest: .*idd"),
        ([INGEST.replace("string(id)", "strung(id)")], "step 1, ingest: .*strung"),
        ([INGEST.replace("key: string(id)", "timestamp: name")], "step 1, ingest: column 'timestamp'"),
        ([INGEST.replace("topic: t, ", "")], "step 1, ingest: name a topic"),
        ([INGEST, "export: {to: o, topics: [t], values: json, schema: id INTT}"], "step 2, export: .*INTT"),
        ([INGEST, "export: {to: o, topics: [t], values: json, schema: 'm MAP<INT,INT>'}"], "names in JSON"),
        (
            [INGEST, "export: {to: o, topics: [t], values: json, schema: i INTERVAL}"],
            "step 2, export: .*type",
        ),
    ],
)
def test_what_spark_does_not_understand(
    spark: SparkSession, tmp_path: Path, steps: list[str], words: str
) -> None:
    config = configured(tmp_path, *steps)
    assert needs_spark(config)
    with pytest.raises(InvalidInputError, match=words):
        check_steps(spark, config)
    assert not (tmp_path / "root").exists()


def test_what_is_right_passes(spark: SparkSession, tmp_path: Path) -> None:
    export = "export: {to: out, topics: [t], values: json, schema: 'id BIGINT, m MAP<STRING,INT>'}"
    check_steps(spark, configured(tmp_path, INGEST, export))
    assert not needs_spark(configured(tmp_path, "verify: {}"))
