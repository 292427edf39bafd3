"""Segments checked in pieces: what the pieces call sound, the check of the whole calls sound, and says the
same about it; whatever damage there is, some piece or seam notices.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tests.manager.damage import TornCase, damage, make_torn, torn_cases
from tests.manager.test_verification import DAMAGE
from tidelog.manager.verification.partition import SegmentSummary, list_partition
from tidelog.manager.verification.pieces import plan_pieces, stitch, verify_piece
from tidelog.manager.verification.segment import SegmentPlace, verify_segment
from tidelog.storage import LOCAL

CLEAN = GOLDEN / "clean"
PIECE_BYTES = 2000


def in_pieces(place: SegmentPlace) -> SegmentSummary | None:
    pieces = plan_pieces(LOCAL, place, PIECE_BYTES)
    assert [pieces[0].start, *(piece.end for piece in pieces)] == [
        *(piece.start for piece in pieces),
        place.size,
    ]
    return stitch(place, [verify_piece(LOCAL, piece) for piece in pieces])


def compare(path: Path) -> tuple[int, int]:
    """How many segments were found sound in pieces, and how many were not."""
    sound = unsound = 0
    for place in list_partition(LOCAL, str(path)).segments:
        if place.size < 2 * PIECE_BYTES:
            continue
        whole = SegmentSummary.of(verify_segment(LOCAL, place))
        found = in_pieces(place)
        if found is None:
            unsound += 1
        else:
            sound += 1
            assert (found.size, found.next_offset, dict(found.epochs), list(found.findings)) == (
                whole.size,
                whole.next_offset,
                dict(whole.epochs),
                [],
            )
            assert list(whole.findings) == []
    return sound, unsound


@pytest.mark.parametrize("partition", golden_partitions(), ids=lambda partition: partition.name)
def test_sound_segments_are_sound_in_pieces(partition: GoldenPartition) -> None:
    _, unsound = compare(partition.directory)
    assert unsound == 0


def test_large_segments_are_cut() -> None:
    (place, *_) = list_partition(LOCAL, str(CLEAN / "golden-txn-0")).segments
    assert len(plan_pieces(LOCAL, place, PIECE_BYTES)) > 3
    assert len(plan_pieces(LOCAL, place, place.size)) == 1


@pytest.mark.parametrize("case", torn_cases(), ids=lambda case: f"{case.name} {case.damage}")
def test_damage_is_noticed(case: TornCase, tmp_path: Path) -> None:
    path = make_torn(case, tmp_path)
    place = next(
        place
        for place in list_partition(LOCAL, str(path)).segments
        if f"{place.base_offset:020}.log" == case.file
    )
    compare(path)
    assert len(plan_pieces(LOCAL, place, PIECE_BYTES)) == 1 or in_pieces(place) is None


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_indexes_are_noticed(what: str, tmp_path: Path) -> None:
    suffix, hurt, _ = DAMAGE[what]
    path = shutil.copytree(CLEAN / "golden-txn-0", tmp_path / "golden-txn-0")
    hurt(path)
    _, unsound = compare(path)
    assert unsound == (1 if suffix.endswith("index") else 0)


@pytest.mark.parametrize("seed", range(60))
def test_no_random_damage_slips_through(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    name = dice.choice(["golden-txn-0", "golden-none-0", "golden-outoforder-0", "golden-zstd-0"])
    path = shutil.copytree(CLEAN / name, tmp_path / name)
    if seed % 2:
        damage(path, 0, dice)
    else:
        file = dice.choice([file for file in path.iterdir() if file.suffix.endswith("index")])
        data = bytearray(file.read_bytes())
        if data:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        file.write_bytes(data)
    compare(path)
