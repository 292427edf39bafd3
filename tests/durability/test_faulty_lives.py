"""Power cuts of lives that meet a failing disk: what was acknowledged all the same is there."""

from __future__ import annotations

import pytest

from tests.durability.checking import cut
from tests.durability.life import FAULTS


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("seed", range(3))
def test_a_store_with_a_failing_disk_survives_power_cuts(seed: int, faults: str) -> None:
    cut(seed, 25, actions=50, faults=faults)


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("seed", range(200, 225))
def test_a_store_with_a_failing_disk_survives_eight_thousand_power_cuts(seed: int, faults: str) -> None:
    cut(seed, 107, faults=faults)
