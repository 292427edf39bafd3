"""The installed `tidelog` command, run as a user runs it: in a pipe, or on a terminal of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.forking import server

__all__ = ["COMMAND", "Answer", "dumped", "number_in", "on_terminal", "run"]

COMMAND = Path(sys.executable).with_name("tidelog")
"""Where the package's installation put it."""

_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.split("\n")[:-1]


def number_in(line: str, name: str) -> int:
    """The number that stands behind `name: ` in a line."""
    found = re.search(rf"(?<!\w){name}: (-?\d+)", line)
    assert found is not None, f"no {name} in {line!r}"
    return int(found[1])


def run(*args: str | Path, said: bytes = b"", **environment: str) -> Answer:
    """Run the command with its output in a pipe; with a changed environment, from the start (`forking`)."""
    if not environment:
        code, out, err = server().run([str(arg) for arg in args], _LIMIT_S, said)
        return Answer(code, out.decode(), err.decode())
    done = subprocess.run(
        [COMMAND, *map(str, args)],
        input=said,
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
        env=os.environ | environment,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_terminal(*args: str | Path, columns: int = 160) -> Answer:
    """Run the command with its output on a terminal; standard error is a pipe."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(
        [COMMAND, *map(str, args)],
        stdin=slave,
        stdout=slave,
        stderr=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns)},
    ) as process:
        os.close(slave)
        out = read_all(master)
        assert process.stderr is not None
        err = process.stderr.read()
        code = process.wait(_LIMIT_S)
    return Answer(code, out.decode().replace("\r\n", "\n"), err.decode())


def read_all(master: int) -> bytes:
    """All that is written to a terminal until nobody holds its other end; closes it."""
    parts = []
    try:
        while part := os.read(master, 1 << 16):
            parts.append(part)
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(master)
    return b"".join(parts)


def dumped(answer: Answer, *files: Path) -> list[dict[str, Any]]:
    """The lines of `dump --json`, without the file that each names: `files`, in their order."""
    rows = [json.loads(line) for line in answer.lines]
    named = [row.pop("file") for row in rows]
    assert list(dict.fromkeys(named)) == [str(file) for file in files]
    return rows
