"""How long a newcomer waits: from `git clone` to the end of `make demo`, and to the end of a second one.

The clone is of this tree as it was last committed, in a temporary directory. Packages are fetched anew
(`PIP_NO_CACHE_DIR`), kernels compiled anew. Measured by the clock: let the machine have nothing else to do.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.report import Row

__all__ = ["rows"]

FIRST_BAR_S = 150.0
AGAIN_BAR_S = 45.0

_ROOT = Path(__file__).resolve().parents[1]


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    if not (bench.selected("setup/first-demo") or bench.selected("setup/second-demo")):
        return
    clone = bench.scratch / "clone"
    begin = time.perf_counter()
    _run(["git", "clone", "-q", "--no-hardlinks", str(_ROOT), str(clone)], bench.scratch)
    _demo(clone)
    first = time.perf_counter() - begin
    yield Row.against_a_bar("setup/first-demo", "s", first, FIRST_BAR_S, lower_is_better=True)
    begin = time.perf_counter()
    _demo(clone)
    again = time.perf_counter() - begin
    yield Row.against_a_bar("setup/second-demo", "s", again, AGAIN_BAR_S, lower_is_better=True)


def _demo(clone: Path) -> None:
    said = _run(["make", "demo"], clone)
    if "Traceback" in said:
        raise RuntimeError(f"make demo ends with a traceback:\n{said[-2000:]}")


def _run(command: list[str], where: Path) -> str:
    """What a command that has to end well says."""
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        command,
        cwd=where,
        env=env | {"PIP_NO_CACHE_DIR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    return done.stdout
