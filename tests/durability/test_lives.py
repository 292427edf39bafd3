"""Power cuts at any step of random lives of a store (`life`); `checking` has what must be true then."""

from __future__ import annotations

import pytest

from tests.durability.checking import cut


@pytest.mark.parametrize("seed", range(10))
def test_a_store_survives_power_cuts(seed: int) -> None:
    cut(seed, 30, actions=50)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_store_survives_hundreds_of_power_cuts(seed: int) -> None:
    cut(seed, 40, actions=60)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 175))
def test_a_store_survives_twelve_thousand_power_cuts(seed: int) -> None:
    cut(seed, 160, actions=60)
