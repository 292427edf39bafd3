"""The output interface: the same table for a machine, a pipe and a terminal; and progress."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, read_all
from tests.golden import golden_partition
from tidelog.cli.render.output import (
    Cell,
    Column,
    JsonOutput,
    Output,
    PlainOutput,
    TerminalOutput,
    make_output,
)

COLUMNS = (
    Column("topic", "Topic"),
    Column("size_bytes", "bytes", right=True),
    Column("ok", "sound", optional=True),
)
ROWS: list[tuple[Cell, ...]] = [
    ("orders", 12, True),
    ("a\tb", None, False),
    ("gr\u00fc\u00df \udc80", 1.5, None),
]


@pytest.fixture
def stdout(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[[], str]:
    """What has gone to standard output."""

    def text() -> str:
        sys.stdout.flush()
        return capsysbinary.readouterr().out.decode()

    return text


def test_json_rows_have_the_names_and_the_values(stdout: Callable[[], str]) -> None:
    out = make_output(json=True)
    out.say("not for machines")
    out.table(COLUMNS, ROWS)
    lines = [json.loads(line) for line in stdout().splitlines()]
    assert lines == [dict(zip(("topic", "size_bytes", "ok"), row, strict=True)) for row in ROWS]


def test_plain_rows_can_be_cut(stdout: Callable[[], str]) -> None:
    out = make_output(json=False)
    out.say("Topics")
    out.table(COLUMNS, ROWS)
    assert stdout().split("\n") == [
        "Topics",
        "topic\tsize_bytes\tok",
        "orders\t12\tyes",
        "a b\t-\tno",
        "gr\u00fc\u00df \\udc80\t1.5\t-",
        "",
    ]


def test_rows_before_an_error_are_shown(stdout: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Iterator[tuple[Cell, ...]]:
        yield ROWS[0]
        raise OSError("the disk is gone")

    monkeypatch.setenv("COLUMNS", "100")
    outputs: list[Output] = [JsonOutput(), PlainOutput(), TerminalOutput()]
    for out in outputs:
        with pytest.raises(OSError, match="gone"):
            out.table(COLUMNS, failing())
    assert stdout().count("orders") == 3


def test_pages_of_a_table_line_up(stdout: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    TerminalOutput().table(COLUMNS, [("x" * 10, n, True) for n in range(1000)])
    lines = stdout().splitlines()
    assert len(lines) == 1001
    assert len({len(line) for line in lines}) == 1


def test_an_empty_table_is_nothing(stdout: Callable[[], str]) -> None:
    TerminalOutput().table(COLUMNS, [])
    JsonOutput().table(COLUMNS, [])
    assert stdout() == ""


def test_long_work_shows_its_progress(tmp_path: Path) -> None:
    """Standard error is a terminal, standard output a pipe whose reader takes its time."""
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(golden_partition("golden-none-0").logs()[0].read_bytes() * 100)
    master, slave = pty.openpty()
    with subprocess.Popen(
        [COMMAND, "dump", "--deep", "--json", log],
        stdout=subprocess.PIPE,
        stderr=slave,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"},
    ) as process:
        os.close(slave)
        assert process.stdout is not None
        process.stdout.read(1)
        time.sleep(0.8)
        lines = process.stdout.read().count(b"\n")
        shown = read_all(master).decode()
        assert process.wait(60) == 0
    assert lines == 24_000
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "dumping" in text
    assert re.search(r"[0-9.]+/[0-9.]+ MB", text)
    assert re.search(r"[0-9]:[0-9]{2}:[0-9]{2}|-:--:--", text)


def test_short_work_shows_none() -> None:
    log = golden_partition("golden-none-0").logs()[0]
    # A busy machine may take long, but not every time.
    assert b"" in (shown_while_dumping(log) for _ in range(5))


def shown_while_dumping(log: Path) -> bytes:
    """What a short dump shows on a terminal for its standard error."""
    master, slave = pty.openpty()
    with subprocess.Popen([COMMAND, "dump", log], stdout=subprocess.DEVNULL, stderr=slave) as process:
        os.close(slave)
        shown = read_all(master)
        assert process.wait(60) == 0
    return shown
