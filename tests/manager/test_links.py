"""Opening, closing, deleting and moving follow no symbolic link out of a root."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import pytest

import tidelog
from tests.manager.commands import on
from tests.manager.stores import SMALL, fill, some, values
from tidelog.errors import LogOfflineError, TidelogError, TopicExistsError
from tidelog.manager.upkeep.recovery import recover_root
from tidelog.records import Record
from tidelog.storage import LOCAL

ID = "00112233445566778899aabbccddeeff"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Somebody else's directory; it looks like a partition's, so that nobody stops at a strange name."""
    there = tmp_path / "outside" / "victim"
    there.parent.mkdir()
    with tidelog.open(tmp_path / "outside" / "other", background=False) as store:
        fill(store.create_topic("t", 1, SMALL)[0], 40)
    (tmp_path / "outside" / "other" / "t-0").rename(there)
    (there / "sub").mkdir()
    (there / "sub" / "precious").write_text("x")
    return there


def digest(path: Path) -> dict[str, str]:
    """What is below a directory: names, kinds, bytes, times."""
    found = {}
    for one in sorted(path.rglob("*")):
        stat = one.lstat()
        body = hashlib.md5(one.read_bytes()).hexdigest() if one.is_file() and not one.is_symlink() else ""
        found[str(one.relative_to(path))] = f"{stat.st_mode} {stat.st_mtime_ns} {body}"
    return found


def life(roots: list[Path]) -> None:
    """Open, do all that deletes or moves, and close; trouble is told, and is no concern here."""
    store = tidelog.open([str(root) for root in roots], background=False)
    try:
        store.run_due_tasks()
        for partition in store.partitions:
            name = partition.topic_partition
            for act in (
                lambda name=name: store.partition(name.topic, name.partition).append(some(3), sync=True),
                lambda name=name: store.truncate_partition(name.topic, name.partition, 2),
                lambda name=name: store.move_partition(name.topic, name.partition, roots[-1]),
                lambda name=name: store.partition(name.topic, name.partition).delete_records(1),
            ):
                with suppress(TidelogError, OSError):
                    act()
        with suppress(TidelogError, OSError):
            store.resume_moves()
        store.apply_retention()
        for topic in list(store.topics):
            store.delete_topic(topic)
        for _ in range(3):
            store.run_due_tasks()
    finally:
        store.close()


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    both = [tmp_path / "r1", tmp_path / "r2"]
    with tidelog.open([str(root) for root in both], background=False) as store:
        for partition in store.create_topic("t", 2, SMALL):
            fill(partition, 40)
    return both


@pytest.mark.parametrize("inner", [True, False], ids=["link-inside", "is-link"])
@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        f"gone-0.{ID}-delete",
        f"t-0.{ID}-future",
        f"t-1.{ID}-future",
        f"t-0.{ID}-stray",
        f"t-0.{ID}-delete",
        "new-0",
        "not a partition",
    ],
)
def test_directories_that_are_links_or_hold_them(
    roots: list[Path], victim: Path, name: str, where: int, inner: bool
) -> None:
    planted = roots[where] / name
    if inner:
        planted.mkdir()
        for link, target in (("link", victim), ("up", Path("../..")), ("file", victim / "sub" / "precious")):
            (planted / link).symlink_to(target)
        for file in victim.iterdir():
            (planted / file.name).symlink_to(file)
    else:
        planted.symlink_to(victim)
    before = digest(victim.parent)
    life(roots)
    assert digest(victim.parent) == before


def test_a_partition_that_is_a_link_is_offline_and_the_others_are_not(
    roots: list[Path], victim: Path
) -> None:
    home = next(root for root in roots if (root / "t-1").exists())
    moved = victim.parent / "t-1"
    (home / "t-1").rename(moved)
    (home / "t-1").symlink_to(moved)
    before = digest(victim.parent)
    with tidelog.open([str(root) for root in roots], background=False) as store:
        reason = store.offline_partitions[store.partition("t", 1).topic_partition]
        assert "symbolic link" in reason
        assert str(home / "t-1") in reason
        with pytest.raises(LogOfflineError, match="symbolic link"):
            store.partition("t", 1).append(some(1))
        assert len(values(store, "t", 0)) == 40
        store.partition("t", 0).append(some(1), sync=True)
        store.delete_topic("t")
        store.run_due_tasks()
    assert digest(victim.parent) == before
    assert (home / "t-1").is_symlink()


