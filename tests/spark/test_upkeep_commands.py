"""`compact`, `retention` and `trim` with --spark print and leave what they do without it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import tidelog
import tidelog.spark
from tests.spark.test_compact import COMPACTED, NOW, files, make_old, make_root, same_files
from tidelog.cli.app import app
from tidelog.errors import InvalidInputError
from tidelog.records import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_SPARK = ("--spark", "local[2]")


def run(*command: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def by_name(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """In order, and without what the clock tells."""
    timeless = [{name: row[name] for name in row if name not in ("detail", "seconds")} for row in rows]
    return sorted(timeless, key=lambda row: (row["partition"], row.get("base_offset", 0)))


@pytest.fixture(autouse=True)
def running_session(spark: SparkSession) -> SparkSession:
    """The session that commands find, and leave running."""
    return spark


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("compact", ["--now", str(NOW)]),
        ("compact", ["--now", str(NOW), "--topic", "a", "--from-start"]),
        ("retention", []),
        ("trim", ["--before-time", "100000"]),
        ("trim", ["--before-time", "100000", "--topic", "old"]),
    ],
)
def test_spark_prints_and_leaves_what_the_command_does(
    command: str, options: list[str], tmp_path: Path
) -> None:
    local, spark = tmp_path / "local", tmp_path / "spark"
    (make_root if command == "compact" else make_old)(local)
    shutil.copytree(local, spark)
    before = files(spark)
    for how in (["--dry-run"], []):
        mine = run(command, str(local), *options, *how)
        theirs = run(command, str(spark), *options, *how, *ON_SPARK)
        assert by_name(theirs) == by_name(mine)
        assert theirs
        assert (files(spark) == before) == bool(how)
    assert same_files(spark, local)


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("compact", ["--config", "delete.retention.ms=0"], "--config is not for --spark"),
        ("retention", ["--config", "retention.ms=0"], "--config is for --dry-run"),
        ("trim", ["--before", "3", "--topic", "old", "--partition", "0"], "--spark is for whole roots"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    command: str, options: list[str], said: str, tmp_path: Path
) -> None:
    make_old(tmp_path / "root")
    before = files(tmp_path / "root")
    result = CliRunner().invoke(app, [command, str(tmp_path / "root"), *options, *ON_SPARK])
    assert result.exit_code == 2
    assert said in result.stderr
    assert files(tmp_path / "root") == before


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    """The second disk of a broker, whose metadata is on the first, and its properties."""
    first, second, properties = tmp_path / "disk1", tmp_path / "disk2", tmp_path / "server.properties"
    properties.write_text(f"log.dirs={first},{second}\n")
    with tidelog.open([first, second], background=False) as store:
        store.create_topic("old", 2, {"internal.segment.bytes": 2000, "retention.bytes": 5000})
        store.create_topic("a", 2, COMPACTED)
        for partition in store.partitions:
            for n in range(0, 200, 10):
                partition.append([Record(b"v" * 40, b"k", timestamp=NOW) for _ in range(n, n + 10)])
    assert [(disk / "old-1").is_dir() for disk in (first, second)] == [False, True]
    return second, properties


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("retention", []),
        ("trim", ["--before-time", str(NOW + 1)]),
        ("compact", ["--now", str(NOW)]),
    ],
)
def test_the_metadata_may_be_on_another_disk(
    command: str, options: list[str], disks: tuple[Path, Path], tmp_path: Path
) -> None:
    second, properties = disks
    given = [command, str(second), *options, "--server-properties", str(properties)]
    mine = run(*given, "--dry-run")
    assert mine
    assert by_name(run(*given, "--dry-run", *ON_SPARK)) == by_name(mine)
    first = files(tmp_path / "disk1")
    done = run(*given, *ON_SPARK)
    assert {row["partition"] for row in done} <= {"old-1", "a-1"}
    assert [row["partition"] for row in done].count("a-1" if command == "compact" else "old-1") >= 1
    logs = {name: data for name, data in files(tmp_path / "disk1").items() if name.endswith(".log")}
    assert logs == {name: data for name, data in first.items() if name.endswith(".log")}


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_retention_tells_what_it_leaves_alone(how: list[str], disks: tuple[Path, Path]) -> None:
    second, properties = disks
    before = files(second)
    said = [
        CliRunner().invoke(app, ["retention", str(second), *how, *more]).stdout for more in ((), ON_SPARK)
    ]
    assert said[0] == said[1]
    assert "2 partitions are left alone" in said[1]
    assert files(second) == before
    more = ["--server-properties", str(properties), *ON_SPARK]
    assert "left alone" not in CliRunner().invoke(app, ["retention", str(second), *how, *more]).stdout


def test_trim_refuses_a_topic_that_the_metadata_does_not_know(
    running_session: SparkSession, disks: tuple[Path, Path]
) -> None:
    second, _ = disks
    given = {"before_ms": NOW + 1, "dry_run": True}
    assert tidelog.spark.trim(running_session, second, **given).count() == 0
    with pytest.raises(InvalidInputError, match="several disks"):
        tidelog.spark.trim(running_session, second, topics=["old"], **given)


@pytest.mark.parametrize("command", ["compact", "retention"])
def test_one_partition_is_not_for_spark(command: str, tmp_path: Path) -> None:
    make_old(tmp_path / "root")
    result = CliRunner().invoke(app, [command, str(tmp_path / "root" / "old-0"), *ON_SPARK])
    assert result.exit_code == 2
    assert "--spark is for roots" in result.stderr


@pytest.mark.parametrize("command", ["compact", "retention", "trim"])
def test_what_is_no_root_is_not_made_one(command: str, tmp_path: Path) -> None:
    options = ["--before-time", "100000"] if command == "trim" else []
    for master in (ON_SPARK, ()):
        result = CliRunner().invoke(app, [command, str(tmp_path), *options, *master])
        assert result.exit_code == 2
        assert "is not the root" in result.stderr or "nor a root" in result.stderr
        assert not list(tmp_path.iterdir())
