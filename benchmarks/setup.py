"""How long a newcomer waits: for `git clone` and `make demo`, for a second demo, and for each command.

The clone is of this tree as it was last committed, in a temporary directory. Packages are fetched again
(`PIP_NO_CACHE_DIR`) and the kernels are compiled. The two demos are measured by the clock: run them on an
idle machine. The commands are measured by processor time (user and system), on a small root, with the
bytecode cache that an installed package has.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.report import Row
from tidelog import Record
from tidelog import open as open_store

__all__ = ["rows"]

FIRST_BAR_S = 150.0
AGAIN_BAR_S = 45.0
START_BAR_S = 0.35

COMMANDS: Mapping[str, Sequence[str]] = {
    "help": ("--help",),
    "ls": ("ls", "data"),
    "topics": ("topics", "data"),
    "describe": ("describe", "data/orders-0"),
    "dump": ("dump", "data/orders-0/00000000000000000000.log"),
    "dump-deep": ("dump", "--deep", "data/orders-0/00000000000000000000.log"),
    "cat": ("cat", "data/orders-0"),
    "cat-json": ("cat", "--json", "data/orders-0"),
    "tail": ("tail", "data/orders-0"),
    "find": ("find", "data/orders-0", "--offset", "5"),
    "search": ("search", "data", "--contains", "value"),
    "verify": ("verify", "data"),
    "recover": ("recover", "--dry-run", "data"),
    "reindex": ("reindex", "--dry-run", "data"),
    "retention": ("retention", "--dry-run", "data"),
    "compact": ("compact", "--dry-run", "data"),
    "trim": ("trim", "data/orders-0", "--before", "1"),
    "append": ("append", "data", "--topic", "orders", "lines"),
    "config": ("config", "data", "--topic", "orders"),
    "config-list": ("config", "--list"),
    "tidy": ("tidy", "--dry-run", "data"),
    "export": ("export", "--help"),
    "ingest": ("ingest", "--help"),
    "profile": ("profile", "--help"),
    "pipeline": ("pipeline", "--help"),
}
"""What is measured of each command. Jobs on Spark start a JVM, so only their help is."""

_ROOT = Path(__file__).resolve().parents[1]
_COMMAND = Path(sys.executable).with_name("tidelog")
_REPETITIONS = 10
_NOT_A_NEWCOMERS = (
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
)


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    wanted = {name: words for name, words in COMMANDS.items() if bench.selected(f"setup/start/{name}")}
    if wanted:
        yield from _starts(wanted, bench.scratch / "starts")
    if bench.selected("setup/first-demo") or bench.selected("setup/second-demo"):
        yield from _demos(bench.scratch / "clone")


def _starts(commands: Mapping[str, Sequence[str]], scratch: Path) -> Iterator[Row]:
    scratch.mkdir()
    (scratch / "lines").write_text("one\ntwo\n")
    with open_store(scratch / "data") as store:
        for topic, policy in (("orders", "delete"), ("customers", "compact")):
            made = store.create_topic(topic, config={"retention.ms": -1, "cleanup.policy": policy})
            made[0].append([Record(b"value %d" % n, key=b"key %d" % (n % 5)) for n in range(20)])
    env = _environment() | {"PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}
    for name, words in commands.items():
        seconds = min([_processor_s([str(_COMMAND), *words], scratch, env) for _ in range(_REPETITIONS)])
        yield Row.against_a_bar(f"setup/start/{name}", "s", seconds, START_BAR_S, lower_is_better=True)


def _processor_s(command: Sequence[str], where: Path, env: Mapping[str, str]) -> float:
    """User and system time of a command that has to end well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=where, env=env, stdout=subprocess.DEVNULL, timeout=600, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _demos(clone: Path) -> Iterator[Row]:
    for name, bar_s, command in (
        ("setup/first-demo", FIRST_BAR_S, ["git", "clone", "-q", "--no-hardlinks", str(_ROOT), str(clone)]),
        ("setup/second-demo", AGAIN_BAR_S, ["true"]),
    ):
        begin = time.perf_counter()
        _run(command, clone.parent)
        _demo(clone)
        yield Row.against_a_bar(name, "s", time.perf_counter() - begin, bar_s, lower_is_better=True)


def _demo(clone: Path) -> None:
    said = _run(["make", "demo"], clone)
    if "Traceback" in said:
        raise RuntimeError(f"make demo prints a traceback:\n{said[-2000:]}")


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _NOT_A_NEWCOMERS}


def _run(command: Sequence[str], where: Path) -> str:
    """What a command that has to end well says."""
    done = subprocess.run(
        command,
        cwd=where,
        env=_environment() | {"PIP_NO_CACHE_DIR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    return done.stdout
