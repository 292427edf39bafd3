"""Every dry run is the real plan: on roots of all sorts, it says what the command then does, or refuses."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.test_defaults import command
from tests.log.logs import abort, commit, send
from tests.manager.commands import sums
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


# ---- odd things in the place of files


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "something").write_text("")


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent.parent / "elsewhere")


LOG = "a-0/00000000000000000000.log"
INDEX = "a-0/00000000000000000000.index"
ODD = [
    ("recovery-point-offset-checkpoint", _pipe),
    ("cleaner-offset-checkpoint", _directory),
    (".lock", _pipe),
    ("meta.properties", lambda path: path.write_text("garbage")),
    ("a-0/leader-epoch-checkpoint", lambda path: path.write_text("garbage")),
    ("a-0/partition.metadata", _pipe),
    (LOG, lambda path: path.write_text("garbage")),
    (INDEX, _pipe),
    (INDEX, _dangling),
    (INDEX, _directory),
]
CHANGING = [
    ["append", "ROOT", "--topic", "a", "LINES"],
    ["append", "ROOT", "--topic", "new", "--create", "2", "LINES"],
    ["config", "ROOT", "--topic", "a", "--set", "retention.ms=5"],
    ["trim", "ROOT/a-0", "--before", "3"],
    ["retention", "ROOT"],
    ["compact", "ROOT/a-0", "--config", "cleanup.policy=compact"],
    ["recover", "ROOT"],
    ["reindex", "ROOT", "--all"],
    ["topics", "ROOT", "--create", "new"],
    ["topics", "ROOT", "--delete", "a"],
    ["move", "ROOT/a-0", "SECOND"],
    ["rewrite", "ROOT/a-0", "--redact", "value"],
    ["adopt", "SOURCE", "--topic", "b", "--rename", "new", "--into", "ROOT"],
]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A root with a topic of several segments, and beside it what commands need."""
    for name, topic in (("whole", "a"), ("source", "b")):
        with tidelog.open(tmp_path / name, background=False) as store:
            partition = store.create_topic(topic)[0]
            for _ in range(2):
                partition.append([Record(b"%d" % number, b"key") for number in range(5)])
                partition.log.roll()
    (tmp_path / "lines").write_text("a\nb\n")
    return tmp_path / "whole"


@pytest.mark.parametrize(("name", "odd"), ODD)
@pytest.mark.parametrize("args", CHANGING, ids=" ".join)
def test_what_stops_a_command_stops_its_dry_run(
    whole: Path, name: str, odd: Callable[[Path], object], args: list[str]
) -> None:
    odd(whole / name)
    (second := whole.parent / "second").mkdir()
    words = {
        "ROOT": whole,
        "LINES": whole.parent / "lines",
        "SECOND": second,
        "SOURCE": whole.parent / "source",
    }
    for word, path in words.items():
        args = [part.replace(word, str(path)) for part in args]
    before = sums(whole)
    dry = command(*args, "--dry-run")
    assert sums(whole) == before
    done = command(*args)
    if name == LOG and args[0] == "compact":  # it reads the records only when it compacts them
        return
    assert dry.exit_code == done.exit_code, dry.stderr + done.stderr
    if name == LOG and args[0] == "move":  # the copy meets the damage in other words
        assert LOG in dry.stderr
        return
    assert not done.exit_code or dry.stderr == done.stderr


@pytest.mark.parametrize(("name", "odd"), ODD[7:])
def test_a_rewrite_that_is_refused_leaves_nothing(
    whole: Path, name: str, odd: Callable[[Path], object]
) -> None:
    odd(whole / name)
    before = sums(whole)
    if command("rewrite", whole, "--redact", "value").exit_code:
        assert sums(whole) == before


def test_a_log_that_could_not_be_recovered_has_lost_no_segments(whole: Path) -> None:
    _dangling(whole / INDEX)
    code, rows, _ = told("recover", whole)
    assert code == 1
    assert [(row["segments_removed"], row["bytes_cut"]) for row in rows] == [(0, 0)]


@pytest.mark.parametrize(
    "args",
    [
        ["move", "ROOT/a-0", "SECOND"],
        ["topics", "ROOT", "--create", "new", "--server-properties", "PROPERTIES"],
        ["append", "ROOT", "--topic", "a", "LINES", "--server-properties", "PROPERTIES"],
        ["config", "SECOND", "--topic", "a", "--set", "retention.ms=5", "--server-properties", "PROPERTIES"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("odd", ["pipe", "node"])
def test_what_is_wrong_with_a_second_disk_stops_both(whole: Path, odd: str, args: list[str]) -> None:
    second, properties = whole.parent / "second", whole.parent / "server.properties"
    properties.write_text(f"log.dirs={whole},{second}\n")
    with tidelog.open([whole, second], background=False):
        pass
    if odd == "pipe":
        _pipe(second / "replication-offset-checkpoint")
    else:
        meta = second / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    words = {"ROOT": whole, "SECOND": second, "PROPERTIES": properties, "LINES": whole.parent / "lines"}
    for word, path in words.items():
        args = [part.replace(word, str(path)) for part in args]
    before = sums(second)
    dry, done = command(*args, "--dry-run"), command(*args)
    assert dry.exit_code == done.exit_code, dry.stderr + done.stderr
    assert bool(done.exit_code) == (odd == "node" or args[0] == "move")
    assert sums(second) == before


def test_a_snapshot_that_leads_nowhere_stops_no_recovery(whole: Path) -> None:
    (whole / CLEAN_SHUTDOWN_FILE).unlink()
    (whole / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    _dangling(whole / "a-0" / "00000000000000000005.snapshot")
    for extra in (["--dry-run"], []):
        done = command("recover", whole, *extra)
        assert done.exit_code == 0, done.stdout
