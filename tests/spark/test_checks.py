"""`verify` and `reindex` as Spark jobs: the findings and the repairs of the local commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import tidelog.spark
from tests.golden import GOLDEN
from tests.manager.damage import make_torn, torn_cases
from tests.manager.test_verification import DAMAGE
from tidelog.cli.app import app
from tidelog.errors import InvalidInputError, LogLockedError
from tidelog.manager.upkeep.reindexing import reindex
from tidelog.manager.verification import Finding, verify_partition, verify_root
from tidelog.manager.verification.pieces import PieceFacts, plan_pieces, verify_piece
from tidelog.manager.verification.segment import SegmentPlace
from tidelog.spark.runtime import jobs
from tidelog.storage import LOCAL
from tidelog.storage.lock import RootLock
from tidelog.storage.names import FileKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEAN = GOLDEN / "clean"
PIECE_BYTES = 2000
SETTINGS = {"index.interval.bytes": "512"}


def as_rows(findings: Any) -> list[tuple[Any, ...]]:
    return [
        (one.kind.value, one.file, one.position, one.offset, one.end_offset, one.cause) for one in findings
    ]


def on_spark(spark: SparkSession, path: Path, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in tidelog.spark.verify(spark, path, **options).collect()]


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with each golden damage and each of our own in a partition of its own."""
    root = shutil.copytree(CLEAN, tmp_path_factory.mktemp("damaged") / "root")
    for case in torn_cases():
        make_torn(case, root)
    for number, what in enumerate(DAMAGE):
        path = shutil.copytree(CLEAN / "golden-txn-0", root / f"damaged-{number}")
        DAMAGE[what][1](path)
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\ngolden-none 0 1561\n")
    return root


@pytest.fixture(autouse=True)
def _several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MIN_SHARE_BYTES", 1)


def test_a_sound_root_is_sound(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    found = on_spark(spark, CLEAN, deep=True, piece_bytes=PIECE_BYTES, report=lambda *done: told.append(done))
    assert found == as_rows(verify_root(LOCAL, str(CLEAN), deep=True))
    assert [row for row in found if row[0] == "damage"] == []
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize("piece_bytes", [PIECE_BYTES, None])
def test_findings_are_those_of_the_local_command(
    spark: SparkSession, damaged: Path, piece_bytes: int | None
) -> None:
    local: list[Finding] = list(verify_root(LOCAL, str(damaged)))
    assert len({one.file for one in local}) > len(DAMAGE)
    assert on_spark(spark, damaged, piece_bytes=piece_bytes) == as_rows(local)


def test_a_partition_alone(spark: SparkSession, tmp_path: Path) -> None:
    path = make_torn(torn_cases()[0], tmp_path)
    local = verify_partition(LOCAL, str(path)).findings
    assert on_spark(spark, path) == as_rows(local) != []


def test_what_changes_meanwhile_is_checked_again(spark: SparkSession, tmp_path: Path) -> None:
    root = shutil.copytree(CLEAN, tmp_path / "root")
    changing, staying = (min((root / name).glob("*.log")) for name in ("golden-none-0", "golden-zstd-0"))
    good = changing.read_bytes()
    for log in (changing, staying):
        log.write_bytes(log.read_bytes()[:-10])

    def mend(done: int, total: int) -> None:
        if done == total and changing.stat().st_size != len(good):
            changing.write_bytes(good)

    found = on_spark(spark, root, report=mend)
    assert {row[1] for row in found if row[0] == "damage" and row[1].endswith(".log")} == {str(staying)}


def test_a_piece_that_has_gone_is_not_sound(tmp_path: Path) -> None:
    place = SegmentPlace(str(tmp_path), 0, frozenset(FileKind) - {FileKind.SNAPSHOT}, None, 5000)
    pieces = plan_pieces(LOCAL, place, 100)
    assert [verify_piece(LOCAL, piece) for piece in pieces] == [PieceFacts(False)]


@pytest.mark.parametrize("piece_bytes", [PIECE_BYTES, None])
def test_indexes_are_rebuilt_as_by_the_local_command(
    spark: SparkSession, damaged: Path, tmp_path: Path, piece_bytes: int | None
) -> None:
    mine, other = tmp_path / "a" / "root", tmp_path / "b" / "root"
    for root in (mine, other):
        shutil.copytree(damaged, root)
    options: dict[str, Any] = {"settings": SETTINGS, "piece_bytes": piece_bytes}
    dry = tidelog.spark.reindex(spark, mine, dry_run=True, **options).collect()
    assert content(mine) == content(damaged)
    told: list[tuple[int, int]] = []
    done = tidelog.spark.reindex(spark, mine, report=lambda *each: told.append(each), **options).collect()
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == sum(file.stat().st_size for file in mine.glob("*-*/*.log"))
    local = list(reindex(LOCAL, str(other), settings=SETTINGS))
    assert [(Path(row.file).relative_to(mine), tuple(row.indexes), row.cause, row.error) for row in done] == [
        (Path(one.file).relative_to(other), one.indexes, one.cause, one.error) for one in local
    ]
    assert dry == done != []
    assert content(mine) == content(other) | {".lock": b""}
    assert tidelog.spark.reindex(spark, mine, **options).collect() == [row for row in done if row.error]


@pytest.mark.parametrize("everything", [True, False])
def test_lost_indexes_come_back_as_kafka_wrote_them(
    spark: SparkSession, tmp_path: Path, everything: bool
) -> None:
    mine, other = (Path(shutil.copytree(CLEAN, tmp_path / name / "root")) for name in "ab")
    for root in (mine, other):
        for index in root.glob("*-*/*index"):
            index.unlink()
    options: dict[str, Any] = {"everything": everything, "settings": SETTINGS}
    done = tidelog.spark.reindex(spark, mine, piece_bytes=PIECE_BYTES, **options)
    assert done.count() == len(list(reindex(LOCAL, str(other), **options))) > 20
    assert content(mine) == content(other) | {".lock": b""}
    name = "golden-none-0"
    assert content(mine / name) == content(CLEAN / name)


def test_bad_places_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for job in (tidelog.spark.verify, tidelog.spark.reindex):
        with pytest.raises(InvalidInputError, match="missing is not a directory"):
            job(spark, tmp_path / "missing")
        with pytest.raises(InvalidInputError, match="empty is neither a partition's directory"):
            job(spark, empty)
    root = shutil.copytree(CLEAN, tmp_path / "root")
    with RootLock(root), pytest.raises(LogLockedError):
        tidelog.spark.reindex(spark, root)


def test_the_commands_take_a_master(spark: SparkSession, damaged: Path) -> None:
    for command in (["verify"], ["reindex", "--dry-run"]):
        lines = []
        for more in ([], ["--spark", "local[2]"]):
            result = CliRunner().invoke(app, [*command, str(damaged), "--json", *more])
            assert result.exit_code == 1, result.output
            lines.append([json.loads(line) for line in result.stdout.splitlines()])
        assert lines[0] == lines[1] != []
