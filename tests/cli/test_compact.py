"""`tidelog compact`: Kafka's own results on golden partitions, roots, errors, and Ctrl-C."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tidelog
from tests.cli.command import COMMAND, Answer, on_terminal, run
from tests.golden import GOLDEN, read_json_lines
from tidelog.cli.app import app
from tidelog.log import Log
from tidelog.records import Record, StoredRecord
from tidelog.records.batches import scan_batches
from tidelog.storage import LOCAL, read_offset_checkpoint, write_offset_checkpoint
from tidelog.storage.lock import RootLock
from tidelog.types import Codec, TopicPartition

FIRST_MS, SECOND_MS = 1_800_000_000_000, 1_800_200_000_000
CLEANED = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def records_in(directory: Path) -> list[dict[str, Any]]:
    """What the files hold, in the words of the expected ones; codecs decide about positions."""
    answer = run_here("dump", "--deep", "--json", *sorted(directory.glob("*.log")))
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.lines]


def without_position(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key != "position"} for record in records]


def run_here(*args: str | Path) -> Answer:
    """Run the command in this process: many of them in little time."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], prog_name="tidelog")
    return Answer(result.exit_code, result.stdout, result.stderr)


def compacted(*args: str | Path) -> list[dict[str, Any]]:
    answer = run_here("compact", "--json", *args)
    assert (answer.code, answer.err) == (0, ""), answer
    return [json.loads(line) for line in answer.lines]


# What Kafka leaves


