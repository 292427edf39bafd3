"""Every dry run is the real plan: on roots of all sorts, it says what the command then does, or refuses."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.test_defaults import command
from tests.log.logs import abort, commit, send
from tidelog.manager import Partition
from tidelog.records import Record
from tidelog.storage import LOCAL, read_offset_checkpoint, write_offset_checkpoint
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE

T0 = 1_700_000_000_000
MARKS = "replication-offset-checkpoint"


def live(partition: Partition, dice: random.Random) -> None:
    """Whatever can happen to a log."""
    sequence, is_open = 0, False
    for number in range(dice.choice([0, 1, 25, 40])):
        time = T0 + number * 1000 + dice.randrange(-5000, 5000)
        record = Record(b"%d" % number * 5, b"k%d" % dice.randrange(4), timestamp=time)
        match dice.randrange(12):
            case 0:
                send(partition.log, 1, sequence, record)
                sequence, is_open = sequence + 1, True
            case 1 if is_open:
                dice.choice([commit, abort])(partition.log, 1)
                is_open = False
            case 2 if partition.log.segments.last.size:
                partition.log.roll()
            case _:
                partition.append([record] * dice.randint(1, 3))
    if dice.random() < 0.3:
        partition.delete_records(dice.randint(0, partition.log_end_offset))


def make(root: Path, seed: int) -> None:
    """A root with topics of all sorts, closed cleanly."""
    dice = random.Random(seed)
    with tidelog.open(root, background=False) as store:
        for name in "ab":
            config = {
                "cleanup.policy": dice.choice(["compact", "delete", "compact,delete"]),
                "internal.segment.bytes": dice.choice([600, 2000]),
                "retention.bytes": dice.choice([-1, 500, 1500]),
                "retention.ms": dice.choice([-1, 1, 10**15]),
                "min.compaction.lag.ms": dice.choice([0, 0, 10**14]),
            }
            for partition in store.create_topic(name, 1, config):
                live(partition, dice)
        if dice.random() < 0.5:
            store.clean()
    marks = dict(read_offset_checkpoint(LOCAL, root / MARKS))
    for name, mark in marks.items():
        if dice.random() < 0.2:
            marks[name] = dice.randint(0, mark)
    write_offset_checkpoint(LOCAL, root / MARKS, marks)


def told(*args: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    done = command(*args, "--json")
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def compared(tmp_path: Path, root: Path, args: Sequence[str | Path], columns: Sequence[str]) -> None:
    """Run a command dry, and in earnest on a copy; both say the same in some columns, or refuse alike."""
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    shutil.copytree(root, copy := tmp_path / "copy")
    code, planned, why = told(*args[:1], root, *args[1:], "--dry-run")
    done_code, done, done_why = told(*args[:1], copy, *args[1:])
    assert code == done_code, (why, done_why)
    if code:
        assert why.replace(str(root), str(copy)) == done_why
    rows = [{name: row[name] for name in columns} for row in planned]
    assert rows == [{name: row[name] for name in columns} for row in done]


def trims(root: Path, dice: random.Random) -> Iterator[list[str]]:
    """Ends of all sorts: a time for all, offsets of one partition up to past its end."""
    yield ["trim", "--before-time", str(T0 + dice.randrange(-5000, 45_000))]
    with tidelog.open(root, mode="r") as store:
        name = dice.choice(list(store.topics))
        end = store.partition(name).log_end_offset
    for before in (dice.randint(0, end), end, end + 1):
        yield ["trim", "--topic", name, "--partition", "0", "--before", str(before)]


GOING = ["partition", "log_start_offset", "new_log_start_offset", "segments", "size_bytes"]
DELETED = ["partition", "base_offset", "end_offset", "size_bytes", "reason"]
CLEAN = ["partition", "first_dirty_offset", "end_offset"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_a_dry_run_says_what_is_then_done(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "root"
    make(root, seed)
    for args in trims(root, random.Random(seed)):
        compared(tmp_path, root, args, GOING)
    compared(tmp_path, root, ["retention"], DELETED)
    for args in (["compact"], ["compact", "--from-start"]):
        compared(tmp_path, root, args, CLEAN)
    compared(tmp_path, root, ["reindex", "--all"], ["indexes", "cause"])
    compared(tmp_path, root, ["recover"], ["partition", "log_end_offset", "segments", "bytes_cut"])


@pytest.mark.parametrize("args", [["compact"], ["retention"], ["trim", "--before-time", "1d"]], ids=" ".join)
def test_a_dry_run_refuses_what_is_refused(tmp_path: Path, args: list[str]) -> None:
    root = tmp_path / "root"
    make(root, 1)
    (root / CLEAN_SHUTDOWN_FILE).unlink()
    compared(tmp_path, root, args, [])
    assert told(*args[:1], root, *args[1:], "--dry-run")[0] == 1
