"""Segments walked in pieces: joined, the pieces are the batches of one walk, and make the same indexes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tests.manager.damage import TornCase, damage, make_torn, torn_cases
from tests.manager.test_verification import DAMAGE
from tidelog.errors import TidelogError
from tidelog.manager.upkeep.reindex_pieces import cut, join, scan_piece
from tidelog.manager.upkeep.reindexing import Reindexed, ReindexTask, plan_reindex, reindex_segment
from tidelog.records import Record, encode_records
from tidelog.records.batches import BatchTable, walk_batches
from tidelog.storage import LOCAL
from tidelog.storage.names import FileKind

CLEAN = GOLDEN / "clean"
PIECE_BYTES = (150, 1500)


def one_walk(task: ReindexTask) -> BatchTable | None:
    """The batches of a sound segment; None for one that is not, or has none."""
    data = Path(task.place.path(FileKind.LOG)).read_bytes()
    try:
        tables = [table.rows for table in walk_batches(data)]
    except TidelogError:
        return None
    return BatchTable(np.concatenate(tables)) if tables else None


def in_pieces(task: ReindexTask, piece_bytes: int) -> BatchTable | None:
    packed = [table for piece in cut(task, piece_bytes) for table in scan_piece(LOCAL, piece)]
    random.Random(piece_bytes).shuffle(packed)
    return join(LOCAL, task, packed)


def plan(path: Path, everything: bool = False) -> list[ReindexTask]:
    settings = {"index.interval.bytes": "512"}
    return plan_reindex(LOCAL, str(path), everything=everything, settings=settings)


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def compare(path: Path, tmp_path: Path, everything: bool = False) -> None:
    """Reindex copies of a partition, in pieces and not: the same answers, the same files."""
    answers: list[list[Reindexed | None]] = []
    files = []
    for piece_bytes in (None, *PIECE_BYTES):
        copy = shutil.copytree(path, tmp_path / str(piece_bytes) / path.name)
        tasks = plan(copy, everything)
        known = [None if piece_bytes is None else in_pieces(task, piece_bytes) for task in tasks]
        done = [reindex_segment(LOCAL, *each) for each in zip(tasks, known, strict=True)]
        answers.append([each and Reindexed("", each.indexes, each.cause, each.error) for each in done])
        files.append(content(copy))
    assert all(each == answers[0] for each in answers)
    assert all(each == files[0] for each in files)


@pytest.mark.parametrize("partition", golden_partitions(), ids=lambda partition: partition.name)
@pytest.mark.parametrize("piece_bytes", PIECE_BYTES)
def test_pieces_join_to_the_batches_of_one_walk(partition: GoldenPartition, piece_bytes: int) -> None:
    for task in plan(partition.directory):
        expected, found = one_walk(task), in_pieces(task, piece_bytes)
        if found is None:
            old = expected is None or (expected.magic < 2).any()
            assert old, "only messages of old formats, which are not found, cannot be joined"
        else:
            assert expected is not None
            assert np.array_equal(found.rows[:, :14], expected.rows[:, :14])


@pytest.mark.parametrize("partition", golden_partitions(), ids=lambda partition: partition.name)
@pytest.mark.parametrize("state", ["sound", "missing", "everything", "cut", "bit", "other"])
def test_indexes_are_those_of_one_walk(partition: GoldenPartition, state: str, tmp_path: Path) -> None:
    path = shutil.copytree(partition.directory, tmp_path / "given" / partition.name)
    dice = random.Random(1)
    for file in sorted(path.glob("*index")):
        data = bytearray(file.read_bytes())
        if state == "missing" or (state == "other" and file.suffix == ".timeindex"):
            file.unlink()
        elif state == "cut":
            file.write_bytes(data[:-5])
        elif state == "bit" and data:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            file.write_bytes(data)
        elif state == "other":
            file.write_bytes(dice.randbytes(800))
    compare(path, tmp_path, everything=state == "everything")


@pytest.mark.parametrize("case", torn_cases(), ids=lambda case: f"{case.name} {case.damage}")
def test_damaged_logs_get_the_same_indexes(case: TornCase, tmp_path: Path) -> None:
    path = make_torn(case, tmp_path / "given")
    for task in plan(path):
        if one_walk(task) is None and task.size:
            assert all(in_pieces(task, piece_bytes) is None for piece_bytes in PIECE_BYTES)
    compare(path, tmp_path, everything=True)


@pytest.mark.parametrize("what", DAMAGE)
def test_every_damage_is_told_in_the_same_words(what: str, tmp_path: Path) -> None:
    path = shutil.copytree(CLEAN / "golden-txn-0", tmp_path / "given" / "golden-txn-0")
    DAMAGE[what][1](path)
    compare(path, tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_changes_nothing_about_it(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    name = dice.choice(["golden-txn-0", "golden-none-0", "golden-outoforder-0", "golden-zstd-0"])
    path = shutil.copytree(CLEAN / name, tmp_path / "given" / name)
    damage(path, 0, dice)
    compare(path, tmp_path, everything=True)


def test_batches_inside_of_records_deceive_nobody(tmp_path: Path) -> None:
    """A value that is a batch itself is found by a piece that begins before it; then nothing joins."""
    path = tmp_path / "given" / "inner-0"
    path.mkdir(parents=True)
    inner = encode_records([Record(b"x" * 50)], base_offset=7)
    batches = [encode_records([Record(bytes(200) + inner * 3)], base_offset=n) for n in range(40)]
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    (task,) = plan(path)
    assert in_pieces(task, 100) is None
    compare(path, tmp_path)
