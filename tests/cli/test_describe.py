"""`tidelog describe`: its figures against Kafka's answers, its drawing against its figures."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import on_terminal, run
from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tidelog.cli.render.drawing import draw
from tidelog.scanning.partitions import find_partitions
from tidelog.scanning.pictures import look_at

CLEAN = GOLDEN / "clean"
ASKED = [partition for partition in golden_partitions() if partition.lookups_path]
PARTITIONS = pytest.mark.parametrize("partition", ASKED, ids=lambda p: p.name)


def described(*args: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    answer = run("describe", "--json", *args)
    summary, *segments = (json.loads(line) for line in answer.lines)
    return summary, segments


@PARTITIONS
def test_figures_are_those_of_kafka(partition: GoldenPartition) -> None:
    offsets, stable = partition.lookups()[:2]
    picture = look_at(find_partitions(partition.directory)[0], 80, check=True)
    records = partition.records()
    assert picture.facts.log_end_offset == offsets["log_end_offset"]
    assert picture.stable_offset == stable["last_stable_offset"]
    assert sum(one.records for one in picture.segments) == len(records)
    assert picture.records.sum() == pytest.approx(len(records))
    assert picture.records_by_time.sum() in (pytest.approx(len(records)), 0)
    assert not picture.damage
    missing = records[-1]["offset"] + 1 - records[0]["offset"] - len(records)
    assert sum(one.missing_offsets for one in picture.segments) >= missing
    entries = sum(path.stat().st_size // 8 for path in partition.directory.glob("*.index"))
    assert picture.entries.sum() == entries


def test_cleaned_offsets_show_as_gaps() -> None:
    summary, segments = described(CLEAN / "golden-compact-0")
    assert summary["damage"] is None
    assert [one["missing_offsets"] for one in segments] == [2490, 0]
    assert segments[0]["records"] == 390
    text = run("describe", CLEAN / "golden-compact-0").out
    assert "2490 offsets are missing, in 63 gaps" in text


def test_the_drawing_fits_the_terminal_and_shows_what_matters() -> None:
    for columns in (60, 120):
        answer = on_terminal("describe", CLEAN / "golden-txn-0", columns=columns)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", answer.out).split("\n")
        rows = {line.split(" ")[0]: line for line in lines[5:14] if line}
        assert answer.code == 0
        assert max(len(line) for line in lines[5:14]) <= columns
        assert len(rows["offsets"]) == len(rows["segments"]) == columns - 1
        assert "".join(rows["marks"].split()) == "marksSLE"
    assert "last stable 1390, high watermark 1442, end 1442" in answer.out


def test_segments_alternate_where_they_begin() -> None:
    (partition,) = find_partitions(CLEAN / "golden-none-0")
    picture = look_at(partition, 100)
    line = next(line for line in draw(picture) if line.startswith("segments"))[10:]
    changes = [n for n in range(1, len(line)) if line[n] != line[n - 1]]
    assert changes == [picture.offsets.column(one.base_offset) for one in picture.segments[1:]]
    assert len(line) == 100


def test_index_density_follows_the_entries() -> None:
    (partition,) = find_partitions(CLEAN / "golden-none-0")
    picture = look_at(partition, 50, read_logs=False)
    offsets = np.concatenate([partition.offset_index(one).entries_array()[0] for one in partition.segments])
    assert picture.entries.tolist() == np.histogram(offsets, 50, (0, 1560))[0].tolist()
    assert not picture.records.any()


def test_damage_is_drawn_where_it_is(tmp_path: Path) -> None:
    copy = shutil.copytree(CLEAN / "golden-none-0", tmp_path / "golden-none-0")
    log = sorted(copy.glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[100] ^= 1  # in the first batch's records
    log.write_bytes(data)
    assert run("describe", copy).code == 0  # headers alone do not tell
    answer = run("describe", "--deep", copy)
    assert answer.code == 1
    assert f"DAMAGE: {log.name}, position 0: a batch's checksum does not match its bytes" in answer.out
    rows = {line.split(" ")[0]: line for line in answer.lines if not line.startswith(" ")}
    start = int(log.stem) / 1560 * (len(rows["segments"]) - 10)
    assert abs(rows["damage"].index("!") - 10 - start) <= 1
    os.truncate(log, 200)
    summary, segments = described(copy)
    assert "the data ends inside a batch" in summary["damage"]
    assert [one["damage"] is not None for one in segments].index(True) == 1


def test_an_unfinished_write_is_a_note(tmp_path: Path) -> None:
    copy = shutil.copytree(CLEAN / "golden-none-0", tmp_path / "golden-none-0")
    last = sorted(copy.glob("*.log"))[-1]
    os.truncate(last, last.stat().st_size - 5)
    answer = run("describe", copy)
    assert answer.code == 0
    assert "note: an unfinished last write of" in answer.out


def test_a_lone_empty_segment(tmp_path: Path) -> None:
    directory = tmp_path / "empty-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").touch()
    (directory / "00000000000000000000.index").touch()
    answer = run("describe", directory)
    assert answer.code == 0, answer.err
    assert "0 B, 1 segments, 0 batches, 0 records" in answer.out


def test_a_partition_behind_a_url() -> None:
    near, _ = described(CLEAN / "golden-txn-0")
    far, _ = described(f"local://{CLEAN}/golden-txn-0")
    assert {**far, "path": None} == {**near, "path": None}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((CLEAN,), "is not a partition directory"),
        (("nowhere-0",), "does not exist"),
        ((CLEAN / "golden-none-0", "--quick", "--deep"), "choose --quick or --deep"),
    ],
)
def test_bad_requests(args: tuple[str | Path, ...], words: str) -> None:
    answer = run("describe", *args)
    assert answer.code == 2
    assert words in answer.err
