"""`ingest`: files and frames into topics, once, however often it is run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
import tidelog.spark
from tests.cli.command import COMMAND
from tests.manager.publishing import contents
from tests.spark.conftest import Source, rows
from tidelog.errors import InvalidInputError, LogLockedError
from tidelog.spark import Columns, FileSource
from tidelog.spark.ingesting.files import FileIngest, ordered_runs
from tidelog.spark.ingesting.ledger import Ledger, SourceFile, hold
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import read_journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_parquet(path: Path, start: int, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {"id": range(start, start + count), "name": [f"n{i}" for i in range(start, start + count)]}
    )
    pq.write_table(table, path)


def test_files_are_taken_once_and_new_ones_later(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", 0, 100)
    write_parquet(tmp_path / "in" / "b.parquet", 100, 100)
    files = FileSource("parquet", str(tmp_path / "in"))
    columns = Columns(key="cast(id as string)")
    counts = []
    for _ in range(2):
        report = tidelog.spark.ingest(
            spark, files, tmp_path / "root", topic="t", columns=columns, options={"partitions": 3}
        )
        counts.append(sum(row["records"] for row in report.toArrow().to_pylist()))
    write_parquet(tmp_path / "in" / "c.parquet", 200, 50)
    report = tidelog.spark.ingest(spark, files, tmp_path / "root", topic="t", columns=columns)
    counts.append(sum(row["records"] for row in report.toArrow().to_pylist()))
    assert counts == [200, 0, 50]
    found = rows(source(tmp_path / "root"))
    values = sorted((json.loads(row["value"]) for row in found), key=lambda value: value["id"])
    assert values == [{"id": i, "name": f"n{i}"} for i in range(250)]
    assert all(row["key"].decode() == str(json.loads(row["value"])["id"]) for row in found)


def test_a_root_may_be_named_from_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", 0, 3)
    monkeypatch.chdir(tmp_path)
    done = tidelog.spark.ingest(spark, FileSource("parquet", str(tmp_path / "in")), "root", topic="t")
    assert done.count() == 1
    assert tidelog.scan(tmp_path / "root").read_all().num_rows == 3


def test_a_batch_that_was_begun_is_finished_with_its_files(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    """As if a run had been killed behind its ledger; newer files come later."""
    path = tmp_path / "in" / "a.parquet"
    write_parquet(path, 0, 10)
    write_parquet(tmp_path / "in" / "b.parquet", 10, 10)
    columns = Columns(value="name")
    files = FileSource("parquet", str(tmp_path / "in"))
    begun = Ledger(tmp_path / ".tidelog-ingest" / "mine")
    stat = path.stat()
    begun.add([SourceFile(f"file:{path}", stat.st_size, stat.st_mtime_ns // 1_000_000)])

    def run(into: str = "root") -> int:
        report = tidelog.spark.ingest(
            spark, files, tmp_path / into, topic="t", columns=columns, name="mine", files_at_a_time=1
        )
        return sum(row["records"] for row in report.toArrow().to_pylist())

    with hold(begun.directory), pytest.raises(LogLockedError, match="another ingest"):
        run()  # which would sweep what that one has staged
    assert run() == 20
    assert [row["value"] for row in rows(source(tmp_path / "root"))] == [b"n%d" % i for i in range(20)]
    journal = read_journal(LOCAL, tmp_path / "root")
    assert journal.committed == {begun.query: 1}
    assert run() == 0
    assert run("another") == 20  # a root that has none of the batches gets them all
    Ledger(tmp_path / ".tidelog-ingest" / "mine").add([SourceFile("file:/gone.parquet", 1, 2)])
    with pytest.raises(InvalidInputError, match=r"gone.parquet was changed or removed.*batch-00000002"):
        run()


def test_what_was_taken_is_known_beside_the_first_root_however_it_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run from another directory must find it."""
    write_parquet(tmp_path / "in" / "a.parquet", 0, 10)
    files = FileSource("parquet", str(tmp_path / "in"))
    roots = [str(tmp_path / "store" / name) for name in "ab"]
    counts = []
    for number, root in enumerate((json.dumps(roots), roots[0], Path(roots[0]).as_uri())):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        report = tidelog.spark.ingest(spark, files, root, topic="t")
        counts.append(sum(row["records"] for row in report.toArrow().to_pylist()))
        assert not list(Path.cwd().iterdir())
    assert counts == [10, 0, 0]
    assert [path.name[:2] for path in (tmp_path / "store" / ".tidelog-ingest").iterdir()] == ["t-"]


