"""`tidelog adopt`: a topic of other disks in a root, with its offsets, id, configs, epochs and groups."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tests.cli.test_salvage import logs, tree
from tests.golden import GOLDEN
from tidelog import Record
from tidelog.doctor.adopted_groups import GroupCommit, write_commits
from tidelog.doctor.adopting import MANIFEST_FILE, adopt, plan_adoption
from tidelog.errors import LogError, UncleanShutdownError
from tidelog.layout.roots import look_at
from tidelog.log import Log
from tidelog.log.log import clock_ms
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.metadata.registration import Registration
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.store.opener import open_store
from tidelog.storage import LOCAL, FileSystem, LocalFileSystem
from tidelog.storage.metadata import MetaProperties
from tidelog.testing.builders import flip_bit
from tidelog.testing.crash import CrashFileSystem, copy_tree

ROOT = "/disk/root"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A root of another cluster: a topic of two partitions, and a group that has read some of it."""
    path = tmp_path / "source"
    with tidelog.open(path) as store:
        orders = store.create_topic(
            "orders", partitions=2, config={"retention.ms": -1, "segment.bytes": 2000000}
        )
        for n in range(30):
            orders[n % 2].append([Record(b"value-%d" % n, b"key")])
    commits = [
        GroupCommit("readers", "orders", 0, 7, 0, "note"),
        GroupCommit("readers", "other", 0, 3, 0, ""),
    ]
    write_commits(LOCAL, [str(path)], commits, None, 2)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return shutil.copytree(GOLDEN / "clean", tmp_path / "target")


def adopted(*args: object, code: int = 0) -> list[dict[str, object]]:
    found = run("adopt", *args, "--json")
    assert found.code == code, found.out + found.err
    return [json.loads(line) for line in found.lines]


def test_a_topic_into_a_stock_brokers_root(source: Path, target: Path) -> None:
    before, there = tree(source), tree(target)
    told = adopted(source, "--topic", "orders", "--into", target, "--groups")
    assert tree(source) == before
    changed = {name for name, data in tree(target).items() if there.get(name) != data}
    assert not [name for name in changed if name.startswith("golden-")]
    assert not [name for name in there.keys() - tree(target).keys() if name.startswith("golden-")]
    for name in ("orders-0", "orders-1"):
        assert logs(target / name) == logs(source / name)
    image = read_cluster_metadata(LOCAL, target).image
    known = read_cluster_metadata(LOCAL, source).image
    assert image.topics["orders"].topic_id == known.topics["orders"].topic_id
    assert image.topic_config("orders") == known.topic_config("orders")
    assert [one.leader_epoch for one in image.topics["orders"].partitions.values()] == [1, 1]
    (group,) = (one for one in told if one["about"] == "group")
    assert (group["name"], group["partition"], group["committed_offset"]) == ("readers", 0, 7)
    found = [json.loads(line) for line in run("groups", target, "--group", "readers", "--json").lines]
    assert [(one["topic"], one["committed_offset"], one["lag"]) for one in found] == [("orders", 7, 8)]
    assert run("doctor", target, "--quiet").code == 0
    assert run("verify", target, "--quiet").code == 0
    assert not (target / MANIFEST_FILE).exists()
    assert not list(target.parent.glob("*adopting*"))


def test_partition_directories_under_another_name(source: Path, tmp_path: Path) -> None:
    adopted(source / "orders-0", source / "orders-1", "--into", tmp_path / "new", "--rename", "copied")
    with tidelog.open(tmp_path / "new") as store:
        assert [record.value for record in store["copied"][1]] == [b"value-%d" % n for n in range(1, 30, 2)]
        assert (
            store["copied"].topic_id != read_cluster_metadata(LOCAL, source).image.topics["orders"].topic_id
        )
        assert store["copied"][0].append([Record(b"more")]).first_offset == 15


