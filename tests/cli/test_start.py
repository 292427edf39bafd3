"""Help, version, and how fast they come."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import tidelog
import tidelog.cli.commands
from tests.cli.command import COMMAND, run
from tests.golden import GOLDEN
from tidelog.cli.names import COMMANDS, TASKS

HEAVY = ("numpy", "pyarrow", "rich", "pyspark")
LIMIT_S = 0.6
STARTED_S = 1.0
"""Four times what an idle machine takes: threads that share a core count double. The bar itself is in the
benchmarks (`--only tool`)."""


def test_help_names_the_commands() -> None:
    answer = run("--help")
    assert answer.code == 0
    assert "dump" in answer.out
    assert run("-h").out == answer.out
    assert "--print-data-log" in run("dump", "--help").out


def test_no_arguments_get_the_help() -> None:
    answer = run()
    assert answer.code == 2
    assert "Read records:" in answer.out + answer.err


def test_the_help_tells_every_command_in_one_line() -> None:
    modules = {path.stem for path in Path(tidelog.cli.commands.__file__).parent.glob("[a-z]*.py")}
    assert modules == COMMANDS
    lines = run("--help").out.splitlines()
    for words in (words for commands in TASKS.values() for words in commands.items()):
        assert any(line.split(maxsplit=1) == list(words) for line in lines), words


def test_version() -> None:
    assert run("--version").out == f"tidelog {tidelog.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    assert _imported(("--help",), HEAVY) == set()


CODECS = {"lz4", "zstandard", "xxhash"}
ALWAYS = {"pandas", "pyspark", "rich", "fsspec", "pydantic", "fastavro", "asyncio", "multiprocessing"}
"""What no command needs on local files, unless it is asked for Spark, Avro or a terminal's tables."""

WITHOUT = {
    ("ls", "{root}"): ALWAYS | CODECS | {"pyarrow.compute"},
    ("describe", "{log}"): ALWAYS | CODECS | {"pyarrow.compute"},
    ("find", "{log}", "--offset", "5"): ALWAYS | CODECS | {"pyarrow.compute"},
    ("dump", "{log}/00000000000000000000.log"): ALWAYS | CODECS | {"pyarrow.compute"},
    ("dump", "--deep", "{log}/00000000000000000000.log"): ALWAYS | CODECS | {"pyarrow.compute"},
    ("cat", "{log}"): ALWAYS | CODECS,
    ("cat", "--json", "{log}"): ALWAYS | CODECS,
    ("tail", "{log}"): ALWAYS | CODECS,
    ("search", "{log}", "--contains", "after"): ALWAYS | CODECS,
    ("verify", "{log}"): ALWAYS | CODECS | {"pyarrow.compute", "tidelog.manager.store.store"},
    ("config", "--list"): ALWAYS | CODECS | {"pyarrow.compute", "tidelog.manager.store.store"},
    ("config", "{root}"): ALWAYS | CODECS | {"pyarrow.compute", "tidelog.manager.store.store"},
    ("append", "{root}", "--topic", "golden-none", "{file}"): ALWAYS | CODECS,
    ("append", "{new}/made", "--topic", "t", "--create", "1", "{file}"): ALWAYS | CODECS,
    ("trim", "{root}", "--topic", "golden-none", "--partition", "0", "--before", "1"): ALWAYS
    | CODECS
    | {"pyarrow.compute"},
    ("recover", "{root}"): ALWAYS | {"pyarrow.compute"},
    ("retention", "{root}", "--dry-run"): ALWAYS | CODECS | {"pyarrow.compute"},
    ("compact", "{root}", "--dry-run"): ALWAYS | {"pyarrow.compute"},
    ("reindex", "{root}", "--dry-run"): ALWAYS | {"pyarrow.compute"},
    ("copy", "{log}", "{new}/copied-0"): ALWAYS | CODECS | {"pyarrow.compute"},
}


@pytest.mark.parametrize("command", WITHOUT, ids=" ".join)
def test_commands_import_what_they_need(command: tuple[str, ...], tmp_path: Path) -> None:
    """Each of these takes as long to import as a small partition takes to read, or much longer."""
    root = tmp_path / "root"
    shutil.copytree(GOLDEN / "clean", root)
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    places = {"root": root, "log": root / "golden-none-0", "file": lines, "new": tmp_path}
    asked = tuple(word.format(**places) for word in command)
    assert _imported(asked, WITHOUT[command]) == set()


@pytest.mark.parametrize("command", ["ls", "cat", "find", "dump"])
def test_commands_start_fast(command: str) -> None:
    log = GOLDEN / "clean" / "golden-none-0"
    path = log / "00000000000000000000.log" if command == "dump" else log
    assert _starts_within(STARTED_S, command, str(path))


def test_help_starts_fast() -> None:
    assert _starts_within(LIMIT_S, "--help")


@pytest.mark.parametrize(("command", "code"), [("--version", 0), ("nosuchcommand", 2)])
def test_what_is_left_to_do_is_done_before_the_end(command: str, code: int) -> None:
    program = (
        "import atexit, sys, threading\n"
        "atexit.register(lambda: print('registered'))\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    print('thread')\n"
        "threading.Thread(target=late).start()\n"
        "from tidelog.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, command], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert done.stdout.splitlines()[-2:] == ["thread", "registered"]


def _imported(command: Iterable[str], heavy: Iterable[str]) -> set[str]:
    """Which of `heavy` a command that ends well has imported."""
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print(*[m for m in {list(heavy)} if m in sys.modules], file=sys.stderr))\n"
        "from tidelog.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


def _starts_within(limit_s: float, *command: str) -> bool:
    """Whether it takes so much processor time at most, one time of five."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([COMMAND, *command], stdout=subprocess.DEVNULL, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return any(once() < limit_s for _ in range(5))
