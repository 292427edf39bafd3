"""Manifests that somebody else has written: what is outside of their root and repair stays as it is."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.harming import beside, log, make_root
from tests.doctor.test_damages import NOW_MS
from tidelog.doctor.adopting import MANIFEST_FILE, adopt, plan_adoption
from tidelog.doctor.fixing import apply_plan, empty_quarantine, undo_last
from tidelog.errors import TidelogError
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id, read_partition_metadata

NAME = "golden-none-0"
RUN = "20260101t000000000000000-abcdef"
MODE = {"mode": 0o4777, "uid": 0, "gid": 0, "mtime_ns": 7}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a second partition, which nobody repairs."""
    found = make_root(tmp_path / "disks" / "root", NAME, "golden-zstd-0")
    (found / ".lock").touch()
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somebody else's files."""
    there = tmp_path / "disks" / "victim"
    (there / "sub").mkdir(parents=True)
    for name in ("file", "sub/file"):
        (there / name).write_text("precious")
    return there


def state(*places: Path) -> dict[str, object]:
    """Names, permissions, times and bytes."""
    found: dict[str, object] = {}
    for place in places:
        for path in (place, *sorted(place.rglob("*"))):
            told = path.lstat()
            body = path.read_bytes() if stat.S_ISREG(told.st_mode) else b""
            found[str(path)] = (told.st_mode, told.st_mtime_ns, body)
    return found


def kept(act: str, path: str, place: str = "", target: str = "", **more: object) -> dict[str, object]:
    told = {"act": act, "path": path, "place": place, "before": MODE, "size": 0, "target": target}
    return told | {"target_before": None} | more


def write(root: Path, told: dict[str, Any], state: str = "applied") -> None:
    whole = {"version": 1, "state": state, "kept": [], "directories": {}, "after": {}, "logs": {}} | told
    (root / f".tidelog-fix-{RUN}.json").write_text(json.dumps(whole))


HOSTILE: dict[str, Callable[[str], dict[str, Any]]] = {
    "empties-a-log": lambda log: {"kept": [kept("remove", "x", f"golden-zstd-0/{log}")]},
    "empties-beside": lambda log: {"kept": [kept("remove", "x", "../victim/file")]},
    "empties-through-a-link": lambda log: {
        "kept": [kept("remove", "linked/x", f"linked/.tidelog-quarantine/{RUN}/0-x")]
    },
    "renames-from-beside": lambda log: {"kept": [kept("rename", "mine", "", "../victim/sub")]},
    "renames-to-beside": lambda log: {
        "kept": [kept("rename", "mine", f"golden-zstd-0/{log}", "../victim/new")]
    },
    "renames-from-far": lambda log: {"kept": [kept("rename", "mine", "", "../../disks/victim/sub/file")]},
    "puts-a-log-back": lambda log: {
        "kept": [kept("write", f"golden-zstd-0/{log}", f"{NAME}/partition.metadata")]
    },
    "cuts-beside": lambda log: {"kept": [kept("cut", "../victim/file", f"{NAME}/partition.metadata")]},
    "cuts-through-a-link": lambda log: {
        "kept": [kept("cut", "linked/file", f"linked/.tidelog-quarantine/{RUN}/0-file")]
    },
    "opens-permissions-beside": lambda log: {
        "kept": [kept("mode", "linked/file", f"linked/.tidelog-quarantine/{RUN}/0-file")]
    },
    "directories-through-a-link": lambda log: {"directories": {"linked/sub": MODE}},
    "directories-beside": lambda log: {"directories": {"../victim": MODE}},
    "dots": lambda log: {"kept": [kept("mode", f"./{NAME}/../../victim/file")]},
}


