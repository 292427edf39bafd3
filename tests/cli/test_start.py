"""Help, version, and how fast they come."""

from __future__ import annotations

import resource
import subprocess
import sys

import tidelog
from tests.cli.command import COMMAND, run

HEAVY = ("numpy", "pyarrow", "rich", "pyspark")
LIMIT_S = 0.3


def test_help_names_the_commands() -> None:
    answer = run("--help")
    assert answer.code == 0
    assert "dump" in answer.out
    assert run("-h").out == answer.out
    assert "--print-data-log" in run("dump", "--help").out


def test_no_arguments_get_the_help() -> None:
    answer = run()
    assert answer.code == 2
    assert "Commands:" in answer.out + answer.err


def test_version() -> None:
    assert run("--version").out == f"tidelog {tidelog.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, tidelog.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_help_starts_fast() -> None:
    """Processor time, the best of five: other processes on the machine do not count."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([COMMAND, "--help"], stdout=subprocess.DEVNULL, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(seconds() for _ in range(5)) < LIMIT_S
