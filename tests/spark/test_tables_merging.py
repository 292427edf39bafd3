"""`export --compact`: small files become larger ones, and the table's rows stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidelog.spark
from tests.spark.test_tables import HOUR_MS, START_MS, Kind, kind, numbers, rows, values
from tests.spark.test_tables_by_key import append, last_values
from tests.spark.test_tables_by_key import values as values_by_key
from tests.spark.writer import LogWriter
from tidelog.errors import InvalidInputError, LogLockedError
from tidelog.spark.exporting.merging import plan_merges
from tidelog.tables.opening import open_history
from tidelog.tables.table import LiveFile, TableFormat
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kind"]

_ONE_ROW = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0@@r3"
"""A deletion vector with row 3: a bitmap in Base85."""


def merge(spark: SparkSession, kind: Kind, **more: Any) -> list[dict[str, Any]]:
    how = {"target": kind.target, "format": kind.format, "table_options": kind.options, **more}
    found: list[dict[str, Any]] = tidelog.spark.merge_files(spark, **how).toArrow().to_pylist()
    return found


def everything(table: pa.Table) -> list[str]:
    """All columns of all rows, in any order."""
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


def test_rows_and_offsets_stay_and_files_are_few(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writers = [LogWriter(log, "events", partition) for partition in range(2)]
    for run in range(3):
        for writer in writers:
            writer.append(numbers(10 * run, 10 * run + 10), timestamp=START_MS + run * HOUR_MS)
        kind.export(spark, log, value_format="string", partition_by=["topic"])
    kind.write_as_another(kind.read().slice(0, 1))
    before, by_polars = everything(kind.read()), everything(kind.polars().collect().to_arrow())
    last = kind.open().done({TopicPartition("events", n): None for n in range(2)})
    history = open_history(TableFormat(kind.format), kind.target, kind.options)
    whole = history.whole()
    assert whole is not None
    (group,) = merge(spark, kind)
    assert (group["files_before"], group["files_after"]) == (7, 1)
    assert everything(kind.polars().collect().to_arrow()) == by_polars
    assert everything(kind.read()) == before
    assert kind.open().done(dict.fromkeys(last.offsets)) == last
    assert merge(spark, kind) == [], "nothing is left to merge"
    (file,) = kind.open().files()
    assert file.records == 61
    assert kind.files_after(START_MS + 2 * HOUR_MS - 1) == (1, 1)
    assert kind.files_after(START_MS + 2 * HOUR_MS) == (0, 1), "the bounds are those of the rows"
    after = open_history(TableFormat(kind.format), kind.target, kind.options)
    assert [(change.files, change.removes_rows) for change in after.since(whole.version)] == [((), False)]
    writers[0].append(numbers(30, 40))
    kind.export(spark, log, value_format="string")
    assert len(rows(kind.read())) == 71
    assert set(values(kind)) == set(range(40))


def test_a_table_by_key_is_merged_within_its_buckets(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    for run in range(3):
        append(log, 0, [(b"%d-%d" % (run, n), b"%d" % n) for n in range(20)])
        kind.export(spark, log, by_key=True, buckets=2)
    assert len(kind.open().files()) == 6
    assert len(merge(spark, kind)) == 2
    assert sorted(file.values["bucket"] for file in kind.open().files()) == [0, 1]
    append(log, 0, [(b"1-%d" % n, None) for n in range(20)])
    kind.export(spark, log, by_key=True)
    assert values_by_key(kind) == last_values(log)


def test_files_that_others_have_changed_are_not_replaced(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0)
    for run in range(2):
        writer.append(numbers(10 * run, 10 * run + 10))
        kind.export(spark, log, value_format="string")
    mine = kind.open()
    names = [file.name for file in mine.files()]
    merge(spark, kind)
    for table in (mine, kind.open()):  # loaded before, and after
        with pytest.raises(
            LogLockedError, match=r"another writer has changed files of .*; nothing was added"
        ):
            table.replace("data/mine", [], names)
    assert values(kind) == list(range(20))
    with pytest.raises(InvalidInputError, match="there is no table"):
        merge(spark, kind, target=f"{kind.target}-none")
    assert merge(spark, kind, target=f"{kind.target}-none", must_exist=False) == []


@pytest.mark.parametrize("job", ["merge", "export"])
def test_a_commit_whose_answer_is_lost_counts(
    spark: SparkSession, kind: Kind, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt arrives, and is refused when it is sent again: its files are the table's by then."""
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0)
    for run in range(2):
        writer.append(numbers(10 * run, 10 * run + 10))
        kind.export(spark, log, value_format="string")
    lost = lose_answers(kind, monkeypatch)
    if job == "merge":
        merge(spark, kind)
        assert len(kind.open().files()) == 1
    else:
        writer.append(numbers(20, 30))
        kind.export(spark, log, value_format="string")
    assert lost, "an answer was lost"
    assert values(kind) == list(range(20 if job == "merge" else 30)), "the table's files are there"