class _LosesFile(FileIngest):
    """Runs while somebody removes a file that was listed."""

    def _list(self) -> list[SourceFile]:
        listed = super()._list()
        Path(listed[0].path.removeprefix("file:")).unlink()
        return listed


@pytest.mark.parametrize("value", ["name", "concat(name, '')"], ids=["by-tasks", "by-spark"])
def test_a_file_that_goes_after_listing_is_told(spark: SparkSession, tmp_path: Path, value: str) -> None:
    """Its batch would be taken for published otherwise, and the file, when it is back, for taken."""
    for number in range(3):
        write_parquet(tmp_path / "in" / f"{number}.parquet", number, 1)
    files = FileSource("parquet", str(tmp_path / "in"))
    sink = {"path": str(tmp_path / "root"), "topic": "t"}
    run = _LosesFile(spark, files, Columns(value=value), sink, tmp_path / "ledger")
    with pytest.raises(InvalidInputError, match=r"in/.\.parquet was changed or removed.*batch-00000000"):
        run.run(10)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("format_name", ["json", "csv", "text"])
def test_other_files_are_taken_once_too(
    spark: SparkSession, source: Source, tmp_path: Path, format_name: str
) -> None:
    lines = {"json": '{{"value":"v{}"}}', "csv": "v{}", "text": "v{}"}[format_name]
    (tmp_path / "in").mkdir()
    found = []
    for number in range(3):
        (tmp_path / "in" / f"{number} 100%.x").write_text(f"{lines.format(number)}\n")
        (tmp_path / "in" / "_hidden.x").write_text("hidden\n")
        value = Columns(value="_c0") if format_name == "csv" else Columns()
        report = tidelog.spark.ingest(
            spark,
            FileSource(format_name, str(tmp_path / "in" / "*.x")),
            tmp_path / "root",
            topic="t",
            columns=value,
        )
        found.append(sum(row["records"] for row in report.toArrow().to_pylist()))
    assert found == [1, 1, 1]
    assert [row["value"] for row in rows(source(tmp_path / "root"))] == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize("format_name", ["json", "csv"])
def test_the_order_of_files_is_the_order_of_records(
    spark: SparkSession, tmp_path: Path, format_name: str
) -> None:
    """Spark alone would read the largest first."""
    (tmp_path / "in").mkdir()
    first = 0
    for number, count in enumerate((3, 40, 40, 7, 200, 1)):
        lines = ('{{"value":"{:06}"}}\n' if format_name == "json" else "{:06}\n").format
        path = tmp_path / "in" / f"{9 - number}.{format_name}"
        path.write_text("".join(map(lines, range(first, first + count))))
        os.utime(path, (number, number))
        first += count
    columns = Columns(value="_c0") if format_name == "csv" else Columns(value="value")
    files = FileSource(format_name, str(tmp_path / "in"))
    tidelog.spark.ingest(spark, files, tmp_path / "root", topic="t", columns=columns)
    with tidelog.open(tmp_path / "root") as store:
        (values,) = contents(store).values()
    assert [int(value) for value in values] == list(range(first))


def test_runs_of_files_that_spark_keeps_in_order() -> None:
    def runs(*sizes: int) -> list[list[int]]:
        files = [SourceFile(f"f{n}", size, n) for n, size in enumerate(sizes)]
        return [[one.size for one in run] for run in ordered_runs(files, 100)]

    assert runs() == []
    assert runs(5, 4, 3, 3, 9, 1) == [[5, 4, 3], [3], [9, 1]]
    assert runs(200, 100, 99, 101, 3) == [[200], [100, 99], [101], [3]]


