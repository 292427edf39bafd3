"""Commands that look at files which another process cuts meanwhile: they end, and are never killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidelog
from tidelog.records import Record

_PROGRAM = """
import os, sys
from tidelog.storage.local import LocalFile

left, sys.argv = float(sys.argv[1]), ["tidelog", *sys.argv[2:]]
cut = set()

def cutting(name):
    plain = getattr(LocalFile, name)
    def call(self, *args, **options):
        answer = plain(self, *args, **options)
        if "/copied" not in self.path and self.path.endswith(("log", "index")) and self.path not in cut:
            cut.add(self.path)
            if os.path.exists(self.path):
                os.truncate(self.path, int(os.path.getsize(self.path) * left))
        return answer
    setattr(LocalFile, name, call)

for name in ("map_readonly", "pread", "pread_into"):
    cutting(name)
from tidelog.cli.main import main
main()
"""

COMMANDS = [
    "cat ROOT",
    "cat ROOT --committed",
    "tail ROOT -n 20",
    "search ROOT --contains 77",
    "find ROOT/t-0",
    "find ROOT/t-0 --offset 900",
    "find ROOT/t-0 --timestamp 1700000000900",
    "dump ROOT/t-0",
    "dump --deep ROOT/t-0",
    "dump --deep --json ROOT/t-0",
    "dump ROOT/t-0/00000000000000000000.index",
    "dump ROOT/t-0/00000000000000000000.timeindex",
    "verify ROOT",
    "verify --deep ROOT",
    "ls ROOT",
    "describe ROOT/t-0",
    "copy ROOT/t-0 ROOT/copied-0",
    "retention ROOT --dry-run",
    "compact ROOT --topic t --dry-run",
    "recover ROOT --dry-run",
]


def make_root(path: Path) -> None:
    """Segments of 200 KB, the batches in them smaller than the pages that go."""
    with tidelog.open(path, background=False) as store:
        topic = store.create_topic("t", 1, {"internal.segment.bytes": 200_000, "retention.ms": 1})
        for n in range(0, 1000, 10):
            topic[0].append(
                [Record(b"%d" % i * 300, b"k", timestamp=1_700_000_000_000 + i) for i in range(n, n + 10)]
            )


@pytest.mark.parametrize("left", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_outlives_a_cut(tmp_path: Path, command: str, left: float) -> None:
    make_root(tmp_path)
    words = command.replace("ROOT", str(tmp_path)).split()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(left), *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode >= 0, f"killed by signal {-done.returncode}"
    assert "Traceback" not in done.stderr
    assert "bug in tidelog" not in done.stderr, done.stderr
