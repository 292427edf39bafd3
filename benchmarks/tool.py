"""The command line tool: how long it takes to say what it can do, which is what every command starts with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.report import Row

__all__ = ["rows"]

STARTUP_BAR_S = 0.3


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    row = "tool/startup"
    if not bench.selected(row):
        return
    command = [str(Path(sys.executable).with_name("tidelog")), "--help"]
    seconds = bench.best_elapsed(
        lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    )
    yield Row.against_a_bar(row, "s", seconds, STARTUP_BAR_S, lower_is_better=True)
