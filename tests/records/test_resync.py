"""The search for the next sound batch, compiled and as plain Python, and in windows of any size."""

from __future__ import annotations

import random

import pytest

from tests.kernels_twin import TWINS, use_twin
from tests.scanning.damage import hurt, make_log
from tidelog.records.resync import Damage, walk_sound
from tidelog.records.windows import is_sound


class Bytes:
    """Bytes that are read like a file."""

    def __init__(self, data: bytes, window_bytes: int) -> None:
        self._data = data
        self.window_bytes = window_bytes
        self.largest = 0

    def read(self, position: int, n: int) -> memoryview:
        self.largest = max(self.largest, n)
        return memoryview(self._data)[position : position + n]


def walked(data: bytes, window_bytes: int, floor: int) -> list[tuple[int, int, bool]]:
    """Sound batches and damage: (start, end, is it damage)."""
    found = []
    for piece in walk_sound(Bytes(data, window_bytes), len(data), floor=floor, limit=1 << 40):
        if isinstance(piece, Damage):
            found.append((piece.start, piece.end, True))
        else:
            table = piece.table
            ends = table.position + table.size
            found += [
                (start, end, False) for start, end in zip(table.position.tolist(), ends.tolist(), strict=True)
            ]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_twins_and_windows_agree(seed: int) -> None:
    dice = random.Random(seed)
    log = hurt(make_log(dice), dice)
    for segment in log.segments:
        data = segment.data.tobytes()
        answers = []
        for which in TWINS:
            with use_twin(which):
                answers.append(walked(data, 1 << 20, segment.base))
        answers += [walked(data, size, segment.base) for size in (64, 200, 1000)]
        assert all(answer == answers[0] for answer in answers)
        position = 0
        for start, end, _ in answers[0]:
            assert start == position < end
            position = end
        assert position == len(data)


def test_every_position_is_tried() -> None:
    log = make_log(random.Random(1))
    batch = log.segments[0].batches[0].data
    for before in range(40):
        data = b"\xff" * before + batch + b"\0" * 70
        expected = [(0, before, True)] if before else []
        end = before + len(batch)
        assert walked(data, 1 << 20, log.segments[0].base) == [
            *expected,
            (before, end, False),
            (end, len(data), True),
        ]


def test_a_large_batch_is_checked_in_pieces() -> None:
    log = make_log(random.Random(1))
    batch = log.segments[0].batches[0].data
    source = Bytes(batch, 64)
    assert is_sound(source, 0, len(batch))
    assert not is_sound(Bytes(batch[:-1] + bytes([batch[-1] ^ 1]), 64), 0, len(batch))
    assert not is_sound(Bytes(batch[:20], 64), 0, len(batch))
