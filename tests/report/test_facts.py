"""The facts of a report against what `ls`, `describe` and `groups` say of the same directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.command import run
from tests.golden import GOLDEN, golden_partitions
from tidelog import Record
from tidelog.errors import InvalidInputError
from tidelog.report.facts import gather
from tidelog.report.tables import rows_of
from tidelog.testing.builders import LogBuilder, flip_bit
from tidelog.types import Codec

CLEAN = GOLDEN / "clean"


@pytest.fixture(scope="module")
def clean() -> dict[str, Any]:
    return gather(CLEAN, examine=True)


def told(*args: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*args, "--json").lines]


def rows_at(facts: dict[str, Any], table: str, at: int) -> list[dict[str, Any]]:
    return [row for row in rows_of(facts[table]) if row["at"] == at]


def test_partitions_are_those_of_ls(clean: dict[str, Any]) -> None:
    assert json.loads(json.dumps(clean)) == clean
    listed, found = told("ls", CLEAN), rows_of(clean["partitions"])
    same = [name for name in listed[0] if name != "codecs"]  # ls looks at the first and last batches only
    assert [{name: row[name] for name in same} for row in found] == [
        {name: row[name] for name in same} for row in listed
    ]
    for row, other in zip(found, listed, strict=True):
        assert set((other["codecs"] or "").split()) <= set((row["codecs"] or "").split())


def test_topics_are_those_of_ls(clean: dict[str, Any]) -> None:
    same = (
        "topic",
        "state",
        "partitions",
        "size_bytes",
        "segments",
        "offsets",
        "first_timestamp",
        "last_timestamp",
    )
    listed = told("ls", "--topics", CLEAN)
    assert [{name: row[name] for name in same} for row in rows_of(clean["topics"])] == [
        {name: row[name] for name in same} for row in listed
    ]
    assert clean["totals"]["size_bytes"] == sum(row["size_bytes"] for row in listed)


def test_segments_are_those_of_describe(clean: dict[str, Any]) -> None:
    for at, row in enumerate(rows_of(clean["partitions"])):
        summary, *segments = told("describe", row["path"])
        same = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
        assert {name: row[name] for name in same} == {name: summary[name] for name in same}
        assert [
            {name: one[name] for name in segments[0]} for one in rows_at(clean, "segments", at)
        ] == segments


def test_records_are_those_that_kafka_reads(clean: dict[str, Any]) -> None:
    found = {f"{row['topic']}-{row['partition']}": row for row in rows_of(clean["partitions"])}
    for partition in golden_partitions():
        if partition.legacy:
            continue
        records = [one for one in partition.records() if one["offset"] >= partition.log_start]
        data = [one for one in records if not one.get("control")]
        row = found[partition.name]
        assert row["records"] + row["control_records"] == len(records)
        assert row["records"] == len(data)
        hours = rows_at(clean, "hours", list(found).index(partition.name))
        assert sum(one["records"] for one in hours) == row["records"]


def test_groups_are_those_of_the_command(clean: dict[str, Any]) -> None:
    assert rows_of(clean["groups"]) == told("groups", CLEAN)


def test_transactions_and_epochs(clean: dict[str, Any]) -> None:
    names = clean["partitions"]["topic"]
    txn = rows_at(clean, "transactions", names.index("golden-txn"))
    listed = [row for row in told("transactions", CLEAN, "--aborted") if row["topic"] == "golden-txn"]
    assert [row["first_offset"] for row in txn] == [row["first_offset"] for row in listed]
    assert [row["state"] for row in txn].count("open") == 1
    epochs = rows_at(clean, "epochs", names.index("golden-none"))
    assert [row["epoch"] for row in epochs] == [0, 2, 4]


def test_codecs_producers_and_sizes(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "orders-0").records(100).roll().records(50, codec=Codec.GZIP)
    builder.transaction(7, records=20).transaction(8, records=10, commit=False).close()
    facts = gather(tmp_path / "orders-0")
    (row,) = rows_of(facts["partitions"])
    assert (row["records"], row["control_records"], row["batches"]) == (180, 2, 18)
    assert [one[:2] for one in zip(facts["codecs"]["codec"], facts["codecs"]["records"], strict=True)] == [
        ("gzip", 50),
        ("none", 130),
    ]
    assert {one["producer_id"]: one["records"] for one in rows_of(facts["producers"])} == {7: 20, 8: 10}
    assert sum(row["batch_sizes"]) == 18
    assert sum(row["record_sizes"]) == 180
    assert row["aborted_transactions"] == 1
    assert facts["going"]["reason"] == ["retention.ms"] * 2  # a week, and these are from 2023


def test_damage_is_where_doctor_finds_it(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "orders-0").records(100).roll().records(100).close()
    flip_bit(tmp_path / "orders-0" / f"{0:020d}.log", 700)
    facts = gather(tmp_path, examine=True)
    assert facts["totals"]["damaged"] == 1
    assert "damage" in facts["findings"]["severity"]
    assert 0 in facts["findings"]["at"]
    assert gather(tmp_path)["totals"]["damaged"] == 0  # a checksum is not looked at


def test_what_retention_deletes_is_not_damaged(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("orders", config={"retention.ms": 1000})
        store["orders"][0].append([Record(b"old", timestamp=1)])
    facts = gather(tmp_path, examine=True)
    assert ("loss", "retention") in zip(facts["findings"]["severity"], facts["findings"]["kind"], strict=True)
    assert facts["partitions"]["is_damaged"] == [False]


def test_damage_is_told_once(tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path / "orders-0").records(10).close()
    with (directory / f"{0:020d}.log").open("ab") as log:
        log.write(bytes(100))
    (damage,) = gather(directory)["partitions"]["damage"]
    assert len(damage) == 1


def test_what_is_no_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no Kafka partition directory"):
        gather(tmp_path)
    with pytest.raises(InvalidInputError, match="does not exist"):
        gather(tmp_path / "none")


def test_an_empty_root_has_no_partitions(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    facts = gather(tmp_path, examine=True)
    assert facts["totals"]["partitions"] == 0
    assert facts["roots"]["root"] == [str(tmp_path)]


def test_a_partition_without_a_segment(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (row,) = rows_of(gather(tmp_path)["partitions"])
    assert (row["segments"], row["health"]) == (0, "there is no segment")
