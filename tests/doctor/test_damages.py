"""Each damage of the library: what doctor says, the fix, a sound root, and the undo, byte for byte."""

from __future__ import annotations

import random
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from tests.doctor.damage import Damage
from tests.doctor.damages import DAMAGES
from tests.doctor.harming import make_root, second
from tests.doctor.test_examining import snapshot
from tidelog.doctor import Finding, RootVerdict, examine
from tidelog.doctor.fixing import apply_plan, empty_quarantine, undo_last
from tidelog.manager.verification import Kind as VerifiedKind
from tidelog.manager.verification import verify_root
from tidelog.storage import LOCAL
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE

NOW_MS = 1_800_000_000_000


def damaged(tmp_path: Path, *damages: Damage) -> list[str]:
    """The disks of a broker with these damages; one that finds nothing to harm any more is left out."""
    partitions = list(dict.fromkeys(one.partition for one in damages))
    root = make_root(tmp_path / "root", *partitions)
    disks = [root]
    if any(one.two_disks for one in damages):
        other = second(root)
        other.mkdir()
        for name in (
            CLEAN_SHUTDOWN_FILE,
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
        ):
            shutil.copy2(root / name, other)
        meta = (root / "meta.properties").read_text()
        lines = [line for line in meta.splitlines() if not line.startswith("directory.id")]
        (other / "meta.properties").write_text("\n".join([*lines, "directory.id=AAAAAAAAAAAAAAAAAAAB_g", ""]))
        shutil.copytree(root.parent / "root" / partitions[0], tmp_path / "spare")
        disks.append(other)
    for one in damages:
        with suppress(*(() if len(damages) == 1 else (OSError, LookupError, ValueError, struct.error))):
            one.make(root)
    if not all(one.clean for one in damages):
        for disk in disks:
            (disk / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    return [str(disk) for disk in disks]


def found_on(disks: list[str]) -> tuple[list[Finding], list[RootVerdict]]:
    verdicts = list(examine(LOCAL, disks, now_ms=NOW_MS))
    findings = [one for verdict in verdicts for one in verdict.findings]
    return findings, [one for one in verdicts if isinstance(one, RootVerdict)]


def without_lock(disk: str) -> dict[str, tuple[int, int, bytes]]:
    """A disk's content; the lock's own file stays when it is let go, and touches the root's time."""
    return {name: one for name, one in snapshot(Path(disk)).items() if name != ".lock"}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_found_mended_and_given_back(damage: Damage, tmp_path: Path) -> None:
    disks = damaged(tmp_path, damage)
    for disk in disks:
        (Path(disk) / ".lock").touch()
    before = [without_lock(disk) for disk in disks]
    findings, roots = found_on(disks)
    said = [(one.kind.value, one.severity.value, one.file, one.cause) for one in findings]
    assert any((one.kind, one.severity) == (damage.kind, damage.severity) for one in findings), said
    assert all(one.starts for one in roots) == damage.starts, said
    assert [without_lock(disk) for disk in disks] == before

    plan, done = apply_plan(LOCAL, disks, now_ms=NOW_MS)
    assert damage.fixed != any(not step.actions for step in plan.steps) or not damage.starts, plan.steps
    if damage.fixed:
        left, roots = found_on(disks)
        assert [one for one in left if one.severity.is_wrong] == [], plan.steps
        assert all(one.starts for one in roots)
        for disk in disks:
            verified = verify_root(LOCAL, disk)
            assert [one for one in verified if one.kind is VerifiedKind.DAMAGE] == []
        again, _ = apply_plan(LOCAL, disks, now_ms=NOW_MS)
        assert [step for step in again.steps if step.actions] == []

    assert len(undo_last(LOCAL, disks)) == len(done)
    assert [without_lock(disk) for disk in disks] == before
    assert undo_last(LOCAL, disks) == []


def check_several(seed: int, tmp_path: Path) -> None:
    """Looking changes nothing, a second fix finds nothing to do, and undo gives all back."""
    dice = random.Random(seed)
    chosen = dice.sample(DAMAGES, dice.choice([2, 2, 3]))
    names = [one.name for one in chosen]
    disks = damaged(tmp_path, *chosen)
    for disk in disks:
        (Path(disk) / ".lock").touch()
    before = [without_lock(disk) for disk in disks]
    found_on(disks)
    assert [without_lock(disk) for disk in disks] == before, names
    plan, _ = apply_plan(LOCAL, disks, now_ms=NOW_MS)
    if all(step.actions for step in plan.steps):
        left, _ = found_on(disks)
        assert [one for one in left if one.severity.is_wrong] == [], names
        again, _ = apply_plan(LOCAL, disks, now_ms=NOW_MS)
        assert [step for step in again.steps if step.actions] == [], names
    while undo_last(LOCAL, disks):
        pass
    assert [without_lock(disk) for disk in disks] == before, names


@pytest.mark.parametrize("seed", [59, 109, 144, 1089])
def test_several_damages_at_once(seed: int, tmp_path: Path) -> None:
    check_several(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2150))
def test_many_damages_at_once(seed: int, tmp_path: Path) -> None:
    check_several(seed, tmp_path)


def test_there_are_many_damages_with_names() -> None:
    assert len({one.name for one in DAMAGES}) == len(DAMAGES) >= 40


def test_an_emptied_quarantine_leaves_the_repair(tmp_path: Path) -> None:
    damage = next(one for one in DAMAGES if one.name == "bit-flipped-in-a-safe-segment")
    disks = damaged(tmp_path, damage)
    apply_plan(LOCAL, disks, now_ms=NOW_MS)
    runs, freed = empty_quarantine(LOCAL, disks)
    assert runs == 1
    assert freed > 0
    assert not [path for path in Path(disks[0]).rglob("*") if "tidelog-" in path.name]
    assert undo_last(LOCAL, disks) == []
    assert not [one for one in found_on(disks)[0] if one.severity.is_wrong]
