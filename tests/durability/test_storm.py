"""Sixteen threads on one store (`storm`), against a model; then verified, and opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.storm import Storm


def rage(root: Path, seconds: float, seed: int) -> None:
    storm = Storm(root, seed)
    try:
        storm.rage(seconds)
        storm.check()
    finally:
        storm.stop.set()
        print(f"{seconds:g} s of storm: {dict(storm.done)}, {storm.heard} events heard")


def test_a_short_storm(tmp_path: Path) -> None:
    rage(tmp_path, 2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_twenty_seconds_of_storm(tmp_path: Path) -> None:
    rage(tmp_path, 20, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_ten_minutes_of_storm(tmp_path: Path) -> None:
    rage(tmp_path, 600, seed=3)