@pytest.mark.parametrize("name", ["golden-compact-0", "golden-txn-0", "golden-txncompact-0"])
def test_what_kafka_leaves_of_a_golden_partition(tmp_path: Path, name: str) -> None:
    copy = shutil.copytree(GOLDEN / "clean" / name, tmp_path / name)
    for number, now in enumerate((FIRST_MS, SECOND_MS), 1):
        answer = run("compact", copy, "--json", "--now", str(now), "--from-start")
        assert answer.code == 0, answer.err
        line = json.loads(answer.out)
        assert line["error"] is None
        assert line["bytes_after"] == sum(file.stat().st_size for file in copy.glob("*.log"))
        expected = read_json_lines(GOLDEN / "expected" / f"{name}.cleaned{number}.jsonl.gz")
        assert without_position(records_in(copy)) == without_position(expected)
    assert {file.suffix for file in copy.iterdir()} <= {
        ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".metadata", ""
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [name], "nothing beside it"


# A root


NOW = 1_700_000_000_000
CONFIG = {"cleanup.policy": "compact", "segment.index.bytes": 4096, "delete.retention.ms": 1000}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two compacted topics of 300 records and 10 keys, and one that is not."""
    path = tmp_path / "data"
    with tidelog.open(path, background=False, now_ms=lambda: NOW) as store:
        store.create_topic("orders", partitions=2, config=CONFIG)
        store.create_topic("users", config=CONFIG)
        store.create_topic("events", config={"retention.ms": -1})
        for partition in store.partitions:
            for number in range(300):
                partition.append([Record(b"%d" % number, b"key %d" % (number % 10), timestamp=NOW + number)])
                if number % 100 == 99:
                    partition.log.roll()
    return path


def left_in(directory: Path) -> list[StoredRecord]:
    with Log.open(directory, clean=True) as log:
        log.update_high_watermark(log.log_end_offset)
        found, at = [], 0
        while at < log.log_end_offset:
            record = log.read_record(at)
            found += [] if record is None else [record]
            at += 1
        return found


def test_a_root_is_compacted_by_its_topics_configs(root: Path) -> None:
    events = {file.name: file.read_bytes() for file in (root / "events-0").iterdir()}
    clean_shutdown = (root / CLEAN_SHUTDOWN).read_bytes()
    lines = compacted(root)
    assert [line["partition"] for line in lines] == ["orders-0", "orders-1", "users-0"]
    for line in lines:
        assert (line["first_dirty_offset"], line["end_offset"], line["error"]) == (0, 300, None)
        assert line["bytes_after"] < line["bytes_before"] / 5
        assert (line["records_read"], line["records_kept"], line["rounds"]) == (300, 10, 1)
        left = left_in(root / line["partition"])
        assert [record.value for record in left] == [b"%d" % number for number in range(290, 300)]
    assert {file.name: file.read_bytes() for file in (root / "events-0").iterdir()} == events
    assert (root / CLEAN_SHUTDOWN).read_bytes() == clean_shutdown, "it is closed cleanly"
    known = read_offset_checkpoint(LOCAL, root / CLEANED)
    assert known == {
        TopicPartition(name, number): 300 for name, number in (("orders", 0), ("orders", 1), ("users", 0))
    }
    with tidelog.open(root, background=False) as store:
        assert not store.offline_partitions
        assert store.partition("orders", 1).log_end_offset == 300
        assert store.partition("users").append([Record(b"more", b"key")]).first_offset == 300


def test_a_second_time_there_is_nothing_to_do_unless_from_the_start(root: Path) -> None:
    compacted(root)
    before = {path: path.read_bytes() for path in root.rglob("*.log")}
    for line in compacted(root):
        assert (line["first_dirty_offset"], line["end_offset"], line["rounds"]) == (300, 300, 0)
        assert line["bytes_before"] == line["bytes_after"]
    assert {path: path.read_bytes() for path in root.rglob("*.log")} == before
    assert [line["rounds"] for line in compacted(root, "--from-start")] == [1, 1, 1]


def test_tombstones_go_when_their_time_has_come(root: Path) -> None:
    with tidelog.open(root, background=False, now_ms=lambda: NOW) as store:
        store.partition("users").append([Record(None, b"key 3", timestamp=NOW)])
    keys = {b"key %d" % number for number in range(10)}
    compacted(root, "--topic", "users", "--now", str(NOW + 5000))
    assert {record.key for record in left_in(root / "users-0")} == keys, "the tombstone is kept for a while"
    compacted(root, "--topic", "users", "--now", str(NOW + 5999), "--from-start")
    assert {record.key for record in left_in(root / "users-0")} == keys
    (line,) = compacted(root, "--topic", "users", "--now", str(NOW + 6001), "--from-start")
    assert line["tombstones_dropped"] == 1
    assert {record.key for record in left_in(root / "users-0")} == keys - {b"key 3"}


def test_nothing_past_the_checkpointed_high_watermark_is_cleaned(root: Path) -> None:
    path = root / "replication-offset-checkpoint"
    marks = read_offset_checkpoint(LOCAL, path) | {TopicPartition("users", 0): 150}
    write_offset_checkpoint(LOCAL, path, marks)
    (line,) = compacted(root, "--topic", "users")
    assert line["end_offset"] == 100, "the segment that holds it is not touched"
    assert [record.offset for record in left_in(root / "users-0")] == [*range(90, 300)]


def test_a_root_that_was_not_left_in_order_is_refused(root: Path) -> None:
    (root / CLEAN_SHUTDOWN).unlink()
    log = max((root / "users-0").glob("*.log"))
    with log.open("ab") as file:
        file.write(b"\x00" * 9)
    answer = run_here("compact", root, "--topic", "users")
    assert answer.code == 1
    assert "tidelog recover --dry-run" in answer.err
    assert run_here("recover", root).code == 0
    (line,) = compacted(root, "--topic", "users")
    assert (line["end_offset"], line["records_kept"]) == (300, 10)
    assert (root / CLEAN_SHUTDOWN).exists()


def test_a_dry_run_changes_nothing(root: Path) -> None:
    before = {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()
    }
    lines = compacted(root, "--dry-run")
    assert [(line["partition"], line["first_dirty_offset"], line["end_offset"]) for line in lines] == [
        ("orders-0", 0, 300), ("orders-1", 0, 300), ("users-0", 0, 300)
    ]  # fmt: skip
    assert all(line["dirty_ratio"] == 1.0 and line["dirty_bytes"] == line["size_bytes"] for line in lines)
    with RootLock(root):
        assert compacted(root, "--dry-run") == lines, "a running broker does not keep us from looking"
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}
    after.pop(root / ".lock")
    before.pop(root / ".lock")
    assert after == before


# Roads that end


def test_a_topic_that_is_not_compacted_is_refused_unless_told_otherwise(root: Path) -> None:
    for args in ((root / "events-0",), (root, "--topic", "events")):
        answer = run_here("compact", *args)
        assert (answer.code, answer.out) == (2, "")
        assert "cleanup.policy=delete" in answer.err
        assert "--config cleanup.policy=compact" in answer.err
    assert len(left_in(root / "events-0")) == 300
    (line,) = compacted(root / "events-0", "--config", "cleanup.policy=compact")
    assert line["records_kept"] == 10


def test_a_directory_that_no_metadata_knows_is_compacted_because_it_was_named(
    root: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(root / "events-0", tmp_path / "elsewhere" / "events-0")
    (line,) = compacted(copy)
    assert line["records_kept"] == 10
    assert sorted(path.name for path in copy.parent.iterdir()) == ["events-0"]


def test_a_held_lock_is_named(root: Path) -> None:
    with RootLock(root):
        answer = run("compact", root)
    assert answer.code == 1
    assert "is in use by process" in answer.err
    assert (root / CLEAN_SHUTDOWN).exists()


def test_the_metadata_log_is_never_touched(tmp_path: Path) -> None:
    root = shutil.copytree(GOLDEN / "clean", tmp_path / "data")
    before = {file.name: file.read_bytes() for file in (root / "__cluster_metadata-0").iterdir()}
    names = [line["partition"] for line in compacted(root, "--now", str(FIRST_MS))]
    assert names == ["__consumer_offsets-0", "golden-compact-0", "golden-txncompact-0"]
    answer = run_here("compact", root / "__cluster_metadata-0", "--config", "cleanup.policy=compact")
    assert answer.code == 2
    assert "never compacted" in answer.err
    assert {file.name: file.read_bytes() for file in (root / "__cluster_metadata-0").iterdir()} == before


def test_what_cannot_be_compacted_is_said_in_a_sentence(root: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    chance = tmp_path / "my-project-1"
    chance.mkdir()
    (chance / "notes.txt").write_text("no log")
    going = shutil.copytree(root / "users-0", tmp_path / "x" / f"users-0.{'0' * 32}-delete")
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        ((chance,), "my-project-1"),
        ((going,), "users-0."),
        ((empty,), "neither a partition's directory"),
        ((tmp_path / "missing",), "not a directory"),
        ((root, "--topic", "nothing"), "there is no topic nothing"),
        ((root / "users-0", "--topic", "users"), "--topic is for roots"),
        ((root, "--config", "min.compaction.lag.ms"), "KEY=VALUE"),
        ((root / "users-0", "--config", "no.such.key=1"), "no.such.key"),
    ]
    for args, sentence in cases:
        answer = run_here("compact", *args)
        assert (answer.code, answer.out) == (2, ""), args
        assert sentence in answer.err
    assert [file.name for file in chance.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("field", [7, 20, 70], ids=["offset", "checksum", "record"])
def test_damage_in_one_log_does_not_stop_the_others(root: Path, field: int) -> None:
    log = sorted((root / "orders-0").glob("*.log"))[2]
    damaged = bytearray(log.read_bytes())
    batches = scan_batches(damaged).require()
    damaged[int(batches.position[95]) + field] ^= 0xFF
    log.write_bytes(damaged)
    answer = run_here("compact", "--json", root)
    assert answer.code == 1
    lines = [json.loads(line) for line in answer.lines]
    assert [line["partition"] for line in lines if line["error"] is None] == ["orders-1", "users-0"]
    assert str(log if field > 7 else root / "orders-0") in lines[0]["error"]
    assert log.read_bytes() == damaged
    assert (root / CLEAN_SHUTDOWN).exists(), "the log was closed cleanly"
    alone = run_here("compact", root / "orders-0")
    assert alone.code == 1
    assert str(root / "orders-0") in alone.err
    assert not list((root / "orders-0").glob("*.cleaned"))


# On a terminal, and its keys


def test_on_a_terminal_it_is_a_table_and_a_sentence(root: Path) -> None:
    answer = on_terminal("compact", root, "--topic", "users")
    assert answer.code == 0
    assert "PARTITION" in answer.out
    assert "1 log compacted, 0 failed, 0 left alone" in answer.out
    assert "% less" in answer.out


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A root whose one topic takes a while."""
    path = tmp_path / "data"
    values = [b"%d" % number * 200 for number in range(40)]
    with tidelog.open(path, background=False) as store:
        store.create_topic("big", config={"cleanup.policy": "compact", "segment.bytes": 1 << 20})
        for turn in range(150):
            store.partition("big").append(
                [Record(values[i], b"%d-%d" % (turn % 50, i)) for i in range(40)], codec=Codec.ZSTD
            )
            if turn % 3 == 2:
                store.partition("big").log.roll()
    return path


def last_values(directory: Path) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in left_in(directory)}


