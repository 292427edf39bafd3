"""Mutation tests of durability: a copy of the source tree in which one line is broken, and the tests for it.

    python -m tests.durability.mutating                  all of them; exit code 1 if too many live
    python -m tests.durability.mutating --only 3,17      some of them, by number
    python -m tests.durability.mutating --sample 10 --seed 7

`mutants` has the list. A mutant is dead when the tests meant to notice it fail, or do not end within the
limit. Before any of them counts, the same tests have to pass on the copy as it is.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from tests.durability.mutant import Mutant
from tests.durability.mutants import EQUIVALENT, MUTANTS

__all__ = ["Outcome", "mutated", "run", "sample"]

TREE = Path(__file__).parents[2]
LIMIT_S = 300.0
LEAST_SHARE = 0.95
_FIRST_TIME_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant."""

    number: int
    mutant: Mutant
    dead: bool
    seconds: float
    said: str


def mutated(tree: Path, mutant: Mutant) -> str:
    """The text of a mutant's file; ValueError unless its line is there exactly once."""
    text = (tree / "src/tidelog" / mutant.file).read_text()
    count = text.count(mutant.before)
    if count != 1:
        raise ValueError(f"{mutant.file} has {mutant.before!r} {count} times")
    return text.replace(mutant.before, mutant.after)


def sample(count: int, seed: int) -> list[int]:
    """The numbers of some mutants that should die."""
    return sorted(
        random.Random(seed).sample(
            [n for n, mutant in enumerate(MUTANTS) if mutant.what not in EQUIVALENT], count
        )
    )


def run(
    numbers: Iterable[int],
    *,
    workers: int | None = None,
    limit_s: float = LIMIT_S,
    checked: bool = True,
    tell: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Try mutants, several at a time, each in a copy of the tree of its own; `tell` hears of each.

    With `checked`, the tests are seen to pass without a mutant first.
    """
    chosen = list(numbers)
    count = max(1, min(workers or os.cpu_count() or 1, len(chosen)))
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        trees: Queue[Path] = Queue()
        for number in range(count):
            trees.put(_copied(Path(scratch, str(number))))

        def attempt(number: int) -> Outcome:
            tree = trees.get()
            try:
                outcome = _attempt(tree, number, limit_s)
            finally:
                trees.put(tree)
            tell(outcome)
            return outcome

        def check(test: str) -> str:
            tree = trees.get()
            try:
                done = _pytest(tree, [test], limit_s)
            finally:
                trees.put(tree)
            return (
                "" if done is not None and not done.returncode else f"{test}: {done and done.stdout[-2000:]}"
            )

        with ThreadPoolExecutor(count) as pool:
            tests = sorted({test for number in chosen for test in MUTANTS[number].tests}) if checked else []
            wrong = list(filter(None, pool.map(check, tests)))
            if wrong:
                raise RuntimeError("the tests do not pass without a mutant:\n" + "\n".join(wrong))
            return list(pool.map(attempt, chosen))


def _copied(tree: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.c")
    for name in ("src", "tests"):
        shutil.copytree(TREE / name, tree / name, ignore=ignored)
    shutil.copy2(TREE / "pyproject.toml", tree)
    return tree


def _attempt(tree: Path, number: int, limit_s: float) -> Outcome:
    mutant = MUTANTS[number]
    path = tree / "src/tidelog" / mutant.file
    whole = path.read_text()
    begin = time.monotonic()
    _write(path, mutated(tree, mutant), 2 * number)
    try:
        done = _pytest(tree, mutant.tests, limit_s)
    finally:
        _write(path, whole, 2 * number + 1)
    said = "took too long" if done is None else _last_words(done.stdout)
    return Outcome(number, mutant, done is None or done.returncode == 1, time.monotonic() - begin, said)


def _write(path: Path, text: str, turn: int) -> None:
    """Write a module, with a time of its own: compiled code is known by its source's size and second."""
    path.write_text(text)
    os.utime(path, (_FIRST_TIME_S + turn, _FIRST_TIME_S + turn))


def _pytest(tree: Path, tests: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str] | None:
    """Run tests in a copy of the tree; None where they do not end in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    for name in ("PYTEST_XDIST_WORKER", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    try:
        return subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def _last_words(output: str) -> str:
    told = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR", "E   "))]
    return told[-1][:120] if told else output[-120:].replace("\n", " ")


def _print(one: Outcome) -> None:
    fate = "dead " if one.dead else "equal" if one.mutant.what in EQUIVALENT else "LIVES"
    print(f"{fate} {one.number:3} {one.seconds:5.1f} s  {one.mutant.file}: {one.mutant.what}", flush=True)
    print(f"        {one.said if one.dead else EQUIVALENT.get(one.mutant.what, one.mutant.after.strip())}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants, and tell what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="numbers of mutants, with commas between")
    parser.add_argument("--sample", type=int, help="so many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int)
    asked = parser.parse_args(arguments)
    numbers = list(range(len(MUTANTS)))
    if asked.only:
        numbers = [int(number) for number in asked.only.split(",")]
    elif asked.sample:
        numbers = sample(asked.sample, asked.seed)
    begin = time.monotonic()
    outcomes = run(numbers, workers=asked.workers, tell=_print)
    dead = sum(one.dead for one in outcomes)
    lives = [one for one in outcomes if not one.dead and one.mutant.what not in EQUIVALENT]
    took = time.monotonic() - begin
    print(f"{dead} of {len(outcomes)} mutants died ({dead / len(outcomes):.1%}) in {took:.0f} s")
    return int(bool(lives) or dead < LEAST_SHARE * len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