WRITING = [
    ["append", "ROOT", "--topic", "t", "--partition", "0", "LINES"],
    ["trim", "ROOT", "--before-time", "9999999999999"],
    ["retention", "ROOT", "--server-properties", "PROPERTIES"],
    ["compact", "ROOT/t-0", "--config", "cleanup.policy=compact"],
    ["recover", "ROOT"],
    ["recover", "ROOT/t-0"],
    ["reindex", "ROOT", "--all"],
    ["reindex", "ROOT/t-0"],
    ["topics", "ROOT", "--delete", "t"],
    ["tidy", "ROOT"],
    ["move", "ROOT/t-0", "SECOND"],
    ["rewrite", "ROOT", "--redact", "value"],
    ["fix", "ROOT", "--apply"],
]


@pytest.mark.parametrize("args", WRITING, ids=" ".join)
def test_commands_write_nothing_into_a_partition_that_is_a_link(tmp_path: Path, args: list[str]) -> None:
    with tidelog.open(tmp_path / "root", background=False) as store:
        fill(store.create_topic("t", 1, SMALL)[0], 40)
    (outside := tmp_path / "outside").mkdir()
    (tmp_path / "root" / "t-0").rename(outside / "t-0")
    (tmp_path / "root" / "t-0").symlink_to(outside / "t-0")
    for index in (outside / "t-0").glob("*.index"):
        index.write_bytes(b"wrong")
    before = digest(outside)
    on(tmp_path / "root", args)
    assert digest(outside) == before
    assert (tmp_path / "root" / "t-0").is_symlink()


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_files_of_a_partition_that_are_links(
    roots: list[Path], victim: Path, suffix: str, clean: bool
) -> None:
    """Segments, indexes and snapshots: none is written through a link, also where they must be recovered."""
    home = next(root for root in roots if (root / "t-0").exists())
    for file in sorted((home / "t-0").glob(f"*{suffix}")):
        file.rename(victim / f"linked-{file.name}")
        file.symlink_to(victim / f"linked-{file.name}")
    if not clean:
        for root in roots:
            (root / ".kafka_cleanshutdown").unlink()
    before = digest(victim.parent)
    with suppress(TidelogError):  # a root that was not closed cleanly may be refused
        life(roots)
    for root in roots:
        recover_root(LOCAL, str(root))
    assert digest(victim.parent) == before


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "meta.properties",
        ".kafka_cleanshutdown",
        ".lock",
        "tidelog-journal",
        "bootstrap.checkpoint",
        "t-0/partition.metadata",
        "t-0/leader-epoch-checkpoint",
    ],
)
@pytest.mark.parametrize("suffix", ["", ".tmp"])
def test_small_files_that_are_links(roots: list[Path], victim: Path, name: str, suffix: str) -> None:
    home = next(root for root in roots if (root / "t-0").exists())
    target = victim / "linked"
    target.write_bytes((home / name).read_bytes() if (home / name).exists() else b"0\n0\n")
    planted = home / f"{name}{suffix}"
    planted.unlink(missing_ok=True)
    planted.symlink_to(target)
    before = digest(victim.parent)
    with suppress(TidelogError, OSError):
        life(roots)
    assert digest(victim.parent) == before


def test_a_root_that_is_a_link_is_fine(roots: list[Path], tmp_path: Path) -> None:
    links = []
    for root in roots:
        links.append(tmp_path / f"link-to-{root.name}")
        links[-1].symlink_to(root)
    with tidelog.open([str(link) for link in links], background=False) as store:
        assert not store.offline_partitions
        assert len(values(store, "t")) == 40
        store.partition("t").append(some(2), sync=True)
        store.delete_topic("t")
    assert not [path for root in roots for path in root.glob("t-*")]


@pytest.mark.parametrize("target", ["nowhere", "new-0", "elsewhere"])
def test_a_link_in_the_place_of_a_new_partition_harms_no_other(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    with tidelog.open(root, background=False) as store:
        store.create_topic("t", 1)
    (tmp_path / "elsewhere").mkdir()
    (root / "new-0").symlink_to(tmp_path / target if target != "new-0" else "new-0")
    with tidelog.open(root, background=False) as store:
        with pytest.raises(TopicExistsError, match=r"new-0 is a symbolic link.*move it away"):
            store.create_topic("new", 1)
        store.partition("t").append([Record(b"v")], sync=True)
        assert not store.offline_roots
    with tidelog.open(root, background=False) as store:
        assert list(store.topics) == ["t"]
    assert not list((tmp_path / "elsewhere").iterdir())
