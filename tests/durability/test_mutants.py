"""Every mutant of `mutants` still fits its file, and some of them are tried: they die."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.mutants import EQUIVALENT, MUTANTS, SAMPLE
from tests.durability.mutating import LEAST_SHARE, TREE, mutated, run


def test_every_mutant_fits_its_file_once_and_names_tests_that_are_there() -> None:
    for mutant in MUTANTS:
        compile(mutated(TREE, mutant), mutant.file, "exec")
        for test in mutant.tests:
            assert Path(TREE, "tests", test.partition("::")[0]).exists(), test


def test_there_are_enough_and_each_is_another() -> None:
    assert len(MUTANTS) >= 60
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)
    assert EQUIVALENT.keys() <= {mutant.what for mutant in MUTANTS}
    assert len(EQUIVALENT) <= (1 - LEAST_SHARE) * len(MUTANTS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_some_mutants_die() -> None:
    numbers = [number for number, mutant in enumerate(MUTANTS) if mutant.what in SAMPLE]
    assert len(numbers) == len(SAMPLE)
    outcomes = run(numbers, workers=1, checked=False)  # that the tests pass is for `make test` to say
    assert not [(one.number, one.mutant.what) for one in outcomes if not one.dead]
