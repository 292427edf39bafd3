"""The benchmark harness: what a ratio means, and that a run ends in JSON lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.harness import best_seconds_on
from benchmarks.log_data import write_segments
from benchmarks.report import Row

from tests.oracle import Oracle
from tidelog.log.log import Log
from tidelog.records.record import Record, encode_records
from tidelog.types import TimestampOffset

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("ours", "theirs", "lower_is_better", "ratio", "verdict"),
    [(40.0, 10.0, False, 4.0, "PASS"), (30.0, 10.0, False, 3.0, "MISS"), (2.0, 10.0, True, 5.0, "PASS")],
)
def test_a_ratio_above_one_means_better(
    ours: float, theirs: float, lower_is_better: bool, ratio: float, verdict: str
) -> None:
    row = Row("group/row", "unit", ours, "peer", theirs, bar=4.0, lower_is_better=lower_is_better)
    assert row.ratio == ratio
    assert row.verdict == verdict
    assert (
        json.loads(row.to_json()).items() >= {"tidelog": ours, "peer_value": theirs, "ratio": ratio}.items()
    )


@pytest.mark.parametrize(
    ("ratio", "limit", "verdict"),
    [(2.0, None, "MISS"), (2.0, 2.5, "LIMIT"), (2.0, 2.8, "MISS"), (2.7, 2.6, "PASS")],
)
def test_a_bar_that_is_measured_to_be_out_of_reach_is_no_miss(
    ratio: float, limit: float | None, verdict: str
) -> None:
    row = Row("group/row", "unit", ratio, "peer", 1.0, bar=2.7, limit=limit)
    assert row.verdict == verdict
    assert json.loads(row.to_json())["limit"] == limit


def test_the_best_repetition_counts_and_the_first_does_not() -> None:
    times = iter([10.0, 13.0, 20.0, 22.0, 30.0, 37.0])
    calls: list[str] = []

    @contextmanager
    def prepared() -> Iterator[str]:
        yield "made"
        calls.append("left")

    def clock() -> float:
        return next(times) if calls else pytest.fail("the first repetition is not timed")

    assert best_seconds_on(prepared, calls.append, 0.0, clock) == 2.0
    assert calls == ["made", "left"] * 4


def test_segments_written_directly_are_a_log_that_was_closed_in_order(tmp_path: Path) -> None:
    records = [Record(b"value %d" % number, timestamp=1000 + number) for number in range(3)]
    directory = tmp_path / "segments-0"
    directory.mkdir()
    assert write_segments(directory, encode_records(records), 5) == 15
    written = {path.name: path.read_bytes() for path in directory.iterdir()}
    with Log.open(directory, clean=True, recovery_point=15) as log:
        assert log.log_end_offset == 15
        assert len(log.segments) == 5
        assert log.read_record(7) is not None
        assert log.offset_for_timestamp(1002) == TimestampOffset(1002, 2)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == written


@pytest.mark.slow
def test_a_run_prints_one_json_line_per_row(oracle: Oracle) -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "records/scan", "--quick", "--json-only"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["bench"] for row in rows] == ["records/scan/none-150", "records/scan/none-1"]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["tidelog"] / row["peer_value"], rel=0.01)
