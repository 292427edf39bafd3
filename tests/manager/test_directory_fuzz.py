"""Thousands of mutated directories: an error that says what is wrong, or an answer; never anything else.

Each is opened to be read, scanned, checked, its recovery planned and carried out, then opened to be written,
whole or in the installed command under a limit of memory. No exception but ours and the system's, no hang,
nothing outside of the root is touched.

The directories are in memory where the machine has a file system there: to make and delete a hundred files
takes a disk longer than all the steps.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import COMMAND
from tests.manager.mutated import EXPECTED, Case, make_bases, mutate, snapshot
from tidelog.manager.upkeep.recovery import recover_root
from tidelog.manager.verification import verify_root
from tidelog.storage import LOCAL

CASES = int(os.environ.get("TIDELOG_FUZZ_CASES", "20000"))
COMMANDS = int(os.environ.get("TIDELOG_FUZZ_COMMANDS", "500"))
SEED = int(os.environ.get("TIDELOG_FUZZ_SEED", "0"))
MEMORY = Path("/dev/shm")
_PARTS = 8
_LIMIT_S = 30
_MEMORY_KB = 3_000_000


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_bases(tmp_path_factory.mktemp("bases") / "bases")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory for cases."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tidelog-fuzz-", dir=MEMORY) as made:
        yield Path(made)


@contextmanager
def bounded() -> Iterator[None]:
    """A hang ends the process, and says where it hung."""
    faulthandler.dump_traceback_later(_LIMIT_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def read(root: Path) -> None:
    with tidelog.open(root, mode="r") as store:
        for topic in list(store.topics):
            for partition in store.topic(topic):
                with suppress(*EXPECTED):
                    partition.read_arrow(partition.log_start_offset)


def scan(root: Path) -> None:
    for batch in tidelog.scan(root):
        assert batch.num_rows >= 0


def check(root: Path) -> None:
    for one in verify_root(LOCAL, str(root), deep=True):
        assert one.cause


def plan(root: Path) -> None:
    recover_root(LOCAL, str(root), dry_run=True)


def recover(root: Path) -> None:
    recover_root(LOCAL, str(root))


def use(root: Path) -> None:
    with tidelog.open(root) as store:
        for partition in store.partitions:
            with suppress(*EXPECTED):
                partition.append([tidelog.Record(b"v", b"k")], sync=True)
        for topic in list(store.topics):
            with suppress(*EXPECTED):
                store.delete_topic(topic)


STEPS: tuple[Callable[[Path], None], ...] = (read, scan, check, plan, recover)


def walk(bases: list[Path], at: Path, seed: int, outcomes: Counter[str]) -> None:
    """One case through all steps."""
    case = mutate(bases, at, seed)
    before = snapshot(case.canary)
    try:
        with bounded():
            for step in STEPS if seed % 4 else (*STEPS, use):
                try:
                    step(case.root)
                    outcomes[f"{step.__name__} answered"] += 1
                except EXPECTED:
                    outcomes[f"{step.__name__} refused"] += 1
        assert snapshot(case.canary) == before, "somebody else's files were touched"
    except BaseException as error:
        error.add_note(f"seed {seed}: {case.did}")
        raise
    finally:
        shutil.rmtree(at)


def walk_all(bases: list[Path], scratch: Path, seeds: range) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        walk(bases, scratch / str(seed), seed, outcomes)
    return outcomes


def test_a_few_directories(bases: list[Path], scratch: Path) -> None:
    outcomes = walk_all(bases, scratch, range(SEED, SEED + 25))
    assert outcomes["scan answered"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_directories(bases: list[Path], scratch: Path, part: int) -> None:
    walk_all(bases, scratch, range(SEED + 200 * part, SEED + 200 * (part + 1)))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_very_many_directories(bases: list[Path], scratch: Path, part: int) -> None:
    outcomes = walk_all(bases, scratch, range(SEED + part, SEED + CASES, _PARTS))
    print(sorted(outcomes.items()))


# ---- the installed command

COMMAND_LINES = (
    ("ls",),
    ("verify",),
    ("cat",),
    ("recover", "--dry-run"),
    ("recover",),
    ("reindex", "--dry-run"),
    ("compact", "--dry-run"),
    ("retention", "--dry-run"),
)


def command(case: Case, seed: int) -> None:
    line = COMMAND_LINES[seed % len(COMMAND_LINES)]
    before = snapshot(case.canary)
    limited = f'ulimit -v {_MEMORY_KB}; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", str(COMMAND), *line, str(case.root)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=2 * _LIMIT_S,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    what = f"seed {seed}, {' '.join(line)}, {case.did}: {said[-500:]}"
    assert done.returncode in (0, 1, 2), what
    assert "Traceback" not in said, what
    assert "bug in tidelog" not in said, what
    assert snapshot(case.canary) == before, what


def command_all(bases: list[Path], scratch: Path, seeds: range) -> None:
    for seed in seeds:
        command(mutate(bases, scratch / str(seed), seed), seed)
        shutil.rmtree(scratch / str(seed))


@pytest.mark.slow
def test_directories_through_the_command(bases: list[Path], scratch: Path) -> None:
    command_all(bases, scratch, range(SEED, SEED + 40))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_directories_through_the_command(bases: list[Path], scratch: Path) -> None:
    command_all(bases, scratch, range(SEED, SEED + COMMANDS))