def test_partition_columns_of_a_path_are_columns(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    for topic in ("one", "two"):
        write_parquet(tmp_path / "in" / f"topic={topic}" / "a.parquet", 0, 3)
    tidelog.spark.ingest(
        spark, FileSource("parquet", str(tmp_path / "in")), tmp_path / "root", columns=Columns(value="name")
    )
    assert [(row["topic"], row["value"]) for row in rows(source(tmp_path / "root"))] == [
        (topic, b"n%d" % i) for topic in ("one", "two") for i in range(3)
    ]


def test_a_frame_under_a_name_is_taken_once(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    frame = spark.range(30).selectExpr("id value", "'t' topic", "id % 2 partition")
    for name in ("x", "x", None):
        tidelog.spark.ingest(spark, frame, tmp_path / "root", name=name, options={"partitions": 2})
    found = rows(source(tmp_path / "root"))
    assert len(found) == 60
    assert all(int(row["value"]) % 2 == row["partition"] for row in found)


def test_errors_are_ours(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id value")
    with pytest.raises(InvalidInputError, match="name a topic"):
        tidelog.spark.ingest(spark, frame, tmp_path / "root")
    with pytest.raises(InvalidInputError, match="'t' has 1 partitions; a record names partition 5"):
        tidelog.spark.ingest(spark, frame, tmp_path / "root", topic="t", columns=Columns(partition="5"))
    with pytest.raises(InvalidInputError, match="not a name for an ingest"):
        tidelog.spark.ingest(
            spark, FileSource("parquet", str(tmp_path)), tmp_path / "root", topic="t", name="../x"
        )
    with pytest.raises(InvalidInputError, match=r"DATA_SOURCE_NOT_FOUND.*nonsense"):
        tidelog.spark.ingest(spark, FileSource("nonsense", str(tmp_path)), tmp_path / "root", topic="t")
    with pytest.raises(InvalidInputError, match="UNABLE_TO_INFER_SCHEMA"):
        tidelog.spark.ingest(spark, FileSource("parquet", str(tmp_path)), tmp_path / "root", topic="t")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_bytes(b"PAR1 is how it begins")
    with pytest.raises(InvalidInputError, match=r"^\[FAILED_READ_FILE.*a\.parquet.*footer"):
        tidelog.spark.ingest(spark, FileSource("parquet", str(tmp_path / "in")), tmp_path / "root", topic="t")
    assert not (tmp_path / "root").exists()


def run_slowly(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command, which starts a Spark of its own."""
    return subprocess.run(
        [COMMAND, *map(str, args)], capture_output=True, timeout=280, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", 0, 100)
    command: list[str | Path] = ["ingest", tmp_path / "in", tmp_path / "root"]
    command += ["--format", "parquet", "--topic", "t"]
    command += ["--key", "cast(id as string)", "--partitions", "2", "--spark", "local[1]", "--json"]
    tried = run_slowly(*command, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert not (tmp_path / "root").exists()
    written = [run_slowly(*command) for _ in range(2)]
    assert [answer.returncode for answer in written] == [0, 0]
    lines = [json.loads(line) for line in written[0].stdout.splitlines()]
    assert sum(line["records"] for line in lines if "records" in line) == 100
    with tidelog.open(tmp_path / "root") as store:
        assert sum(partition.log_end_offset for partition in store.partitions) == 100


KILLED = """
import sys
import tidelog.spark
from tests.spark.conftest import SETTINGS
from tidelog.spark import Columns, FileSource

source, root, value = sys.argv[1:]
spark = tidelog.spark.session("local[2]", config=SETTINGS)
spark.sparkContext.setLogLevel("OFF")
tidelog.spark.ingest(spark, FileSource("parquet", source), root, topic="t", name="x", files_at_a_time=1,
                     columns=Columns(value=value), options={"partitions": 3, "recover": "true"})
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("name", id="by-tasks", marks=pytest.mark.slow),
        pytest.param("concat(name, '')", id="by-spark", marks=pytest.mark.soak),
    ],
)
def test_an_ingest_killed_at_random_takes_every_row_once(tmp_path: Path, value: str) -> None:
    """The whole family of processes at once, in the middle of a batch, again and again."""
    files, ledger = 12, tmp_path / ".tidelog-ingest" / "x"
    for number in range(files):
        write_parquet(tmp_path / "in" / f"{number}.parquet", 1000 * number, 1000)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "in"), str(tmp_path / "root"), value]
    dice, killed = random.Random(value), 0
    for batches in (1, 4, 7, 10):
        run = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            while run.poll() is None and not (ledger / f"batch-{batches - 1:08}.json").exists():
                time.sleep(0.01)
            time.sleep(dice.uniform(0, 1))
            killed += run.poll() is None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    assert killed > 1, "it ended before it was killed"
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    # The last kill may have come after the last row: then the last run had nothing to recover.
    with tidelog.open(tmp_path / "root", recover=True) as store:
        found = [int(value[1:]) for values in contents(store).values() for value in values]
    assert sorted(found) == list(range(1000 * files))
    assert not list((tmp_path / ".tidelog-staging-root").iterdir())
