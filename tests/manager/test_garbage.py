"""Checkpoints and metadata that make no sense: one sentence about it, and all that can be done is done.

A broker takes a checkpoint that it cannot read as empty; so does everything here. Without its metadata a root
is read, recovered and reindexed with default configs; what deletes by a topic's config, or needs to know the
topics, is refused, and changes nothing.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tidelog
from tests.manager.commands import sums
from tests.manager.stores import some
from tidelog.cli.app import app
from tidelog.errors import LogError
from tidelog.layout.roots import Checkpoint


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a compacted and a plain topic, closed cleanly."""
    root = tmp_path_factory.mktemp("kept") / "root"
    with tidelog.open(root, background=False) as store:
        store.create_topic("keys", config={"cleanup.policy": "compact"})[0].append(some(30))
        store.create_topic("plain", config={"retention.ms": -1})[0].append(some(30))
    return root


@pytest.fixture
def root(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "root"))


def command(root: Path, *args: str) -> Result:
    """Run a command on a root, here."""
    done = CliRunner().invoke(app, [part.replace("ROOT", str(root)) for part in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def read(root: Path) -> list[int]:
    with tidelog.open(root, mode="r") as store:
        assert store.metrics().partitions
        return [len(list(partition)) for topic in store.values() for partition in topic]


# ---- checkpoints

GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "a version alone": b"0\n",
    "another version": b"1\n0\n",
    "no number": b"zero\n0\n",
    "too few": b"0\n5\nplain 0 3\n",
    "too many": b"0\n0\nplain 0 3\n",
    "half a line": b"0\n1\nplain 0\n",
    "below zero": b"0\n1\nplain 0 -7\n",
    "larger than any": b"0\n1\nplain 0 99999999999999999999\n",
    "zeros": b"\0" * 64,
    "no text": b"\xff\xfe\xc3(" * 9,
    "a line of a megabyte": b"0\n1\n" + b"x" * 1_000_000,
}
SAYS_NOTHING = ("nothing", "a version alone")

GOING_ON = {
    "ls": ("ls", "ROOT"),
    "cat": ("cat", "ROOT/plain-0"),
    "tail": ("tail", "ROOT/plain-0"),
    "describe": ("describe", "ROOT/plain-0"),
    "find": ("find", "ROOT/plain-0"),
    "plan a compaction": ("compact", "ROOT", "--dry-run"),
    "compact": ("compact", "ROOT"),
    "plan a recovery": ("recover", "ROOT", "--dry-run"),
    "recover": ("recover", "ROOT"),
    "recover one": ("recover", "ROOT/plain-0"),
    "reindex": ("reindex", "ROOT"),
    "plan retention": ("retention", "ROOT", "--dry-run"),
    "retention": ("retention", "ROOT"),
    "trim": ("trim", "ROOT", "--topic", "plain", "--before-time", "1"),
    "config": ("config", "ROOT", "--topic", "plain", "--set", "retention.ms=5000"),
    "tidy": ("tidy", "ROOT", "--dry-run"),
}


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("name", GOING_ON)
def test_garbage_in_checkpoints_stops_nothing(
    root: Path, name: str, garbage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in Checkpoint:
        (root / kind.value).write_bytes(GARBAGE[garbage])
    with caplog.at_level(logging.WARNING):
        assert command(root, *GOING_ON[name]).exit_code == 0
    for kind in Checkpoint:
        told = [one.message for one in caplog.records if str(root / kind.value) in one.message]
        assert len(told) <= (garbage not in SAYS_NOTHING), told
    assert read(root)[1] == 30


@pytest.mark.parametrize("kind", Checkpoint)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_one_checkpoint(root: Path, kind: Checkpoint, garbage: str) -> None:
    (root / kind.value).write_bytes(GARBAGE[garbage])
    assert read(root) == [30, 30]
    assert command(root, "verify", "ROOT").exit_code == (garbage not in SAYS_NOTHING)
    with tidelog.open(root, background=False) as store:
        store["plain"][0].append(some(1))
        told = [one.path for one in store.skipped]
        assert told == ([] if garbage in SAYS_NOTHING else [str(root / kind.value)])
    assert read(root) == [30, 31]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
@pytest.mark.parametrize("kind", Checkpoint)
def test_something_else_in_the_place_of_a_checkpoint(
    root: Path, kind: Checkpoint, make: Callable[[Path], None]
) -> None:
    (root / kind.value).unlink(missing_ok=True)
    make(root / kind.value)
    for name in ("ls", "cat", "reindex"):
        assert command(root, *GOING_ON[name]).exit_code == 0, name
    assert read(root) == [30, 30]
    before = sums(root)
    writing = ("compact", "recover", "config", "retention")
    for name in (*writing, "plan a compaction", "plan a recovery", "plan retention"):
        done = command(root, *GOING_ON[name])
        assert done.exit_code == 2, name
        assert "move it away" in done.stderr
    assert sums(root) == before


# ---- metadata


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _in_log(root: Path, name: str, data: bytes) -> None:
    directory = root / "__cluster_metadata-0"
    directory.mkdir()
    (directory / name).write_bytes(data)


BOOTSTRAP, SNAPSHOT = "bootstrap.checkpoint", f"{10:020}-{1:010}.checkpoint"
DAMAGE: dict[str, Callable[[Path], object]] = {
    "bootstrap of garbage": lambda root: (root / BOOTSTRAP).write_bytes(b"garbage" * 20),
    "bootstrap of zeros": lambda root: (root / BOOTSTRAP).write_bytes(bytes(500)),
    "empty bootstrap": lambda root: (root / BOOTSTRAP).write_bytes(b""),
    "bootstrap cut short": lambda root: (root / BOOTSTRAP).write_bytes((root / BOOTSTRAP).read_bytes()[:-20]),
    "flipped bit in bootstrap": lambda root: (root / BOOTSTRAP).write_bytes(
        bytes((root / BOOTSTRAP).read_bytes()[:150])
        + bytes([(root / BOOTSTRAP).read_bytes()[150] ^ 1])
        + (root / BOOTSTRAP).read_bytes()[151:]
    ),
    "bootstrap is a directory": lambda root: _directory(root / BOOTSTRAP),
    "snapshot of garbage": lambda root: _in_log(root, SNAPSHOT, b"x" * 300),
    "empty snapshot": lambda root: _in_log(root, SNAPSHOT, b""),
    "metadata log is a file": lambda root: (root / "__cluster_metadata-0").write_bytes(b""),
}
WITHOUT_TOPICS = ("ls", "cat", "plan a recovery", "recover", "recover one", "reindex", "find", "describe")
BY_CONFIG = {
    "retention": ("retention", "ROOT"),
    "plan retention": ("retention", "ROOT", "--dry-run"),
    "compact": ("compact", "ROOT"),
    "plan a compaction": ("compact", "ROOT", "--dry-run"),
    "trim": ("trim", "ROOT", "--topic", "plain", "--before-time", "1"),
    "config": ("config", "ROOT"),
    "topics": ("topics", "ROOT"),
    "create": ("topics", "ROOT", "--create", "new"),
    "tidy": ("tidy", "ROOT"),
    "append": ("append", "ROOT", "--topic", "plain", "ROOT/meta.properties"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", WITHOUT_TOPICS)
def test_a_root_without_readable_metadata_is_read_and_recovered(root: Path, name: str, damage: str) -> None:
    DAMAGE[damage](root)
    assert command(root, *GOING_ON[name]).exit_code == 0
    assert read(root) == [30, 30]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", BY_CONFIG)
def test_what_depends_on_the_metadata_is_refused(root: Path, name: str, damage: str) -> None:
    DAMAGE[damage](root)
    before = sums(root)
    done = command(root, *BY_CONFIG[name])
    assert done.exit_code == 1
    assert "Restore the file from a copy" in done.stderr
    assert sums(root) == before
    with pytest.raises(LogError, match="Restore the file"):
        tidelog.open(root, background=False)
    assert sums(root) == before
