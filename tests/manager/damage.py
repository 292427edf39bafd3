"""Golden directories as a crash left them, and damaged ones; see tests/golden.py for what they are.

golden/unclean.tar.gz   what differs from golden/clean in the same broker's directory after kill -9
golden/torn.tar.gz      for each case, the one file of a golden/clean partition that was damaged
"""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden import GOLDEN

__all__ = ["DATA_CONFIG", "TornCase", "damage", "make_torn", "make_unclean", "torn_cases"]

DATA_CONFIG: Mapping[str, str] = {"segment.index.bytes": "65536", "index.interval.bytes": "512"}
"""What the data topics were written with."""


def make_unclean(target: Path) -> Path:
    """A root as a killed broker left it."""
    shutil.copytree(GOLDEN / "clean", target)
    with tarfile.open(GOLDEN / "unclean.tar.gz") as archive:
        archive.extractall(target.parent / "overlay", filter="data")
    overlay = target.parent / "overlay" / "unclean"
    for name in json.loads((overlay / "missing.json").read_text()):
        (target / name).unlink()
    (overlay / "missing.json").unlink()
    (target / ".kafka_cleanshutdown").unlink(missing_ok=True)
    shutil.copytree(overlay, target, dirs_exist_ok=True)
    return target


@dataclass(frozen=True)
class TornCase:
    """A damaged partition: which one it was, what was done to which file, and how many records survive."""

    name: str
    of: str
    damage: str
    file: str
    recovery_point: int
    records_after: int


def torn_cases() -> list[TornCase]:
    with tarfile.open(GOLDEN / "torn.tar.gz") as archive:
        manifest = archive.extractfile("torn/manifest.json")
        assert manifest is not None
        cases: list[dict[str, Any]] = json.load(manifest)
    return [
        TornCase(
            case["dir"],
            case["of"],
            case["damage"],
            case["file"],
            case["recovery_point"],
            case["records_after"],
        )
        for case in cases
    ]


def make_torn(case: TornCase, target: Path) -> Path:
    """The damaged partition's directory under `target`."""
    directory = shutil.copytree(GOLDEN / "clean" / case.of, target / case.name)
    with tarfile.open(GOLDEN / "torn.tar.gz") as archive:
        damaged = archive.extractfile(f"torn/{case.name}/{case.file}")
        assert damaged is not None
        (directory / case.file).write_bytes(damaged.read())
    return directory


def damage(directory: Path, recovery_point: int, dice: random.Random) -> str:
    """Hurt one log file at or past the recovery point in some way; what was done."""
    files = sorted(directory.glob("*.log"))
    reach = [file for file in files if int(file.stem) >= recovery_point] or files[-1:]
    file = dice.choice(reach)
    data = bytearray(file.read_bytes())
    kind = dice.choice(["cut", "flip", "zeros", "garbage", "hole", "append"])
    at = dice.randrange(len(data)) if data else 0
    match kind:
        case "cut":
            del data[at:]
        case "flip" if data:
            data[at] ^= 1 << dice.randrange(8)
        case "zeros":
            data[at:] = bytes(len(data) - at)
        case "hole":
            data[at : at + 600] = bytes(len(data[at : at + 600]))
        case "garbage":
            data[at:] = dice.randbytes(len(data) - at)
        case _:
            data += dice.choice([bytes(4096), dice.randbytes(1000)])
    file.write_bytes(data)
    return f"{kind} at {at} of {file.name}"
