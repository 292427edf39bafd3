"""Listings that are kept from look to look: nothing that happens to a directory is missed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tidelog.scanning.listings import Listings
from tidelog.scanning.partitions import Partition
from tidelog.scanning.volumes import LocalVolume
from tidelog.types import TopicPartition

SURE = 0.06
"""Longer than the tick that a listing waits for."""
DEEDS = ("append", "truncate", "roll", "retain", "replace", "id", "index", "nothing", "recreate", "cut")


def fresh(path: Path) -> Partition:
    return Partition(str(path), TopicPartition("t", 0))


def facts(partition: Partition) -> tuple[object, ...]:
    return (
        partition.topic_id,
        partition.segments,
        dict(partition.file_kinds),
        partition.missing_logs,
        partition.snapshot_offsets,
    )


def write_id(path: Path, letter: str) -> None:
    new = path / "partition.metadata.tmp"
    new.write_text(f"version: 0\ntopic_id: {letter * 21}A")
    new.rename(path / "partition.metadata")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that were listed."""
    asked: list[str] = []
    names = LocalVolume.names

    def counted(volume: LocalVolume) -> list[tuple[str, bool]]:
        asked.append(volume.url)
        return names(volume)

    monkeypatch.setattr(LocalVolume, "names", counted)
    return asked


def test_a_directory_that_stays_is_looked_at_twice_at_most_however_its_last_segment_grows(
    tmp_path: Path, listed: list[str]
) -> None:
    for base in range(20):
        (tmp_path / f"{base:020}.log").write_bytes(b"x" * 100)
    listings = Listings()
    for size in range(100, 150):
        (tmp_path / f"{19:020}.log").write_bytes(b"x" * size)
        partition = fresh(tmp_path)
        listings.look(partition)
        assert partition.segments[-1].size == size
        assert len(partition.segments) == 20
        if size in (100, 101):
            time.sleep(SURE)
    assert len(listed) in (2, 2 * 2)  # a look at a directory lists it twice; one is enough if it took long


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_is_seen(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "t-0"
    root.mkdir()
    listings = Listings()
    recalled = 0
    bases = [0]
    (root / f"{0:020}.log").write_bytes(b"x")

    def happen() -> None:
        nonlocal bases
        last = root / f"{bases[-1]:020}.log"
        what = rng.choice(DEEDS)
        if what == "append":
            with last.open("ab") as file:
                file.write(b"y" * rng.randint(1, 9))
        elif what == "truncate":
            last.write_bytes(b"x" * rng.randint(0, last.stat().st_size))
        elif what == "roll":
            bases.append(bases[-1] + rng.randint(1, 5))
            (root / f"{bases[-1]:020}.log").write_bytes(b"")
        elif what == "retain" and len(bases) > 1:
            (root / f"{bases.pop(0):020}.log").rename(root / f"gone-{rng.random()}")
        elif what == "replace":
            base = rng.choice(bases)
            new = root / f"{base:020}.log.swap"
            new.write_bytes(b"z" * rng.randint(0, 50))
            new.rename(root / f"{base:020}.log")
        elif what == "id":
            write_id(root, rng.choice("abc"))
        elif what == "index":
            (root / f"{rng.choice(bases):020}.{rng.choice(['index', 'timeindex', 'snapshot'])}").touch()
        elif what == "cut" and len(bases) > 2:
            for base in bases[2:]:
                (root / f"{base:020}.log").unlink()
            bases = bases[:2]
            (root / f"{bases[-1]:020}.log").write_bytes(b"c")
        elif what == "recreate":
            root.rename(tmp_path / f"old-{rng.random()}")
            root.mkdir()
            write_id(root, rng.choice("abc"))
            bases = [0]
            (root / f"{0:020}.log").write_bytes(b"n" * rng.randint(0, 3))

    for _ in range(150):
        for _ in range(rng.choice((0, 1, 1, 3))):
            happen()
        partition = fresh(root)
        listings.look(partition)
        recalled += "volume" in vars(partition) and "file_kinds" in vars(partition)
        assert facts(partition) == facts(fresh(root))
        if rng.random() < 0.1:
            time.sleep(SURE)
    assert recalled
