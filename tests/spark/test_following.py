"""`export --follow`: run after run, and how far it is behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.cli.command import COMMAND
from tests.spark.conftest import require_spark
from tests.spark.writer import LogWriter
from tidelog.errors import LogLockedError
from tidelog.spark.exporting.following import behind, follow, log_bytes
from tidelog.spark.exporting.job import source_options
from tidelog.types import TopicPartition

T0, T1 = TopicPartition("events", 0), TopicPartition("events", 1)
PATIENCE_S = 120


def report(partition: int, last: int, records: int) -> dict[str, Any]:
    facts = {"topic": "events", "partition": partition, "last_offset": last, "records": records}
    return facts | {"files": [{}], "bytes_written": 10}


def test_what_a_run_has_not_reached() -> None:
    assert behind({T0: 10}, [], {T0: 10}) == 0
    assert behind({T0: 10}, [], {T0: 12, T1: 3}) == 5, "a new partition counts from its start"
    assert behind({T0: 10}, [report(0, 11, 5)], {T0: 12}) == 0, "it took more than was there before it"
    assert behind({T0: 10}, [], {T0: 4}) == 0, "the log was cut back"


def test_runs_follow_each_other_and_one_that_is_refused_is_tried_again(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    writer.append([b"x"] * 10)
    options = source_options(tmp_path, None, "read_committed", True)
    answers: list[Sequence[Mapping[str, Any]] | Exception] = [[report(0, 9, 10)], LogLockedError("busy")]
    answers.append([report(0, 14, 5)])

    def run() -> Sequence[Mapping[str, Any]]:
        writer.append([b"y"] * 5)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    size, stop = log_bytes([str(tmp_path)]), Event()
    runs = follow(run, options, every_s=600, every_bytes=1, stop=stop)  # due at once
    first, second, third = next(runs), next(runs), next(runs)
    assert (first.records, first.files, first.behind, first.refused) == (10, 1, 5, None)
    assert (second.records, second.refused) == (0, "busy")
    assert second.behind == 10, "from where the last run ended, not from the log's start"
    assert (third.records, third.behind) == (5, 5)
    stop.set()
    assert list(runs) == []
    assert log_bytes([str(tmp_path)]) > size
    assert log_bytes(["s3://bucket/x"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_follows_a_growing_log_until_it_is_interrupted(number: int, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    require_spark()
    writer = LogWriter(tmp_path / "log", "events", 0)
    command = [str(COMMAND), "export", str(tmp_path / "log"), "--to", str(tmp_path / "out")]
    command += ["--format", "delta", "--follow", "--every", "1", "--json", "--spark", "local[1]"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writer.append([b"x"] * 10)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            for end in (10, 20, 30):
                _await_rows(process, tmp_path / "out", end, DeltaTable)
                writer.append([b"x"] * 10)
            _await_rows(process, tmp_path / "out", 40, DeltaTable)
        finally:
            process.send_signal(number)
        told, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    lines = [json.loads(line) for line in told.splitlines()]
    assert sum(line["records"] for line in lines) == 40
    assert all(line["behind"] >= 0 for line in lines)


def _await_rows(process: subprocess.Popen[str], target: Path, count: int, table: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if table.is_deltatable(str(target)) and table(str(target)).to_pyarrow_table().num_rows == count:
            return
        assert process.poll() is None, "the command has ended"
        time.sleep(0.3)
    raise AssertionError(f"{target} did not come to {count} rows")