def interrupt(path: Path, delay_s: float, number: signal.Signals) -> int:
    """Compact, and send a signal so long after something was being written."""
    with subprocess.Popen([COMMAND, "compact", path, "--from-start"], stdout=subprocess.PIPE) as process:
        while process.poll() is None and not any((path / "big-0").glob("*.cleaned")):
            time.sleep(0.001)
        time.sleep(delay_s)
        process.send_signal(number)
        process.communicate(timeout=60)
    return process.returncode


def test_ctrl_c_leaves_a_log_that_is_in_order(big: Path) -> None:
    expected = last_values(big / "big-0")
    codes = []
    for delay_s in (0, 0, 0.005, 0.02):
        codes.append(interrupt(big, delay_s, signal.SIGINT))
        assert (big / CLEAN_SHUTDOWN).exists()
        assert not [file.name for file in (big / "big-0").iterdir() if file.suffix in (".cleaned", ".swap")]
        assert last_values(big / "big-0") == expected
    assert set(codes) <= {0, 130}
    assert 130 in codes


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_kill_loses_nothing(big: Path, kills: int) -> None:
    expected = last_values(big / "big-0")
    for number in range(kills):
        interrupt(big, number % 10 * 0.004, signal.SIGKILL)
        with tidelog.open(big, background=False, recover=True) as store:
            assert not store.offline_partitions
            assert store.partition("big").log_end_offset == 6000
        assert not [file.name for file in (big / "big-0").iterdir() if file.suffix in (".cleaned", ".swap")]
        assert last_values(big / "big-0") == expected
