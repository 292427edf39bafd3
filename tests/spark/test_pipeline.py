"""`pipeline`: a bad config starts nothing; steps that are done are skipped; what stopped goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tests.cli.command import run
from tidelog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
root: root
steps:
  - ingest: {source: in, format: parquet, topic: t, key: "cast(id % 10 as string)", partitions: 2,
             config: {cleanup.policy: compact, retention.ms: -1}}
  - verify: {deep: true}
  - compact: {topics: [t]}
  - export: {to: out, topics: [t]}
"""


def write_input(tmp_path: Path, start: int, count: int) -> None:
    (tmp_path / "in").mkdir(exist_ok=True)
    ids = list(range(start, start + count))
    pq.write_table(
        pa.table({"id": ids, "name": [f"n{i}" for i in ids]}), tmp_path / "in" / f"{start}.parquet"
    )


def exported(tmp_path: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in (tmp_path / "out").rglob("*.parquet"))


def test_steps_run_once_and_again_when_there_is_something_new(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.spark.pipeline.config import read_config
    from tidelog.spark.pipeline.run import plan_pipeline, run_pipeline

    write_input(tmp_path, 0, 100)
    (tmp_path / "p.yaml").write_text(CONFIG)
    config = read_config(tmp_path / "p.yaml")
    assert {one.status for one in plan_pipeline(config)} == {"would run"}
    first = run_pipeline(lambda: spark, config)
    assert [one.status for one in first] == ["done"] * 4, first
    assert "100 records" in first[0].detail
    assert [one.status for one in run_pipeline(lambda: spark, config)] == ["skipped"] * 4
    assert [one.status for one in plan_pipeline(config)] == ["skipped"] * 4
    assert exported(tmp_path) == 10  # the last value of each key: the export comes after the compaction
    write_input(tmp_path, 100, 50)
    third = run_pipeline(lambda: spark, config)
    assert [one.status for one in third] == ["done"] * 4
    assert "50 records" in third[0].detail
    with tidelog.open(tmp_path / "root") as store:
        assert sum(partition.log_end_offset for partition in store.partitions) == 150
    changed = CONFIG.replace("to: out", "to: elsewhere")
    (tmp_path / "p.yaml").write_text(changed)
    again = run_pipeline(lambda: spark, read_config(tmp_path / "p.yaml"))
    assert [one.status for one in again] == ["skipped"] * 3 + ["done"]


def test_damage_ends_a_pipeline_and_the_next_run_goes_on_there(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.spark.pipeline.config import read_config
    from tidelog.spark.pipeline.run import run_pipeline

    write_input(tmp_path, 0, 100)
    (tmp_path / "p.yaml").write_text(CONFIG)
    config = read_config(tmp_path / "p.yaml")
    only = [step for step in config.steps if step.kind == "ingest"]
    from dataclasses import replace

    run_pipeline(lambda: spark, replace(config, steps=tuple(only)))
    log = next(path for path in (tmp_path / "root" / "t-0").glob("*.log") if path.stat().st_size)
    whole = log.read_bytes()
    log.write_bytes(whole[:100] + b"\0" + whole[101:])
    failed = run_pipeline(lambda: spark, config)
    assert [one.status for one in failed] == ["skipped", "failed", "not run", "not run"]
    assert log.name in failed[1].detail
    assert not (tmp_path / "out").exists()
    log.write_bytes(whole)
    assert [one.status for one in run_pipeline(lambda: spark, config)] == ["skipped", "done", "done", "done"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("root: root", "rot: root"), "no 'rot'"),
        (("root: root", "root: 3"), "root: a text is expected"),
        (("- verify: {deep: true}", "- verify: {deep: maybe}"), "step 2, verify, deep: true or false"),
        (("- verify: {deep: true}", "- polish: {}"), "step 2: there is no 'polish'"),
        (("to: out, ", ""), "step 4, export: to is missing"),
        (("partitions: 2", "partitions: 0"), "step 1, ingest, partitions: a number of at least 1"),
        (("partitions: 2", "partition: 2"), "step 1, ingest: there is no 'partition'"),
        (("retention.ms: -1", "retention.ms: x"), "step 1, ingest.*retention.ms"),
        (("topic: t", "topic: ../t"), "step 1, ingest, topic"),
        (("topics: [t]}\n  - export", "topics: []}\n  - export"), "step 3, compact, topics"),
        (("source: in", "source: gone"), "gone does not exist"),
        (("to: out", "values: xml, to: out"), "step 4, export, values"),
        (("steps:", "steps: ["), "is no YAML"),
    ],
)
def test_a_bad_config_is_refused_before_anything_starts(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    from tidelog.spark.pipeline.config import read_config

    write_input(tmp_path, 0, 1)
    (tmp_path / "p.yaml").write_text(CONFIG.replace(*change, 1))
    with pytest.raises(InvalidInputError, match=words):
        read_config(tmp_path / "p.yaml")
    assert not (tmp_path / "root").exists()


def test_the_command_refuses_and_plans(tmp_path: Path) -> None:
    write_input(tmp_path, 0, 1)
    (tmp_path / "p.yaml").write_text(CONFIG)
    planned = run("pipeline", tmp_path / "p.yaml", "--dry-run", "--json")
    assert planned.code == 0, planned.err
    assert planned.out.count("would run") == 4
    (tmp_path / "p.yaml").write_text("root: x\nsteps: []\n")
    refused = run("pipeline", tmp_path / "p.yaml")
    assert refused.code == 2
    assert "steps" in refused.err
