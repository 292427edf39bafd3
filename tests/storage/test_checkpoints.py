"""Checkpoint files: Kafka's are read and rewritten to the byte, broken ones refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN
from tidelog.errors import InvalidIndexError
from tidelog.storage import (
    LOCAL,
    EpochEntry,
    read_epoch_checkpoint,
    read_offset_checkpoint,
    write_epoch_checkpoint,
    write_offset_checkpoint,
)
from tidelog.storage.checkpoints import format_epochs, format_offsets, parse_epochs, parse_offsets
from tidelog.types import TopicPartition

OFFSET_FILES = sorted((GOLDEN / "clean").glob("*-offset-checkpoint"))
EPOCH_FILES = sorted(GOLDEN.glob("*/*/leader-epoch-checkpoint"))

TOPIC_PARTITIONS = st.builds(
    TopicPartition, st.text("abc019._-", min_size=1, max_size=12), st.integers(0, 2**31 - 1)
)
OFFSETS = st.integers(0, 2**63 - 1)


def test_there_are_golden_files() -> None:
    assert len(OFFSET_FILES) == 4
    assert len(EPOCH_FILES) > 5


@pytest.mark.parametrize("path", OFFSET_FILES, ids=lambda path: path.name)
def test_golden_offset_checkpoints(path: Path) -> None:
    offsets = read_offset_checkpoint(LOCAL, path)
    assert offsets
    assert format_offsets(offsets) == path.read_bytes()


def test_a_golden_offset_checkpoint_in_words() -> None:
    found = read_offset_checkpoint(LOCAL, GOLDEN / "clean" / "log-start-offset-checkpoint")
    assert found == {TopicPartition("golden-trimmed", 0): 333}


@pytest.mark.parametrize("path", EPOCH_FILES, ids=lambda path: path.parent.name)
def test_golden_epoch_checkpoints(path: Path) -> None:
    entries = read_epoch_checkpoint(LOCAL, path)
    assert format_epochs(entries) == path.read_bytes()
    assert [entry.epoch for entry in entries] == sorted({entry.epoch for entry in entries})


def test_a_golden_epoch_checkpoint_in_words() -> None:
    entries = read_epoch_checkpoint(LOCAL, GOLDEN / "clean" / "golden-none-0" / "leader-epoch-checkpoint")
    assert entries == [EpochEntry(0, 0), EpochEntry(2, 1500), EpochEntry(4, 1560)]


@given(st.dictionaries(TOPIC_PARTITIONS, OFFSETS, max_size=20))
def test_offsets_round_trip(offsets: dict[TopicPartition, int]) -> None:
    assert parse_offsets(format_offsets(offsets), "f") == offsets


@given(st.lists(st.builds(EpochEntry, st.integers(0, 2**31 - 1), OFFSETS), max_size=20))
def test_epochs_round_trip(entries: list[EpochEntry]) -> None:
    assert parse_epochs(format_epochs(entries), "f") == entries


def test_write_and_read(tmp_path: Path) -> None:
    offsets = {TopicPartition("t", 3): 7}
    write_offset_checkpoint(LOCAL, tmp_path / "o", offsets)
    assert (tmp_path / "o").read_bytes() == b"0\n1\nt 3 7\n"
    assert read_offset_checkpoint(LOCAL, tmp_path / "o") == offsets
    write_epoch_checkpoint(LOCAL, tmp_path / "e", [EpochEntry(1, 2)])
    assert (tmp_path / "e").read_bytes() == b"0\n1\n1 2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "o"], "no .tmp is left"


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0\n", b"0\r\n0\r\n"])
def test_empty_checkpoints(data: bytes) -> None:
    assert parse_offsets(data, "f") == {}
    assert parse_epochs(data, "f") == []


def test_no_file_is_an_empty_checkpoint(tmp_path: Path) -> None:
    assert read_offset_checkpoint(LOCAL, tmp_path / "none") == {}
    assert read_epoch_checkpoint(LOCAL, tmp_path / "none") == []


def test_white_space_and_repeats_are_taken_as_kafka_takes_them() -> None:
    assert parse_offsets(b"0\n2\nt\t 0   5 \r\nt 0 +6", "f") == {TopicPartition("t", 0): 6}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n0\n", "dir/f, line 1: version 1, but only 0 is known"),
        (b"x\n0\n", "dir/f, line 1: 'x' is not a number"),
        (b"\n0\n", "dir/f, line 1: '' is not a number"),
        (b"0\nmany\n", "dir/f, line 2: 'many' is not a number"),
        (b"0\n2\nt 0 5\n", "dir/f, line 2: announces 2 entries, but 1 follow"),
        (b"0\n0\nt 0 5\n", "dir/f, line 2: announces 0 entries, but 1 follow"),
        (b"0\n1\nt 0\n", "dir/f, line 3: not '<topic> <partition> <offset>'"),
        (b"0\n2\nt 0 5\nt 0 5 6\n", "dir/f, line 4: not '<topic>"),
        (b"0\n1\n t 0 5\n", "dir/f, line 3: not '<topic>"),
        (b"0\n1\nt 0 5\n\n", "dir/f, line 4: not '<topic>"),
        (b"0\n1\nt 2147483648 5\n", "dir/f, line 3: '2147483648' is not a number from 0 to 2147483647"),
        (b"0\n1\nt 0 9223372036854775808\n", "dir/f, line 3: '9223372036854775808' is not a number"),
        (b"0\n1\nt 0 -5\n", "dir/f, line 3: '-5' is not a number"),
        (b"0\n1\nt 0 0x5\n", "dir/f, line 3: '0x5' is not a number"),
        (b"0\n1\nt 0 \xd9\xa5\n", "dir/f, line 3: '٥' is not a number"),
        (b"0\n1\nt 0 1" + b"0" * 5000, "dir/f, line 3: '1000"),
        (b"0\n1\n\xff 0 5\n", "dir/f is not UTF-8 text \\(position 4\\)"),
    ],
)
def test_broken_offset_checkpoints(data: bytes, message: str) -> None:
    with pytest.raises(InvalidIndexError, match=f"^{message}"):
        parse_offsets(data, "dir/f")


@pytest.mark.parametrize("data", [b"0\n1\n5\n", b"0\n1\n5 6 7\n", b"0\n1\n2147483648 7\n", b"0\n1\n-1 7\n"])
def test_broken_epoch_checkpoints(data: bytes) -> None:
    with pytest.raises(InvalidIndexError, match="f, line 3"):
        parse_epochs(data, "f")


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    for parse in (parse_offsets, parse_epochs):
        try:
            parse(data, "f")
        except InvalidIndexError:
            pass