@pytest.mark.parametrize("how", [undo_last, empty_quarantine], ids=["undo", "empty"])
@pytest.mark.parametrize("cut_short", ["applied", "applying", "undoing", "emptying"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_manifest_is_refused(
    root: Path, outside: Path, name: str, cut_short: str, how: Callable[..., object]
) -> None:
    (root / "linked").symlink_to(outside)
    place = outside / ".tidelog-quarantine" / RUN
    place.mkdir(parents=True)
    for file in ("0-x", "0-file"):
        (place / file).write_text("precious, too")
    write(root, HOSTILE[name](log(root, "golden-zstd-0").name), cut_short)
    before = state(outside, root / NAME, root / "golden-zstd-0")
    with suppress(TidelogError):
        how(LOCAL, [str(root)])
    assert state(outside, root / NAME, root / "golden-zstd-0") == before
    assert not (root / "mine").exists()


def test_permissions_that_let_a_program_run_as_its_owner_do_not_come_from_a_manifest(root: Path) -> None:
    program = root / NAME / "program"
    program.write_text("#!/bin/sh\n")
    told = kept("mode", f"{NAME}/program", f"{NAME}/.tidelog-quarantine/{RUN}/0-program")
    write(root, {"kept": [told | {"before": MODE | {"uid": os.getuid(), "gid": os.getgid()}}]})
    undo_last(LOCAL, [str(root)])
    assert stat.S_IMODE(program.stat().st_mode) == 0o777


def test_a_repair_whose_partition_became_a_link_is_not_undone_through_it(root: Path, tmp_path: Path) -> None:
    beside(log(root, number=1), ".index").unlink()
    apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    (root / NAME).rename(tmp_path / "moved")
    (root / NAME).symlink_to(tmp_path / "moved")
    before = state(tmp_path / "moved")
    for how in (undo_last, empty_quarantine):
        with pytest.raises(TidelogError, match="symbolic link"):
            how(LOCAL, [str(root)])
    assert state(tmp_path / "moved") == before
    (root / NAME).unlink()
    (tmp_path / "moved").rename(root / NAME)
    assert len(undo_last(LOCAL, [str(root)])) == 1


def test_a_directory_that_was_moved_beside_the_root_twice_comes_back_twice(root: Path) -> None:
    """The second takes the name of the first, which is kept."""
    for body in ("first", "second"):
        (root / "junk").mkdir()
        (root / "junk" / "file").write_text(body)
        apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
        assert not (root / "junk").exists()
    undo_last(LOCAL, [str(root)])
    assert (root / "junk" / "file").read_text() == "second"
    (root / "junk" / "file").unlink()
    (root / "junk").rmdir()
    undo_last(LOCAL, [str(root)])
    assert (root / "junk" / "file").read_text() == "first"


@pytest.mark.parametrize(
    ("topic", "name"),
    [("other", "golden-zstd-0"), ("..", "../root"), ("other", ".."), ("golden-zstd", "golden-zstd-00")],
)
def test_an_adoption_that_was_cut_short_removes_its_own_topic_only(
    root: Path, tmp_path: Path, topic: str, name: str
) -> None:
    theirs = read_partition_metadata(LOCAL, str(root / "golden-zstd-0" / "partition.metadata"))
    told = {"topic": topic, "topic_id": format_id(theirs.topic_id), "directories": [name]}
    (root / MANIFEST_FILE).write_text(json.dumps(told))
    before = state(root / "golden-zstd-0")
    source = make_root(tmp_path / "source", NAME)
    with suppress(TidelogError):
        adopt(LOCAL, plan_adoption(LOCAL, [str(source)], [str(root)], topic="golden-none", rename="new"))
    assert state(root / "golden-zstd-0") == before


def test_an_adoption_empties_no_directory_behind_a_link(root: Path, outside: Path, tmp_path: Path) -> None:
    Path(f"{root}.tidelog-adopting").symlink_to(outside)
    source = make_root(tmp_path / "source", NAME)
    before = state(outside)
    with pytest.raises(TidelogError, match="symbolic link"):
        adopt(LOCAL, plan_adoption(LOCAL, [str(source)], [str(root)], topic="golden-none", rename="new"))
    assert state(outside) == before
