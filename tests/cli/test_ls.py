"""`tidelog ls` against what Kafka's log answers, and on directories that are damaged, many or far away."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import on_terminal, run
from tests.golden import GOLDEN, golden_partitions
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.scanning.overview import overview
from tidelog.scanning.partitions import find_partitions
from tidelog.storage import LOCAL
from tidelog.storage.names import DirectoryState
from tidelog.storage.write_journal import PendingPartition, PendingWrite, WriteJournal, write_journal
from tidelog.types import TopicPartition

CLEAN = GOLDEN / "clean"


def listed(*args: str | Path) -> list[dict[str, Any]]:
    answer = run("ls", "--json", *args)
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.lines]


def test_partitions_have_the_offsets_that_kafka_says() -> None:
    rows = {f"{row['topic']}-{row['partition']}": row for row in listed(CLEAN, GOLDEN / "legacy")}
    asked = [partition for partition in golden_partitions() if partition.lookups_path]
    assert len(asked) > 10
    for partition in asked:
        row, key_offsets = rows[partition.name], partition.lookups()[0]
        records = partition.records()
        assert row["log_end_offset"] == key_offsets["log_end_offset"]
        assert row["log_start_offset"] == partition.log_start
        assert row["segments"] == key_offsets["segments"]
        assert row["size_bytes"] == sum(log.stat().st_size for log in partition.logs())
        assert row["last_timestamp"] in (max(record["timestamp"] for record in records), None)
        assert set((row["codecs"] or "none").split()) <= {record["codec"] for record in records} | {"none"}
        assert row["health"] == "ok"


def test_topics_and_roots_add_up() -> None:
    partitions = listed(CLEAN)
    (multi,) = [row for row in listed("--topics", CLEAN) if row["topic"] == "golden-multi"]
    parts = [row for row in partitions if row["topic"] == "golden-multi"]
    assert multi["partitions"] == len(parts)
    assert multi["size_bytes"] == sum(row["size_bytes"] for row in parts)
    (root,) = listed("--roots", CLEAN)
    assert root["root"] == str(CLEAN)
    assert root["partitions"] == len(partitions)
    assert root["node_id"] == "1"
    assert root["clean_shutdown"] is True


def test_one_topic_and_one_partition() -> None:
    assert {row["topic"] for row in listed("--topic", "golden-txn", CLEAN)} == {"golden-txn"}
    (row,) = listed(CLEAN / "golden-txn-0")
    assert row["partition"] == 0


def test_directories_that_are_not_live_are_shown_as_what_they_are(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN / "golden-trimmed-0", root / "golden-trimmed-0")
    shutil.copyfile(CLEAN / "log-start-offset-checkpoint", root / "log-start-offset-checkpoint")
    one, two = "0" * 32, "1" * 32
    for name in (f"golden-trimmed-0.{one}-delete", f"golden-trimmed-0.{two}-stray", f"other-3.{one}-future"):
        shutil.copytree(CLEAN / "golden-trimmed-0", root / name)
    (live, *marked) = rows = listed(root)
    assert [(row["topic"], row["partition"], row["state"]) for row in rows] == [
        ("golden-trimmed", 0, "live"),
        ("golden-trimmed", 0, "delete"),
        ("golden-trimmed", 0, "stray"),
        ("other", 3, "future"),
    ]
    assert live["log_start_offset"] == 333
    assert all(row["log_start_offset"] < 333 for row in marked), "the checkpoint is of the live one"
    assert [(row["topic"], row["state"], row["partitions"]) for row in listed("--topics", root)] == [
        ("golden-trimmed", "live", 1),
        ("golden-trimmed", "delete", 1),
        ("golden-trimmed", "stray", 1),
        ("other", "future", 1),
    ]
    (added,) = listed("--roots", root)
    assert (added["topics"], added["partitions"], added["marked"]) == (1, 1, 3)
    assert added["size_bytes"] == 4 * live["size_bytes"]
    assert listed(root / f"other-3.{one}-future")[0]["state"] == "future"
    for index in (root / f"other-3.{one}-future").glob("*.index"):
        index.unlink()
    assert "no offset index" in listed(root)[3]["health"], "told, with exit code 0"
    assert [one.state for one in find_partitions(root)] == [DirectoryState.LIVE], "nothing else is read"


def test_a_bulk_write_counts_when_it_is_whole(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(3):
            log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
    added = PendingPartition(TopicPartition("t", 0), 1, 2, 0, 0, 0)
    write_journal(LOCAL, tmp_path, WriteJournal(1, {}, PendingWrite("", 0, "/nowhere", ("x",), (added,))))
    assert listed(tmp_path)[0]["log_end_offset"] == 1
    write_journal(LOCAL, tmp_path, WriteJournal(2))
    assert listed(tmp_path)[0]["log_end_offset"] == 3


def test_a_table_for_people_and_lines_for_a_pipe() -> None:
    answer = on_terminal("ls", CLEAN, columns=200)
    text = re.sub(r"\x1b\[[0-9;]*m", "", answer.out)
    assert "TOPIC" in text.split("\n")[0]
    assert "31.0 kB" in text  # golden-trimmed
    plain = run("ls", CLEAN).lines
    assert plain[0].split("\t")[:4] == ["topic", "partition", "size_bytes", "segments"]
    assert any(line.startswith("golden-trimmed\t0\t31014\t3\t333\t800\tok\t") for line in plain)


def test_damage_is_seen_at_the_end_of_a_log(tmp_path: Path) -> None:
    copy = shutil.copytree(CLEAN / "golden-zstd-0", tmp_path / "golden-zstd-0")
    last = sorted(copy.glob("*.log"))[-1]
    size = last.stat().st_size
    os.truncate(last, size - 10)
    (row,) = listed(copy)  # an unfinished write is no damage
    assert re.fullmatch(r"an unfinished last write of \d+ bytes", row["health"])
    with last.open("ab") as file:
        file.write(b"\xff" * 200)
    answer = run("ls", copy)
    assert answer.code == 1
    assert last.name in answer.out
    assert "1 of 1 partition is damaged: tidelog verify shows where" in answer.out


def test_missing_files_are_seen(tmp_path: Path) -> None:
    copy = shutil.copytree(CLEAN / "golden-none-0", tmp_path / "golden-none-0")
    logs = sorted(copy.glob("*.log"))
    logs[2].unlink()
    logs[3].with_suffix(".index").unlink()
    shutil.copy(logs[0], logs[0].with_name(logs[0].name + ".deleted"))
    health = json.loads(run("ls", "--json", copy).lines[0])["health"]
    assert health == (
        f"1 logs are missing, such as {logs[2].name}; 1 segments have no offset index; "
        "1 files wait for the next start (.cleaned, .swap or .deleted)"
    )


def test_a_preallocated_index_ends_at_its_last_entry(tmp_path: Path) -> None:
    """As a broker that runs, or was killed, leaves it."""
    copy = shutil.copytree(CLEAN / "golden-none-0", tmp_path / "golden-none-0")
    expected = overview(find_partitions(copy)[0])
    for kind in (".index", ".timeindex"):
        with sorted(copy.glob(f"*{kind}"))[-1].open("r+b") as file:
            file.truncate(10 << 20)
    found = overview(find_partitions(copy)[0])
    assert (found.log_end_offset, found.last_timestamp) == (expected.log_end_offset, expected.last_timestamp)


def test_partitions_behind_a_url(tmp_path: Path) -> None:
    shutil.copytree(CLEAN / "golden-multi-0", tmp_path / "root/golden-multi-0")
    (row,) = listed(f"local://{tmp_path}/root")
    (near,) = listed(tmp_path / "root")
    assert {**row, "path": None} == {**near, "path": None}


@pytest.mark.parametrize("what", ["no-such-directory", GOLDEN / "expected"])
def test_what_holds_no_partition_is_bad_usage(what: str | Path) -> None:
    answer = run("ls", what)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1


def test_the_current_directory_is_listed_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CLEAN)
    assert run("ls", "--json").out == run("ls", "--json", CLEAN).out