def test_a_dry_run_tells_the_same_and_changes_nothing(source: Path, target: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    planned = adopted(source, "--topic", "orders", "--into", target, "--groups", "--dry-run")
    assert tree(tmp_path) == before
    assert adopted(source, "--topic", "orders", "--into", target, "--groups") == planned


def test_refusals(source: Path, target: Path, tmp_path: Path) -> None:
    def refused(*args: object) -> str:
        before = tree(target)
        found = run("adopt", *args)
        assert found.code != 0, found.out
        assert tree(target) == before
        return found.err

    chosen = (source, "--topic", "orders")
    (tmp_path / "partial").mkdir()
    shutil.copytree(source / "orders-1", tmp_path / "partial" / "orders-1")
    assert "partitions 0 of orders" in refused(tmp_path / "partial", "--into", target)
    assert "exists already" in refused(*chosen, "--into", target, "--rename", "golden-none")
    assert "Kafka's own" in refused(source, "--topic", "__consumer_offsets", "--into", target)
    assert "retention" in refused(*chosen, "--into", target, "--config", "retention.ms=soon")
    assert "not the root" in refused(*chosen, "--into", source / "orders-0")
    adopted(*chosen, "--into", target)
    assert "exists already" in refused(*chosen, "--into", target)
    shutil.rmtree(target / "orders-0")
    shutil.rmtree(target / "orders-1")
    assert "has a topic 'orders' already" in refused(*chosen, "--into", target)
    assert "lies in the root" in refused(*chosen, "--into", source / "new")
    with tidelog.open(tmp_path / "busy") as store:
        store.create_topic("mine")
        assert "is in use by" in refused(*chosen, "--into", tmp_path / "busy")


def test_an_unclean_root_and_a_second_disk_are_refused(source: Path, target: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint", ".kafka_cleanshutdown"):
        shutil.copy2(target / name, second)
    found = run("adopt", source, "--topic", "orders", "--into", second)
    assert "several disks" in found.err
    (target / ".kafka_cleanshutdown").unlink()
    assert "not closed cleanly" in run("adopt", source, "--topic", "orders", "--into", target).err


def test_a_new_disk_of_a_node_gets_its_identity_and_its_metadata_counts(source: Path, tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "old") as store:
        store.create_topic("or.ders")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'old'},{tmp_path / 'new'}\n")
    chosen = (source, "--topic", "orders", "--into", tmp_path / "new", "--server-properties", properties)
    assert "collides with the topic 'or.ders'" in run("adopt", *chosen, "--rename", "or_ders").err
    adopted(*chosen)
    with tidelog.open([tmp_path / "old", tmp_path / "new"]) as store:
        assert sorted(store) == ["or.ders", "orders"]
        assert store["orders"][0].log.log_end_offset == 15
    assert read_meta(tmp_path / "new").cluster_id == read_meta(tmp_path / "old").cluster_id


def read_meta(root: Path) -> MetaProperties:
    found = look_at(LOCAL, str(root)).meta
    assert found is not None
    return found


def test_a_damaged_log_is_refused_and_a_sound_copy_helps(source: Path, target: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(source, tmp_path / "copy")
    flip_bit(next((source / "orders-0").glob("*.log")), 100)
    found = run("adopt", source, "--topic", "orders", "--into", target)
    assert found.code == 1
    assert "lost offsets" in found.err
    assert not list(target.glob("orders*"))
    adopted(source, copy, "--topic", "orders", "--into", target)
    assert logs(target / "orders-0") == logs(copy / "orders-0")


def test_missing_partitions_are_filled_if_asked(source: Path, tmp_path: Path) -> None:
    adopted(source / "orders-1", "--into", tmp_path / "new", "--fill")
    with tidelog.open(tmp_path / "new") as store:
        assert [one.log.log_end_offset for one in store["orders"]] == [0, 15]


def test_a_directory_with_a_number_of_any_size_is_told(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source / "orders-1", source / "orders-2000000000")
    chosen = (source, "--topic", "orders", "--into", tmp_path / "new")
    found = run("adopt", *chosen)
    assert "partitions 2, 3, 4" in found.err
    assert "1999999998 in all, of orders" in found.err
    found = run("adopt", *chosen, "--fill")
    assert "leave it out if it does not belong to this topic" in found.err
    assert not (tmp_path / "new").exists()


def records(fs: FileSystem, name: str) -> int:
    with Log.open(f"{ROOT}/{name}", clean=True, fs=fs) as log:
        return log.log_end_offset


@pytest.mark.parametrize("cuts", [8, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("groups", [False, True], ids=["topic", "groups"])
def test_an_adoption_that_is_cut_short_can_be_made_again(
    source: Path, tmp_path: Path, groups: bool, cuts: int
) -> None:
    with tidelog.open(tmp_path / "small") as store:
        store.create_topic("own")[0].append([Record(b"mine")])
    fs = CrashFileSystem()
    fs.make_directory("/disk")
    copy_tree(LOCAL, str(tmp_path / "small"), fs, ROOT)
    disk = fs.crash(kept="all")
    paths = [str(source)]

    def again(on: FileSystem) -> None:
        adopt(on, plan_adoption(on, paths, [ROOT], topic="orders", groups=groups), groups_partitions=1)

    again(disk)
    for step in range(0, disk.steps + 1, max(disk.steps // cuts, 1)):
        after = disk.crash(step, seed=step)
        image = read_cluster_metadata(after, ROOT).image
        if "orders" not in image.topics:
            try:
                again(after)
            except UncleanShutdownError:
                open_store([ROOT], fs=after, recover=True, background=False).close()
                again(after)
        assert read_cluster_metadata(after, ROOT).image.topics["orders"].partitions.keys() == {0, 1}
        assert [records(after, f"orders-{n}") for n in (0, 1)] == [15, 15], (
            disk.operation(step) if step else 0
        )
        assert records(after, "own-0") == 1


def test_a_source_in_use_is_told(source: Path, target: Path) -> None:
    with tidelog.open(source):
        found = run("adopt", source, "--topic", "orders", "--into", target, "--dry-run")
    assert found.code == 0
    assert f"{source} is in use: what is written to it from now on is not taken" in found.err
    assert "in use" not in run("adopt", source, "--topic", "orders", "--into", target, "--dry-run").err


def test_a_name_that_differs_in_a_dot_is_refused(source: Path, target: Path) -> None:
    found = run("adopt", source, "--topic", "orders", "--rename", "golden.none", "--into", target)
    assert found.code == 0, found.err
    again = run("adopt", source, "--topic", "orders", "--rename", "golden_none", "--into", target)
    assert again.code == 2
    assert "'golden_none' collides with the topic 'golden.none'" in again.err


def test_deleted_records_are_no_contradiction(source: Path, tmp_path: Path) -> None:
    with tidelog.open(source) as store:
        store["orders"][0].delete_records(4)
    told = adopted(source, "--topic", "orders", "--into", tmp_path / "new")
    (first,) = (one for one in told if (one["about"], one["partition"]) == ("partition", 0))
    assert (first["log_start_offset"], first["log_end_offset"], first["detail"]) == (4, 15, None)


class MountPoint(LocalFileSystem):
    """A disk whose root is a mount point: no rename crosses it."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = f"{root}/"

    def rename(self, source: str, target: str) -> None:
        if source.startswith(self.root) != target.startswith(self.root):
            raise OSError(errno.EXDEV, "Invalid cross-device link", source)
        super().rename(source, target)


def test_a_root_that_is_a_mount_point(source: Path, target: Path, tmp_path: Path) -> None:
    mounted = MountPoint(target)
    before = tree(target)
    adopt(mounted, plan_adoption(mounted, [str(source)], [str(target)], topic="orders", groups=True))
    assert logs(target / "orders-0") == logs(source / "orders-0")
    assert {name for name in tree(target) if "tidelog-adopting" in name} == set()
    assert not [name for name in before.keys() - tree(target).keys() if name.startswith("golden-")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_an_empty_mount_point_is_refused_before_anything_is_written(source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    mounted = MountPoint(tmp_path / "empty")
    plan = plan_adoption(mounted, [str(source)], [f"{tmp_path}/empty"], topic="orders", groups=True)
    with pytest.raises(LogError, match="mount point"):
        adopt(mounted, plan)
    assert [path.name for path in (tmp_path / "empty").iterdir() if path.name != ".lock"] == []


def test_what_another_version_set_for_the_topic_is_taken_over(source: Path, target: Path) -> None:
    registry = Registry(LOCAL, str(source), 1, clock_ms)
    topic = registry.image.topics["orders"]
    config = {**registry.image.topic_config("orders"), "message.format.version": "3.0"}
    registry.register([Registration("orders", topic.topic_id, config, {})])
    told = run("adopt", source, "--topic", "orders", "--into", target)
    assert told.code == 0, told.err
    assert "message.format.version" in told.err
    image = read_cluster_metadata(LOCAL, target).image
    assert image.topic_config("orders")["message.format.version"] == "3.0"
    assert run("doctor", target, "--quiet").code == 0


def test_commits_outside_of_the_log_are_told(source: Path, target: Path) -> None:
    commits = [GroupCommit("late", "orders", 0, 2, 0, ""), GroupCommit("ahead", "orders", 1, 99, 0, "")]
    write_commits(LOCAL, [str(source)], commits, None, 2)
    assert run("trim", source, "--topic", "orders", "--partition", "0", "--before", "5").code == 0
    found = adopted(source, "--topic", "orders", "--into", target, "--groups")
    said = {one["name"]: one["detail"] for one in found if one["about"] == "group"}
    assert said["readers"] is None
    assert "before the log start" in str(said["late"])
    assert "past the log end" in str(said["ahead"])
    rows = [json.loads(line) for line in run("groups", target, "--group", "ahead", "--json").lines]
    assert [one["lag"] for one in rows] == [15 - 99]
