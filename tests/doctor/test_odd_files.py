"""Links, directories and unreadable files where a broker has plain files: a verdict, a safe plan, an undo."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.harming import index, log, make_root, small
from tests.doctor.test_damages import NOW_MS, found_on
from tidelog.doctor.fixing import apply_plan, make_plan, undo_last
from tidelog.storage import LOCAL

NAME = "golden-none-0"


def state(root: Path) -> dict[str, object]:
    """All that is in a root, links as such; the lock's own file stays."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            mode = path.stat().st_mode
            found[name] = (mode, path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
    found.pop(".lock", None)
    return found


def lead(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


ODD: dict[str, Callable[[Path], object]] = {
    "index-that-leads-nowhere": lambda root: lead(index(root), "/nonexistent/x"),
    "index-that-leads-in-circles": lambda root: lead(index(root), index(root).name),
    "epochs-that-lead-nowhere": lambda root: lead(small(root, "leader-epoch-checkpoint"), "/nonexistent/x"),
    "log-that-leads-nowhere": lambda root: lead(log(root), "/nonexistent/x"),
    "metadata-log-that-leads-in-circles": lambda root: lead(
        log(root, "__cluster_metadata-0"), log(root, "__cluster_metadata-0").name
    ),
    "topic-id-is-a-directory": lambda root: directory(small(root, "partition.metadata")),
    "bootstrap-is-a-directory": lambda root: directory(root / "bootstrap.checkpoint"),
    "clean-shutdown-is-a-directory": lambda root: (
        directory(root / ".kafka_cleanshutdown"),
        index(root).unlink(),
    ),
    "clean-shutdown-is-read-only": lambda root: (root / ".kafka_cleanshutdown").chmod(0o400),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_judged_and_given_back(name: str, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", NAME)
    (root / ".lock").touch()
    ODD[name](root)
    before = state(root)
    found_on([str(root)])
    _, done = apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    again = make_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    assert [step for step in again.steps if step.actions] == []
    wrong = [one for one in found_on([str(root)])[0] if one.severity.is_wrong]
    assert not wrong or again.steps
    assert len(undo_last(LOCAL, [str(root)])) == len(done)
    assert state(root) == before


def test_a_partition_behind_a_link_is_loaded_as_a_broker_does(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", NAME)
    shutil.move(root / NAME, tmp_path / "elsewhere")
    (root / NAME).symlink_to(tmp_path / "elsewhere")
    findings, (verdict,) = found_on([str(root)])
    assert verdict.starts, findings


def test_damage_behind_a_link_is_for_people(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", NAME)
    shutil.move(root / NAME, tmp_path / "elsewhere")
    (root / NAME).symlink_to(tmp_path / "elsewhere")
    index(root).unlink()
    plan, done = apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    assert done == []
    assert any("link" in step.title for step in plan.steps)


def test_a_checkpoint_that_is_written_anew_keeps_its_new_permissions(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", NAME)
    path = root / "recovery-point-offset-checkpoint"
    path.write_text("0\n1\ngolden-none 0 999999\n")
    path.chmod(0o400)
    apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert make_plan(LOCAL, [str(root)], now_ms=NOW_MS).steps == []
    undo_last(LOCAL, [str(root)])
    assert path.stat().st_mode & 0o777 == 0o400
