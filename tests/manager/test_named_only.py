"""What opening a root, and commands on one topic of it, leave as it was: everything that was not named."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog
from tests.manager.commands import command, on, sums
from tests.manager.stores import some, values
from tidelog.errors import InvalidInputError, LogError, ReplicatedTopicError, UncleanShutdownError
from tidelog.layout.roots import Checkpoint
from tidelog.manager.metadata.files import encode_records_batch, read_bootstrap, write_bootstrap
from tidelog.protocol.metadata_records import FeatureLevelRecord, PartitionRecord, TopicRecord
from tidelog.storage import LOCAL, read_offset_checkpoint, write_offset_checkpoint
from tidelog.storage.metadata import format_id, random_id, read_meta_properties
from tidelog.types import TopicPartition

CLEAN = ".kafka_cleanshutdown"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two topics, closed cleanly; the records are old, and those of one are kept for ever."""
    with tidelog.open(tmp_path / "r", background=False) as store:
        store.create_topic("mine")[0].append(some(30))
        store.create_topic("other", config={"retention.ms": -1})[0].append(some(30))
    return tmp_path / "r"


def kill(root: Path) -> None:
    """As after kill -9, with a flipped bit in the other topic."""
    (root / CLEAN).unlink()
    path = root / "other-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")


COMMANDS = {
    "append": ["append", "ROOT", "--topic", "mine", "LINES"],
    "append dry": ["append", "ROOT", "--topic", "mine", "--dry-run", "LINES"],
    "config": ["config", "ROOT", "--topic", "mine", "--set", "retention.ms=5"],
    "config dry": ["config", "ROOT", "--topic", "mine", "--set", "retention.ms=5", "--dry-run"],
    "trim": ["trim", "ROOT", "--topic", "mine", "--partition", "0", "--before", "5"],
    "trim refused": ["trim", "ROOT", "--topic", "mine", "--partition", "0", "--before", "500"],
    "trim dry": ["trim", "ROOT", "--topic", "mine", "--partition", "0", "--before", "5", "--dry-run"],
    "retention": ["retention", "ROOT/mine-0"],
    "retention dry": ["retention", "ROOT", "--dry-run"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unclean_root_is_refused_before_anything_changes(root: Path, name: str) -> None:
    kill(root)
    before = sums(root)
    done = on(root, EVERYWHERE[name])
    assert done.exit_code != 0
    assert f"tidelog recover --dry-run {root}" in done.stderr
    assert sums(root) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_one_topic_leaves_the_others(root: Path, name: str) -> None:
    before = sums(root, "mine-0", "bootstrap", "re", "log-start")
    on(root, EVERYWHERE[name])
    assert sums(root, "mine-0", "bootstrap", "re", "log-start") == before
    with tidelog.open(root, background=False) as store:
        assert len(values(store, "other")) == 30


EVERYWHERE = {
    **COMMANDS,
    "retention of all": ["retention", "ROOT"],
    "retention by time": ["retention", "ROOT", "--server-properties", "PROPERTIES"],
    "trim of all": ["trim", "ROOT", "--before-time", "1"],
    "compact": ["compact", "ROOT", "--topic", "mine", "--config", "cleanup.policy=compact"],
    "recover": ["recover", "ROOT/mine-0"],
    "reindex": ["reindex", "ROOT", "--all"],
    "create": ["topics", "ROOT", "--create", "new"],
    "delete": ["topics", "ROOT", "--delete", "mine"],
    "tidy": ["tidy", "ROOT"],
    "move": ["move", "ROOT/mine-0", "SECOND"],
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_checkpoints_say_of_other_partitions_what_they_said(root: Path, name: str) -> None:
    """Also of those that are not on this disk, in their order, and where it is less than is true."""
    others = {TopicPartition("zzz", 9): 12, TopicPartition("other", 0): 7, TopicPartition("elsewhere", 3): 0}
    for kind in Checkpoint:
        write_offset_checkpoint(LOCAL, root / kind.value, others | {TopicPartition("mine", 0): 0})
    done = on(root, EVERYWHERE[name])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    for kind in Checkpoint:
        said = read_offset_checkpoint(LOCAL, root / kind.value)
        assert [item for item in said.items() if item[0] in others] == list(others.items()), kind
        if name == "delete":
            assert TopicPartition("mine", 0) not in said
    (root / "other-0").stat()


def test_what_checkpoints_say_of_an_older_log_is_not_believed_of_a_new_one(root: Path) -> None:
    new = TopicPartition("new", 0)
    for kind in Checkpoint:
        write_offset_checkpoint(LOCAL, root / kind.value, {new: 25})
    with tidelog.open(root, background=False) as store:
        store.create_topic("new")
        for kind in Checkpoint:
            assert read_offset_checkpoint(LOCAL, root / kind.value) == {}
        store["new"][0].append(some(3))
    with tidelog.open(root, background=False) as store:
        assert len(values(store, "new")) == 3


def test_opening_an_unclean_root_is_refused_and_recovery_keeps_what_it_cuts(root: Path) -> None:
    kill(root)
    before = sums(root)
    with pytest.raises(UncleanShutdownError, match="recover=True"):
        tidelog.open(root)
    assert sums(root) == before
    with tidelog.open(root, recover=True, background=False) as store:
        assert values(store, "other") == []
        assert len(values(store, "mine")) == 30
    (kept,) = (root / "other-0").glob("*.from-*")
    assert kept.stat().st_size > 0
    with tidelog.open(root) as store:  # in order again
        assert not store.offline_partitions


def test_discard_keeps_nothing(root: Path) -> None:
    kill(root)
    with tidelog.open(root, recover=True, discard=True, background=False):
        pass
    assert not list((root / "other-0").glob("*.from-*"))


def test_a_new_root_is_no_unclean_one(tmp_path: Path) -> None:
    deep = tmp_path / "not" / "there" / "yet"
    store = tidelog.open(deep, background=False)
    store.create_topic("t")
    for one in store.roots:  # as if killed: nothing was written
        one.release()
    with tidelog.open(deep, background=False) as again:
        assert list(again.topics) == ["t"]


def test_a_partition_is_no_root(root: Path) -> None:
    before = sums(root)
    for path in (root / "mine-0", root / "new-0"):
        with pytest.raises(InvalidInputError, match="not a root"):
            tidelog.open(path)
    assert sums(root) == before
    assert not (root / "new-0").exists()
    named_so = root.parent / "kafka-logs-1"
    tidelog.open(named_so, background=False).close()
    tidelog.open(named_so, background=False).close()


# ---- dry runs are refused as the command itself is


HELD = {
    **{
        name: args
        for name, args in EVERYWHERE.items()
        if "dry" not in name and name not in ("move", "recover")
    },
    "recover root": ["recover", "ROOT"],
    "unstray": ["unstray", "ROOT"],
    "append new": ["append", "ROOT", "--topic", "new", "--create", "2", "LINES"],
}


@pytest.mark.parametrize("name", HELD)
def test_a_root_that_cannot_be_held_is_refused_by_dry_runs_too(root: Path, name: str) -> None:
    (root / "meta.properties").write_text("version=1\n")
    (root / "stray-0").mkdir()
    before = sums(root)
    dry = on(root, [*HELD[name], "--dry-run"])
    assert sums(root) == before
    done = on(root, HELD[name])
    assert (dry.exit_code == 0) == (done.exit_code == 0), dry.output + done.output
    if done.exit_code:
        assert dry.stderr == done.stderr
        assert sums(root) == before


def test_setting_aside_in_an_unclean_root_is_refused_by_a_dry_run_too(root: Path) -> None:
    (root / "stray-0").mkdir()
    kill(root)
    for extra in ([], ["--dry-run"]):
        done = on(root, ["tidy", "ROOT", *extra])
        assert done.exit_code == 1
        assert "was not closed cleanly" in done.stderr


OTHERS_GO_ON = {
    "trim": ["trim", "ROOT", "--before-time", "1700000000010"],
    "retention": ["retention", "ROOT", "--server-properties", "PROPERTIES"],
}


@pytest.mark.parametrize("name", OTHERS_GO_ON)
def test_a_log_that_cannot_be_opened_is_told_and_the_others_are_worked_on(tmp_path: Path, name: str) -> None:
    """Also by a dry run, which counts the same segments."""
    with tidelog.open(tmp_path / "r", background=False) as store:
        for topic in ("a", "b", "c"):
            partition = store.create_topic(topic)[0]
            for _ in range(2):
                partition.append(some(20))
                partition.log.roll()
    root = tmp_path / "r"
    (root / "b-0" / "leader-epoch-checkpoint").write_text("garbage")
    before = sums(root)
    dry = on(root, [*OTHERS_GO_ON[name], "--dry-run"])
    assert sums(root) == before
    done = on(root, OTHERS_GO_ON[name])
    for one in (dry, done):
        assert one.exit_code == 1, one.output
        assert "1 partitions cannot be opened and are left alone: b-0: " in one.stderr
    told = {re.sub(r"would be|are|is \d+ ms", "", one.stdout) for one in (dry, done)}
    assert len(told) == 1, told
    assert "b-0" not in dry.stdout
    assert not {
        path for path, was in before.items() if path.startswith("b-0") and sums(root).get(path) != was
    }
    for topic in ("a", "c"):
        assert sums(root / f"{topic}-0") != {
            path.partition("/")[2]: was for path, was in before.items() if path.startswith(f"{topic}-0/")
        }


# ---- one partition of a topic


@pytest.fixture
def elected(tmp_path: Path) -> Path:
    """A topic of three partitions as a broker leaves it that was elected and stopped before it wrote: the new
    epoch begins at the log end. There are segments, too, that it would delete when it starts again.
    """
    with tidelog.open(tmp_path / "r", background=False) as store:
        for partition in store.create_topic("mine", 3):
            partition.append(some(30))
            partition.log.roll()
            partition.append(some(1))
    for directory in (tmp_path / "r").glob("mine-*"):
        (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 31\n")
        (directory / "00000000000000000000.log.deleted").write_text("old")
    return tmp_path / "r"


ALONE = {
    "append": ["append", "ROOT/mine-1", "LINES"],
    "append by number": ["append", "ROOT", "--topic", "mine", "--partition", "1", "LINES"],
    "trim": ["trim", "ROOT/mine-1", "--before", "5"],
    "trim by number": ["trim", "ROOT", "--topic", "mine", "--partition", "1", "--before", "5"],
    "retention": ["retention", "ROOT/mine-1"],
    "move": ["move", "ROOT/mine-1", "SECOND"],
    "config": ["config", "ROOT", "--topic", "mine", "--set", "retention.ms=-1"],
}


@pytest.mark.parametrize("name", ALONE)
def test_a_command_on_one_partition_leaves_the_others_of_its_topic(elected: Path, name: str) -> None:
    named = () if name == "config" else ("mine-1",)
    mine, before = (
        sums(elected, "bootstrap", "re", "log-start"),
        sums(elected, *named, "bootstrap", "re", "log-start"),
    )
    done = on(elected, ALONE[name])
    assert done.exit_code == 0, done.output
    assert sums(elected, *named, "bootstrap", "re", "log-start") == before
    assert (sums(elected, "bootstrap", "re", "log-start") == mine) == (name == "config")


def test_opening_and_closing_a_root_that_is_in_order_writes_no_epochs(elected: Path) -> None:
    before = (elected / "mine-0" / "leader-epoch-checkpoint").read_bytes()
    with tidelog.open(elected, background=False) as store:
        assert store["mine"][0].log.latest_epoch == 0
        store["mine"][1].append(some(1))
    assert (elected / "mine-0" / "leader-epoch-checkpoint").read_bytes() == before
    assert b"31" in before


def test_a_single_partition_is_opened(elected: Path) -> None:
    one = TopicPartition("mine", 1)
    with tidelog.open(elected, topics=[one], background=False) as store:
        assert [partition.topic_partition for partition in store.partitions] == [one]
        with pytest.raises(LookupError, match="has no partition 0 here"):
            store.partition("mine", 0)
        with pytest.raises(InvalidInputError, match="only some partitions"):
            store.delete_topic("mine")
        store.alter_config("mine", {"retention.ms": 5})
        store["mine"][1].append(some(2))
    with tidelog.open(elected, background=False) as store:
        assert [len(values(store, "mine", number)) for number in range(3)] == [31, 33, 31]
        assert store["mine"].config == {"retention.ms": "5"}
    with tidelog.open(elected, topics=(), background=False) as store:
        store.alter_config("mine", {"retention.ms": None})
        with pytest.raises(LookupError):
            store.alter_config("nowhere", {"retention.ms": 5})
    with tidelog.open(elected, background=False) as store:
        assert len(store["mine"]) == 3
        assert store["mine"].config == {}


# ---- disks of brokers


@pytest.fixture
def second_disk(root: Path, tmp_path: Path) -> Path:
    """A broker's second disk: partitions, `meta.properties` and a bootstrap.checkpoint without topics."""
    disk = tmp_path / "disk2"
    with tidelog.open(disk, background=False):
        pass
    shutil.copytree(root / "mine-0", disk / "mine-0")
    return disk


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_leave_a_second_disk_as_it_is(second_disk: Path, name: str) -> None:
    before = sums(second_disk)
    on(second_disk, EVERYWHERE[name])
    after = sums(second_disk)
    assert {name: one for name, one in after.items() if name in before} == before
    assert (second_disk / "mine-0").is_dir()


@pytest.mark.parametrize(
    "args", [["topics", "--create", "new"], ["append", "--topic", "new", "--create", "2"]]
)
def test_a_dry_run_refuses_the_topic_that_a_second_disk_would_refuse(
    second_disk: Path, args: list[str]
) -> None:
    line = [args[0], "ROOT", *args[1:], *(["LINES"] if args[0] == "append" else [])]
    for extra in ([], ["--dry-run"]):
        done = on(second_disk, line + extra)
        assert done.exit_code == 1, done.output
        assert "the metadata is on another" in done.stderr
    assert not (second_disk / "new-0").exists()


def test_a_dry_run_refuses_a_topic_whose_directory_is_there_already(root: Path) -> None:
    (root / "new-1").mkdir()
    for extra in ([], ["--dry-run"]):
        done = on(root, ["topics", "ROOT", "--create", "new", "--partitions", "2", *extra])
        assert done.exit_code != 0
        assert "new-1 is there, though no metadata knows it" in done.stderr


def test_a_second_disk_is_opened_and_reported(second_disk: Path) -> None:
    before = sums(second_disk, "re", "log-start", "cleaner")
    with tidelog.open(second_disk, background=False) as store:
        assert [one.path for one in store.skipped] == [str(second_disk / "mine-0")]
        with pytest.raises(LogError, match=r"log\.dirs"):
            store.create_topic("new")
        with pytest.raises(LogError, match=r"log\.dirs"):
            store.tidy()
        with pytest.raises(LookupError, match=r"log\.dirs"):
            store.partition("mine")
    assert sums(second_disk, "re", "log-start", "cleaner") == before
    with tidelog.open(second_disk, adopt=True, background=False) as store:
        assert len(values(store, "mine")) == 30


@pytest.mark.parametrize("recover", [False, True])
def test_no_metadata_is_begun_on_a_second_disk(tmp_path: Path, recover: bool) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots, background=False) as store:
        store.create_topic("t", 2)
        for partition in store.partitions:
            partition.append(some(1))
    with tidelog.open(roots[1], recover=recover, background=False) as store:
        assert not store.topics
    assert not (roots[1] / "bootstrap.checkpoint").exists()
    with tidelog.open(roots, background=False) as store:
        assert [len(values(store, "t", number)) for number in range(2)] == [1, 1]


def test_adopting_one_topic_sets_no_other_aside(root: Path) -> None:
    identity = root / "other-0" / "partition.metadata"
    identity.write_text(f"version: 0\ntopic_id: {format_id(random_id())}")  # from the topic's former life
    before = sums(root / "other-0")
    lines = root.parent / "lines"
    lines.write_text("line\n")
    assert command("append", str(root), "--topic", "mine", "--adopt", str(lines)).exit_code == 0
    assert sums(root / "other-0") == before
    with tidelog.open(root, adopt=True, background=False) as store:
        assert len(values(store, "mine")) == 31
    assert len(list(root.glob("other-0.*-stray"))) == 1


def test_strays_get_their_names_back(root: Path) -> None:
    shutil.copytree(root / "mine-0", root / "lost-3")
    assert command("tidy", str(root), "--dry-run").exit_code == 0
    assert (root / "lost-3").is_dir()
    assert command("tidy", str(root)).exit_code == 0
    assert not (root / "lost-3").exists()
    assert (root / CLEAN).exists()
    assert command("unstray", str(root), "--dry-run").exit_code == 0
    assert not (root / "lost-3").exists()
    assert command("unstray", str(root)).exit_code == 0
    assert (root / "lost-3").is_dir()
    assert (root / CLEAN).exists()


@pytest.fixture
def cluster_disk(root: Path) -> Path:
    """The disk of a broker in a cluster: its metadata log says that brokers 2 and 3 hold `mine`."""
    with tidelog.open(root, background=False) as store:
        mine, other = store.topic("mine").topic_id, store.topic("other").topic_id
    meta = read_meta_properties(LOCAL, root / "meta.properties")
    assert meta.directory_id is not None
    places = (meta.directory_id,)
    records = [
        FeatureLevelRecord("metadata.version", 25),
        TopicRecord("mine", mine),
        PartitionRecord(0, mine, (2, 3), (2, 3), 2, 0, 0, places * 2),
        TopicRecord("other", other),
        PartitionRecord(0, other, (1, 2), (1, 2), 1, 0, 0, places * 2),
    ]
    directory = root / "__cluster_metadata-0"
    directory.mkdir()
    data = encode_records_batch(records, base_offset=0, leader_epoch=1, timestamp_ms=0)
    (directory / "00000000000000000000.log").write_bytes(data)
    return root


def test_replicas_of_other_brokers_open_and_refuse_appends(cluster_disk: Path) -> None:
    before = sums(cluster_disk, "re", "log-start")
    with tidelog.open(cluster_disk, background=False) as store:
        assert not store.offline_partitions
        for name in ("mine", "other"):
            assert len(values(store, name)) == 30
            with pytest.raises(ReplicatedTopicError, match="force"):
                store.partition(name).append(some(1))
    assert sums(cluster_disk, "re", "log-start") == before
    assert on(cluster_disk, COMMANDS["append"]).exit_code != 0
    assert sums(cluster_disk, "re", "log-start") == before
    with tidelog.open(cluster_disk, background=False, force=True) as store:
        store.partition("mine").append(some(1))
    with tidelog.open(cluster_disk, background=False) as store:
        store.partition("other").append(some(1), force=True)
        assert store.partition("other").topic_partition == TopicPartition("other", 0)


def test_what_is_not_replicated_is_not_cleaned(tmp_path: Path) -> None:
    """The other brokers may cut it off; then the older records of its keys are the last ones."""
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots, background=False) as store:
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        partition = store.create_topic("t", config=config)[0]
        for _ in range(2):
            partition.append(some(10))
            partition.log.roll()
    records = [
        replace(one, replicas=(1, 2), isr=(1, 2)) if isinstance(one, PartitionRecord) else one
        for one in read_bootstrap(LOCAL, roots[0])
    ]
    write_bootstrap(LOCAL, roots[0], records, timestamp_ms=0)
    name, home = TopicPartition("t", 0), roots[0]
    write_offset_checkpoint(LOCAL, home / Checkpoint.HIGH_WATERMARKS.value, {name: 10})
    for target in (roots[0], roots[1]):
        with tidelog.open(roots, background=False) as store:
            store.clean()
            assert store.partition("t").log.high_watermark == 10
            store.move_partition("t", 0, target)
        assert read_offset_checkpoint(LOCAL, target / Checkpoint.HIGH_WATERMARKS.value)[name] == 10
        assert tidelog.scan(target).read_all()["offset"].to_pylist() == list(range(9, 20))
    with tidelog.open(roots, background=False, force=True) as store:
        assert store.partition("t").log.high_watermark == 20
