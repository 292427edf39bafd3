"""A journal that lies has nothing deleted and nothing cut: paths out of the root, other roots', damage."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.manager.publishing import begin_staging, stage, tasks
from tests.manager.stores import some, values
from tests.manager.test_links import digest
from tidelog.config import LogConfig
from tidelog.errors import DataLossError, InvalidIndexError, LogError, TidelogError
from tidelog.manager.publishing.committing import Write, publish, sweep_staging
from tidelog.manager.publishing.mark import MARK_FILE, claim
from tidelog.manager.publishing.staged import read_manifest
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id, random_id
from tidelog.storage.write_journal import JOURNAL_FILE, parse_journal, read_journal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    with tidelog.open(path, background=False) as store:
        store.create_topic("t")[0].append(some(3), sync=True)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "precious").write_text("x")
    (path / "x.json").write_text("{}")
    return path


def own_id(root: Path) -> str:
    with tidelog.open(root, background=False) as store:
        return format_id(store.roots[0].identity.directory_id)


def forge(root: Path, whose: str | None = None, **changes: Any) -> None:
    """A journal with a good checksum; `changes` are to its pending write."""
    pending = {
        "query": "q",
        "batch": 1,
        "staging": "s",
        "manifests": ["x"],
        "goes_back": True,
        "partitions": [["t", 0, 1, 5, 0, 0, 0]],
    } | changes
    content = {"sequence": 1, "committed": {}, "pending": pending}
    write(root, content if whose is None else content | {"root": whose})


def write(root: Path, content: Any) -> None:
    body = json.dumps(content, separators=(",", ":")).encode()
    (root / JOURNAL_FILE).write_bytes(b"1\n%08x\n%s\n" % (zlib.crc32(body), body))


def check_nothing_happens(root: Path, around: Path) -> str:
    """Opening refuses with one sentence that names the journal; nothing around or in the log is changed."""
    before, log = digest(around), digest(root / "t-0")
    with pytest.raises(TidelogError) as caught, tidelog.open(root, background=False):
        pass
    assert digest(around) == before
    assert digest(root / "t-0") == log
    assert str(root / JOURNAL_FILE) in str(caught.value)
    assert "\n" not in str(caught.value)
    (root / JOURNAL_FILE).unlink()
    with tidelog.open(root, background=False) as store:
        assert len(values(store, "t")) == 3
    return str(caught.value)


STAGINGS: dict[str, Callable[[Path, Path], str]] = {
    "absolute": lambda root, victim: str(victim),
    "relative": lambda root, victim: os.path.relpath(victim, root),
    "to-the-working-directory": lambda root, victim: os.path.relpath(victim),
    "roundabout": lambda root, victim: f"t-0/../../{victim.name}/./sub/..",
    "trailing-slash": lambda root, victim: f"{victim}/",
    "the-root": lambda root, victim: ".",
    "the-root-itself": lambda root, victim: str(root),
    "a-partition": lambda root, victim: "t-0",
    "above": lambda root, victim: "..",
    "everything": lambda root, victim: "/",
}


@pytest.mark.parametrize("which", STAGINGS)
@pytest.mark.parametrize("goes_back", [True, False])
@pytest.mark.parametrize("knows_id", [True, False])
def test_directories_that_are_no_staging_of_ours(
    root: Path, victim: Path, which: str, goes_back: bool, knows_id: bool
) -> None:
    whose = own_id(root) if knows_id else None
    forge(root, whose, staging=STAGINGS[which](root, victim), goes_back=goes_back)
    if which == "to-the-working-directory" and knows_id:  # which it is not relative to: there is nothing
        with suppress(TidelogError), tidelog.open(root, background=False):
            pass
        assert (victim / "sub" / "precious").exists()
    else:
        check_nothing_happens(root, victim)


def test_a_link_in_the_place_of_the_staging(root: Path, victim: Path, tmp_path: Path) -> None:
    """Also where what it leads to is marked as ours."""
    begin_staging(LOCAL, str(victim))
    whose = own_id(root)
    with tidelog.open(root, background=False) as store:
        claim(LOCAL, str(victim), store.roots[0].identity.directory_id)
    (tmp_path / "link").symlink_to(victim)
    forge(root, whose, staging="../link")
    assert "symbolic link" in check_nothing_happens(root, victim)


@pytest.mark.parametrize("mark", ["another", "nobody", "garbage", "link", "huge", "directory", "fifo"])
def test_a_directory_that_was_made_for_another(root: Path, victim: Path, mark: str) -> None:
    whose, path = own_id(root), victim / MARK_FILE
    match mark:
        case "another":
            begin_staging(LOCAL, str(victim))
            claim(LOCAL, str(victim), random_id())
        case "nobody":
            begin_staging(LOCAL, str(victim))
        case "garbage":
            path.write_bytes(b"\xff\0" * 40)
        case "link":
            (victim / "aside").write_text(f"1\n{whose}\n")
            path.symlink_to("aside")
        case "huge":
            path.write_text(f"1\n{whose}\n")
            os.truncate(path, 1 << 22)
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
    forge(root, whose, staging="../victim")
    assert MARK_FILE in check_nothing_happens(root, victim) or mark == "huge"


def test_the_journal_of_another_root(root: Path, victim: Path) -> None:
    forge(root, format_id(random_id()), staging="../nowhere")
    assert "nothing was changed" in check_nothing_happens(root, victim)


@pytest.mark.parametrize(
    "changes",
    [
        {"staging": "../victim\0"},
        {"staging": ""},
        {"staging": 7},
        {"staging": "\ud800"},
        {"manifests": ["../../victim/x"]},
        {"manifests": ["/etc/passwd"]},
        {"manifests": [".."]},
        {"manifests": ["x\0"]},
        {"manifests": 5},
        {"partitions": [["t", 0, 1, 10**30, 0, 0, 0]]},
        {"partitions": [["t", 0, 2**63 - 2, 5, 0, 0, 0]]},
        {"partitions": [["t", 0, -1, 5, 0, 0, 0]]},
        {"partitions": [["t", 2**31, 1, 5, 0, 0, 0]]},
        {"partitions": [["t", 0, 1, 5, 0, 0]]},
        {"partitions": [["t", 0, 1, 5, 0, 0, 0, 0]]},
        {"partitions": [["t", 0, 1, 5, 0, 0, 0, "", None]]},
        {"partitions": [["t", 0, 1, 5, 0, 0, 0, None, "AAAAAA"]]},
        {"partitions": [["t", 0, 1, 5, 0, 0, 0, None, "AAAA"]]},
        {"partitions": [["t", 0, 1, 5, float("inf"), 0, 0]]},
        {"partitions": [["t", 0, 1, float("nan"), 0, 0, 0]]},
        {"partitions": {"t": 0}},
        {"batch": 10**30},
        {"batch": []},
    ],
)
def test_values_that_cannot_be(root: Path, victim: Path, changes: dict[str, Any]) -> None:
    forge(root, own_id(root), **changes)
    check_nothing_happens(root, victim)


@pytest.mark.parametrize(
    "content", [[], 5, None, {}, {"sequence": -1, "committed": {}, "pending": None}, {"pending": []}, "x"]
)
def test_journals_of_another_shape(root: Path, victim: Path, content: Any) -> None:
    write(root, content)
    check_nothing_happens(root, victim)


def test_journals_that_are_too_deep_or_too_large(root: Path, victim: Path) -> None:
    for body in (b"[" * 200_000, b'{"a":' * 100_000, b"9" * 10_000):
        (root / JOURNAL_FILE).write_bytes(b"1\n%08x\n%s\n" % (zlib.crc32(body), body))
        check_nothing_happens(root, victim)
    (root / JOURNAL_FILE).write_bytes(b"1\n")
    os.truncate(root / JOURNAL_FILE, 1 << 40)
    check_nothing_happens(root, victim)


def test_journals_cut_and_flipped(root: Path, victim: Path) -> None:
    forge(root, own_id(root), staging=str(victim))
    whole = (root / JOURNAL_FILE).read_bytes()
    dice = random.Random(7)
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(dice.choice((1, 1, 2, 9))):
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
        for data in (bytes(changed), whole[: dice.randrange(len(whole))]):
            if data.rstrip(b"\n") != whole.rstrip(b"\n"):
                with pytest.raises(InvalidIndexError):
                    parse_journal(data, "x")
    (root / JOURNAL_FILE).write_bytes(whole[:-40])
    check_nothing_happens(root, victim)


@pytest.mark.parametrize("kind", ["directory", "fifo", "dangling"])
def test_a_journal_that_is_no_file(root: Path, kind: str) -> None:
    path = root / JOURNAL_FILE
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("no")
    with suppress(TidelogError, OSError), tidelog.open(root, background=False) as store:
        assert len(values(store, "t")) == 3


# ---- what is staged


@pytest.mark.parametrize("file", ["../../victim/x", "/etc/passwd", "a/b/c", "a//b", "a/..", ".", "", "\0", 5])
def test_manifests_that_name_files_elsewhere(tmp_path: Path, file: Any) -> None:
    piece = ["t", 0, file, *[0] * 10]
    content = {"version": 1, "table_crc": 0, "partitions": {"t": 1}, "pieces": [piece]}
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(InvalidIndexError, match="not a manifest"):
        read_manifest(LOCAL, str(tmp_path), "x")


def test_staged_segments_behind_a_link_are_not_taken(root: Path, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    small = LogConfig.from_properties({"internal.segment.bytes": 500})
    stage(LOCAL, str(staging), "task", {("t", 0): tasks()[0]["t", 0]}, {"t": 1}, small)
    inner = next(staging.glob("*.d"))
    inner.rename(tmp_path / "elsewhere")
    inner.symlink_to(tmp_path / "elsewhere")
    before = digest(tmp_path / "elsewhere")
    with tidelog.open(root, background=False) as store, pytest.raises(DataLossError, match="symbolic link"):
        publish(store, Write(str(staging), ("task",)))
    assert digest(tmp_path / "elsewhere") == before


def test_sweeping_leaves_what_no_writer_has_made(root: Path, tmp_path: Path, victim: Path) -> None:
    """The staging directory may be any: a day-old directory in it is not ours for that."""
    shared = tmp_path / "shared"
    shared.mkdir()
    for name in ("old", "query-1"):
        (shared / name / "inner").mkdir(parents=True)
    (shared / "query-link").symlink_to(victim)
    begin_staging(LOCAL, str(shared / "query-foreign"))
    claim(LOCAL, str(shared / "query-foreign"), random_id())
    begin_staging(LOCAL, str(shared / "query-dead"))
    before = digest(victim)
    far = 1 << 45
    assert sweep_staging(str(shared), prefix="query-", root=str(root)) == [str(shared / "query-dead")]
    begin_staging(LOCAL, str(shared / "dead"))
    (shared / "dead" / "link").symlink_to(victim)
    assert sweep_staging(str(shared), far, root=str(root)) == [str(shared / "dead")]
    assert sorted(path.name for path in shared.iterdir()) == ["old", "query-1", "query-foreign", "query-link"]
    assert digest(victim) == before


def test_a_root_and_its_staging_move_together(root: Path, tmp_path: Path) -> None:
    """A write that was cut short is finished where both are then."""
    staging = tmp_path / ".tidelog-staging-root" / "w"
    stage(LOCAL, str(staging), "task", {("t", 0): tasks()[0]["t", 0]}, {"t": 1})
    with tidelog.open(root, background=False) as store:
        store.partition("t").go_offline(OSError("its disk fails while the write is being published"))
        with pytest.raises(LogError):
            publish(store, Write(str(staging), ("task",)))
    assert read_journal(LOCAL, root).pending is None
    tidelog.open(root, background=False, recover=True).close()
    whose = own_id(root)
    with tidelog.open(root, background=False) as store:
        claim(LOCAL, str(staging), store.roots[0].identity.directory_id)
    forge(
        root,
        whose,
        staging="../.tidelog-staging-root/w",
        manifests=["task"],
        goes_back=False,
        partitions=[["t", 0, 3, 30, 0, 0, 0]],
    )
    (tmp_path / "new").mkdir()
    root.rename(tmp_path / "new" / "root")
    staging.parent.rename(tmp_path / "new" / staging.parent.name)
    with tidelog.open(tmp_path / "new" / "root", background=False) as store:
        assert store.partition("t").log_end_offset == 33
    assert not list((tmp_path / "new" / staging.parent.name).iterdir())
