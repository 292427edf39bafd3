"""Power cuts at any step of random lives of a store (`life`); `checking` has what must be true then."""

from __future__ import annotations

import random

import pytest

from tests.durability.checking import check, cut, open_after
from tests.durability.life import live
from tests.durability.stores import read_all


@pytest.mark.parametrize("seed", range(10))
def test_a_store_survives_power_cuts(seed: int) -> None:
    cut(seed, 30, actions=50)


def test_a_store_survives_two_power_cuts_in_a_row() -> None:
    life = live(3)
    dice = random.Random(1)
    for number in range(12):
        step = dice.randint(life.opened, life.fs.steps)
        first = life.fs.crash(step, seed=number)
        check(life, step, first)  # recovers, appends a record to each partition and closes: steps of its own
        store = open_after(first.crash(dice.randint(0, first.steps), seed=number))
        assert not store.offline_partitions
        for partition in store.partitions:
            found = {at: one for at, one in read_all(partition).items() if one.value != b"after"}
            name = partition.topic_id, partition.topic_partition.partition
            life.histories[name].check(found, step, str(partition.topic_partition))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 175))
def test_a_store_survives_twelve_thousand_power_cuts(seed: int) -> None:
    cut(seed, 160)
