"""What goes wrong: what the command says, where, and its exit code."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from pathlib import Path

import google_crc32c
import pytest

from tests.cli.command import COMMAND, on_terminal, run
from tests.golden import GOLDEN, golden_partition
from tidelog.protocol.control_records import SnapshotFooter
from tidelog.records import Record, encode_kraft_control, encode_records, scan_batches
from tidelog.types import Codec

MISSING = "no-such-file.log"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Six sound batches of 40 records, offsets 0 to 239."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(golden_partition("golden-none-0").logs()[0].read_bytes())
    return path


def positions(log: Path) -> list[int]:
    """Where the batches of a sound log begin."""
    return [int(position) for position in scan_batches(log.read_bytes()).require().position]


def patch(log: Path, position: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with log.open("r+b") as file:
        file.seek(position)
        file.write(data)


def reseal(log: Path, position: int) -> None:
    """Make the checksum of the batch at `position` right again."""
    content = log.read_bytes()
    end = position + 12 + struct.unpack_from(">i", content, position + 8)[0]
    patch(log, position + 17, struct.pack(">I", google_crc32c.value(content[position + 21 : end])))


@pytest.mark.parametrize("option", ["--deep", "--json"])
def test_what_precedes_a_torn_batch_is_shown(log: Path, option: str) -> None:
    third = positions(log)[3]
    os.truncate(log, third + 100)
    answer = run("dump", "--deep", option, log)
    assert answer.code == 1
    assert sum("offset" in line and "baseOffset" not in line for line in answer.lines[0:]) >= 120
    assert answer.err.startswith(
        f"tidelog: the data ends inside a batch: 100 bytes left ({log}, position {third}, offset 120): "
    )
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err


def test_a_wrong_checksum_stops_there_and_shows_the_header(log: Path) -> None:
    third = positions(log)[3]
    patch(log, third + 200, b"\xff")
    answer = run("dump", log)
    assert answer.code == 1
    *sound, damaged = answer.lines[2:]
    assert [line.endswith("isvalid: true") for line in sound] == [True] * 3
    assert damaged.startswith("baseOffset: 120 lastOffset: 159")
    assert damaged.endswith("isvalid: false")
    assert f"checksum does not match its bytes ({log}, position {third}, offset 120)" in answer.err
    assert "copy the file from another replica" in answer.err
    records = run("dump", "--deep", "--json", log)
    assert records.code == 1
    assert [json.loads(line)["offset"] for line in records.lines] == list(range(120))


def test_records_before_a_malformed_one_are_shown(log: Path) -> None:
    """The checksum is right, but a record's length is not: found only in decoding, amid a chunk."""
    third = positions(log)[3]
    patch(log, third + 61, b"\x7f")
    reseal(log, third)
    answer = run("dump", "--deep", "--json", log)
    assert answer.code == 1
    assert [json.loads(line)["offset"] for line in answer.lines] == list(range(120))
    assert f"({log}, position {third}, offset 120)" in answer.err
    text = run("dump", "--deep", log)
    assert text.code == 1
    assert sum(line.startswith("|") for line in text.lines) == 120
    assert sum(line.startswith("baseOffset") for line in text.lines) == 3


def test_a_payload_that_is_no_compressed_data(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(
        encode_records([Record(b"x" * 100, timestamp=1)] * 10, codec=Codec.ZSTD, max_batch_records=5)
    )
    second = positions(path)[1]
    patch(path, second + 61, b"garbage")
    reseal(path, second)
    answer = run("dump", "--deep", "--json", path)
    assert answer.code == 1
    assert [json.loads(line)["offset"] for line in answer.lines] == [0, 1, 2, 3, 4]
    assert f"position {second}, offset 5" in answer.err


def test_a_control_record_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    good = encode_kraft_control(SnapshotFooter(), timestamp=1, leader_epoch=0)
    bad = bytearray(encode_kraft_control(SnapshotFooter(), timestamp=1, leader_epoch=0, base_offset=1))
    bad[-4:-2] = b"\xff\xff"  # the value's version: -1
    path.write_bytes(good + bad)
    reseal(path, len(good))
    answer = run("dump", "--deep", path)
    assert answer.code == 1
    assert answer.lines[3].endswith(' SnapshotFooter {"version":0}')
    assert f"impossible version -1 ({path}, position {len(good)}, offset 1)" in answer.err
    assert run("dump", "--deep", "--json", path).code == 0  # there its bytes are shown as they are


def test_a_letter_is_not_a_log(tmp_path: Path) -> None:
    path = tmp_path / "letter.log"
    path.write_text("Dear log, how have you been? " * 10)
    answer = run("dump", path)
    assert answer.code == 1
    assert "it is not a log file, or its first write was cut short" in answer.err


def test_the_next_file_is_read_after_a_damaged_one(log: Path) -> None:
    sound = golden_partition("golden-zstd-0").logs()[0]
    os.truncate(log, 50)
    answer = run("dump", "--json", log, sound)
    assert answer.code == 1
    assert len(answer.lines) == 6
    assert answer.err.count("tidelog: ") == 1


def test_damage_on_a_terminal_comes_after_the_table(log: Path) -> None:
    third = positions(log)[3]
    os.truncate(log, third + 100)
    answer = on_terminal("dump", log)
    assert answer.code == 1
    assert len(answer.lines) == 2 + 1 + 3
    assert "the data ends inside a batch" in answer.err


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (MISSING, f"{MISSING}: No such file or directory: check the name"),
        (GOLDEN, f"{GOLDEN} is a directory without log files"),
        ("/dev/null", "is not a regular file"),
    ],
    ids=str,
)
def test_what_is_no_file_is_bad_usage(path: str | Path, words: str) -> None:
    sound = golden_partition("golden-zstd-0").logs()[0]
    answer = run("dump", sound, path)
    assert answer.code == 2
    assert answer.out == ""  # told before anything is shown
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_a_file_that_may_not_be_read(log: Path) -> None:
    log.chmod(0)
    if os.access(log, os.R_OK):
        pytest.skip("this user may read everything")
    answer = run("dump", log)
    assert answer.code == 2
    assert answer.err == f"tidelog: {log}: Permission denied: run as the user that Kafka runs as\n"


@pytest.mark.parametrize("args", [("dump",), ("dump", "--no-such-option", "x"), ("no-such-command",)])
def test_bad_options_are_bad_usage(args: tuple[str, ...]) -> None:
    answer = run(*args)
    assert answer.code == 2
    assert answer.out == ""
    assert "Usage: tidelog" in answer.err


@pytest.mark.parametrize("args", [("--debug", "dump"), ("dump", "--debug")])
def test_debug_shows_the_traceback(log: Path, args: tuple[str, ...]) -> None:
    os.truncate(log, 50)
    answer = run(*args, log)
    assert answer.code == 1
    assert "Traceback" in answer.err
    assert "TornBatchError" in answer.err
    missing = run(*args, MISSING)
    assert missing.code == 2
    assert "FileNotFoundError" in missing.err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(golden_partition("golden-none-0").logs()[0].read_bytes() * 50)
    for options in ("--deep", "--json", ""):
        done = subprocess.run(
            f"set -o pipefail; '{COMMAND}' dump {options} '{path}' | head -1",
            shell=True,
            executable="/bin/bash",
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.count(b"\n") == 1
        assert done.stderr == b""
        assert done.returncode == 0


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(golden_partition("golden-none-0").logs()[0].read_bytes() * 50)
    with subprocess.Popen(
        [COMMAND, "dump", "--deep", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)  # it is under way, and its pipe is full
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr.read() == b""
        assert process.wait(60) == 130