def lose_answers(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the library's commits arrive and seem refused; what has come of each."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table import Transaction

    owner: Any = Transaction if kind.is_iceberg else DeltaTable
    name = "commit_transaction" if kind.is_iceberg else "create_write_transaction"
    refusal = CommitFailedException if kind.is_iceberg else CommitFailedError
    commit = getattr(owner, name)
    lost: list[str] = []

    def arrives(*given: Any, **more: Any) -> None:
        commit(*given, **more)
        lost.append(name)
        raise refusal("the version is there already")

    monkeypatch.setattr(owner, name, arrives)
    return lost


def test_rows_that_others_have_deleted_stay_deleted(spark: SparkSession, kind: Kind) -> None:
    """A deletion vector is added while files are merged: the merge must not bring the rows back."""
    if kind.is_iceberg:
        pytest.skip("delete files of Iceberg tables are files of their own")
    log = kind.directory / "log"
    writer = LogWriter(log, "events", 0)
    for run in range(2):
        writer.append(numbers(10 * run, 10 * run + 10))
        kind.export(spark, log, value_format="string")
    mine = kind.open()
    names = [file.name for file in mine.files()]
    _delete_a_row(Path(kind.target), names[0])
    with pytest.raises(InvalidInputError, match="has deletion vectors: rewrite its files first"):
        mine.replace("data/mine", [], names)


def _delete_a_row(table: Path, name: str) -> None:
    """As engines with deletion vectors commit it: the file goes, and comes again with a vector."""
    log = table / "_delta_log"
    lines = [
        json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()
    ]
    add = next(line["add"] for line in lines if line.get("add", {}).get("path") == name)
    vector = {"storageType": "i", "pathOrInlineDv": _ONE_ROW, "sizeInBytes": 34, "cardinality": 1}
    gone = {
        "path": name,
        "deletionTimestamp": 1,
        "dataChange": True,
        "partitionValues": add["partitionValues"],
    }
    new = {**add, "deletionVector": vector}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "appendOnly"]}
    actions = [{"protocol": protocol | features}, {"remove": gone}, {"add": new}]
    last = max(int(file.stem) for file in log.glob("*.json"))
    (log / f"{last + 1:020}.json").write_text("\n".join(json.dumps(one) for one in actions) + "\n")


def live(name: str, size: int, first: tuple[int, int] = (0, 0), **given: Any) -> LiveFile:
    return LiveFile(name, name, size, 1, given.pop("values", {"topic": "a"}), first, **given)


def test_which_files_become_one() -> None:
    files = [live("d", 30, (0, 9)), live("a", 30, (1, 0)), live("b", 30, (0, 5)), live("big", 80)]
    other = [live("x", 1, values={"topic": "b"}), live("odd", 1, is_foreign=True)]
    (merge,) = plan_merges([*files, *other], 100)
    assert [file.name for file in merge.files] == ["b", "d", "a"], "by partition and offset"
    assert plan_merges(files, 100, min_files=4) == []
    many = [live(f"{n:02}", 30, (0, n)) for n in range(7)]
    assert [len(merge.files) for merge in plan_merges(many, 100, min_files=4)] == [3, 3], "whole ones"
