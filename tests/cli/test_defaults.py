"""What a broker's `server.properties` and `--config` change in commands, and where they are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tidelog
from tests.manager.commands import sums
from tests.manager.stores import some
from tidelog.cli.app import app
from tidelog.storage import LOCAL
from tidelog.storage.metadata import read_partition_metadata


def command(*args: str | Path) -> Result:
    """Run a command, here."""
    done = CliRunner().invoke(app, [str(part) for part in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two disks of a broker, the metadata on the first, and its properties."""
    first, second, properties = tmp_path / "disk1", tmp_path / "disk2", tmp_path / "server.properties"
    properties.write_text(
        f"log.dirs={first},{second}\nnum.partitions=3\nlog.cleanup.policy=compact\n"
        "log.retention.ms=-1\nlog.index.interval.bytes=64\n"
    )
    with tidelog.open([first, second], background=False) as store:
        topic = store.create_topic("t", 2)
        for partition in topic:
            partition.append(some(30))
    assert (first / "t-0").is_dir()
    assert (second / "t-1").is_dir()
    return first, second, properties


def test_compact_follows_the_defaults_of_the_broker(disks: tuple[Path, Path, Path]) -> None:
    first, second, properties = disks
    assert command("compact", first / "t-0", "--dry-run").exit_code == 2  # cleanup.policy=delete
    before = sums(second)
    assert "several disks" in command("compact", second / "t-1").stderr
    assert sums(second) == before
    for path in (first / "t-0", second / "t-1"):
        done = command("compact", path, "--server-properties", properties)
        assert done.exit_code == 0, done.stderr


def test_retention_of_a_second_disk_needs_the_first(disks: tuple[Path, Path, Path]) -> None:
    _, second, properties = disks
    before = sums(second)
    for more in ((), ("--dry-run",)):
        assert "--server-properties" in command("retention", second / "t-1", *more).stderr
        assert "left alone" in command("retention", second, *more).stdout
    assert sums(second) == before
    done = command("retention", second, "--server-properties", properties, "--json")
    assert (done.exit_code, done.stdout.strip()) == (0, "")  # -1: nothing goes
    assert sums(second) == before
    properties.write_text(properties.read_text().replace("=-1", "=1").replace("=compact", "=delete"))
    planned = command("retention", second, "--server-properties", properties, "--json", "--dry-run").stdout
    done = command("retention", second, "--server-properties", properties, "--json")
    assert done.stdout.count("t-1") == planned.count("t-1") == 1
    assert "t-0" not in done.stdout, "the other disk was not named"


def test_trim_of_a_second_disk(disks: tuple[Path, Path, Path]) -> None:
    _, second, properties = disks
    args = ("trim", second / "t-1", "--before", "10", "--json")
    assert command(*args).exit_code == 2
    (row,) = map(json.loads, command(*args, "--server-properties", properties).stdout.splitlines())
    assert row["new_log_start_offset"] == 10


def test_reindex_by_the_interval_of_the_broker(disks: tuple[Path, Path, Path]) -> None:
    _, second, properties = disks
    index = second / "t-1" / f"{0:020}.index"
    sizes = []
    for more in ((), ("--server-properties", properties), ("--config", "index.interval.bytes=1000000")):
        assert command("reindex", second / "t-1", "--all", *more).exit_code == 0
        sizes.append(index.stat().st_size)
    assert sizes[2] == 0
    assert sizes[1] >= sizes[0]


def test_topics_are_made_by_the_defaults_of_the_broker(disks: tuple[Path, Path, Path]) -> None:
    first, second, properties = disks
    for more in (("--dry-run",), ()):
        done = command("topics", second, "--create", "new", "--server-properties", properties, *more)
        assert "3 partitions" in done.stdout, done.stderr
    assert sorted(path.name for disk in (first, second) for path in disk.glob("new-*")) == [
        "new-0",
        "new-1",
        "new-2",
    ]
    assert "new" in command("topics", second, "--server-properties", properties).stdout


def test_move_knows_the_disks_of_the_broker(disks: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, properties = disks
    third = tmp_path / "disk3"
    third.mkdir()
    before = sums(second)
    for more in ((), ("--dry-run",)):
        assert "several disks" in command("move", second / "t-1", third, *more).stderr
    assert sums(second) == before
    assert command("move", second / "t-1", third, "--server-properties", properties).exit_code == 0
    assert (third / "t-1").is_dir()
    with tidelog.open(tmp_path / "stranger", background=False) as store:
        store.create_topic("x")
    for more in ((), ("--dry-run",)):
        said = command("move", first / "t-0", tmp_path / "stranger", *more).stderr
        assert "roots of one node" in said


def test_append_makes_a_topic_with_a_config(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    root = tmp_path / "root"
    args = ("append", root, lines, "--topic", "t", "--create", "1")
    assert command(*args, "--config", "no.such.key=1").exit_code == 2
    assert not root.exists()
    assert command("append", root, lines, "--topic", "t", "--config", "retention.ms=5").exit_code == 2
    assert command(*args, "--config", "retention.ms=-1", "--config", "segment.bytes=1048576").exit_code == 0
    with tidelog.open(root, mode="r") as store:
        assert store["t"].config == {"retention.ms": "-1", "segment.bytes": "1048576"}


def test_recover_takes_a_config(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "root", background=False) as store:
        store.create_topic("t")[0].append(some(500))
    index = tmp_path / "root" / "t-0" / f"{0:020}.index"
    args = ("recover", tmp_path / "root", "--recovery-point", "0")
    assert command(*args, "--config", "no.such.key=1").exit_code == 2
    assert command(*args, "--config", "index.interval.bytes=1000000").exit_code == 0
    sparse = index.stat().st_size
    assert command(*args, "--config", "index.interval.bytes=0").exit_code == 0
    assert sparse <= index.stat().st_size


def test_a_copy_says_which_topic_it_is_of(disks: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, _, _ = disks
    assert command("copy", first / "t-0", tmp_path / "t-0").exit_code == 0
    name = "partition.metadata"
    told = [read_partition_metadata(LOCAL, path / name) for path in (first / "t-0", tmp_path / "t-0")]
    assert told[0].topic_id == told[1].topic_id
