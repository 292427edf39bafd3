"""Logs that change while they are read, and offsets that no checksum covers: never a wrong record."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.errors import CorruptRecordError, DataLossError
from tidelog.records import Record, scan_batches
from tidelog.records.batches import BatchTable, first_disorder
from tidelog.records.schema import Projection
from tidelog.scanning import plan_scan, run_task
from tidelog.scanning.losses import Loss
from tidelog.scanning.salvage import salvage_task
from tidelog.scanning.tasks import open_view
from tidelog.storage.lock import RootLock
from tidelog.testing.builders import LogBuilder

_READER = """
import sys, tidelog
from tidelog.errors import DataLossError
batches = tidelog.scan(sys.argv[1], columns=["offset", "value"], max_rows=100, threads=int(sys.argv[2]))
rows = batches.read_next_batch().to_pylist()
print("begun", flush=True)
sys.stdin.readline()
try:
    rows += [row for batch in batches for row in batch.to_pylist()]
    print("end", end=" ")
except DataLossError:
    print("again", end=" ")
assert all(row["value"].startswith(b"%d." % row["offset"]) for row in rows), "a wrong record"
assert [row["offset"] for row in rows] == list(range(len(rows)))
print(len(rows))
"""


def make_log(path: Path, count: int = 1200) -> Path:
    """A segment of 10 kB a record: by default several windows."""
    with LogBuilder(path) as builder:
        for n in range(0, count, 20):
            builder.append([Record(b"%d." % i + b"x" * 10_000) for i in range(n, n + 20)])
    return path / f"{0:020}.log"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("left", [0, 1000, 3_000_000, 7_654_321])
def test_a_reader_outlives_a_truncation_by_another_process(tmp_path: Path, left: int, threads: int) -> None:
    log = make_log(tmp_path / "t-0", 4000)  # more than threads read ahead
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, str(log.parent), str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "begun\n"
    os.truncate(log, left)
    answer, _ = reader.communicate("go\n", timeout=60)
    assert reader.returncode == 0
    assert answer.split()[0] == "again"


@pytest.mark.parametrize("is_held", [True, False])
def test_a_batch_that_is_just_being_written_is_no_damage(tmp_path: Path, is_held: bool) -> None:
    """Its writer waits for a processor in the middle of a write, longer than it takes to look twice."""
    log = make_log(tmp_path / "t-0", 40)
    whole = log.read_bytes()
    log.write_bytes(whole[:5000] + bytes(len(whole) - 5000))
    (task,) = plan_scan(tmp_path, "t")
    held = RootLock(tmp_path) if is_held else None
    writer = threading.Timer(0.15, log.write_bytes, [whole])
    try:
        writer.start()
        with pytest.raises(DataLossError if is_held else CorruptRecordError):
            list(run_task(task, Projection(("offset", "value"))))
    finally:
        writer.join()
        if held is not None:
            held.release()
    assert sum(batch.num_rows for batch in run_task(task, Projection(("offset", "value")))) == 40


def told(batches: pa.RecordBatchReader, error: type[Exception]) -> list[dict[str, Any]]:
    """The rows that come before an error."""
    rows = []
    try:
        for batch in batches:
            rows += batch.to_pylist()
    except error:
        return rows
    pytest.fail(f"there was no {error.__name__}")


def rewrite(log: Path, keep: int, value: bytes, table: BatchTable | None = None) -> None:
    """Cut a log after `keep` batches and write others there, as a new leader would."""
    table = scan_batches(log.read_bytes()).table if table is None else table
    os.truncate(log, int(table.position[keep]))
    rest = log.parent.with_name("rest-0")
    with LogBuilder(rest) as builder:
        builder.gap(int(table.base_offset[keep]))
        for n in range(int(table.base_offset[keep]), int(table.last_offset[-1]) + 1, 7):
            builder.append([Record(b"%d." % i + value) for i in range(n, n + 7)])
    with log.open("ab") as file:
        file.write((rest / f"{0:020}.log").read_bytes())


@pytest.mark.parametrize("split_bytes", [1 << 30, 2_000_000])
@pytest.mark.parametrize("begun", [False, True])
def test_a_log_that_is_written_anew_is_told_not_mixed(tmp_path: Path, split_bytes: int, begun: bool) -> None:
    log = make_log(tmp_path / "t-0")
    batches = tidelog.scan(log.parent, columns=["offset", "value"], split_bytes=split_bytes, max_rows=100)
    rows = batches.read_next_batch().to_pylist() if begun else []
    rewrite(log, 5, b"anew" * 500)
    rows += told(batches, DataLossError)
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert all(row["value"].startswith(b"%d." % row["offset"]) for row in rows)
    again = tidelog.scan(log.parent, columns=["offset"]).read_all().column(0).to_pylist()
    assert again == list(range(again[-1] + 1))


def test_damage_in_a_log_that_was_just_written_is_damage(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t-0", 200)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        tidelog.scan(log.parent).read_all()


@pytest.mark.parametrize("also_hurt", [False, True])
def test_a_wrong_offset_in_a_log_that_was_just_written_is_damage(tmp_path: Path, also_hurt: bool) -> None:
    """Its batch is sound; whether it fits is for the next one to tell, which may be damaged, too."""
    log = make_log(tmp_path / "t-0", 10)
    data = bytearray(log.read_bytes())
    table = scan_batches(bytes(data)).table
    data[4] ^= 0x40
    if also_hurt:
        data[int(table.position[1]) + 70] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        tidelog.scan(log.parent).read_all()
    read = tidelog.scan(log.parent, corrupt="skip", on_loss=lambda loss: None).read_all()
    assert read["offset"].to_pylist()[-1] == int(table.last_offset[-1])


@pytest.mark.parametrize("change", ["cut", "cut in a batch", "written anew"])
@pytest.mark.parametrize("hurt", [None, 0, 10])
def test_damage_is_skipped_and_changes_are_told(tmp_path: Path, hurt: int | None, change: str) -> None:
    log = make_log(tmp_path / "t-0")
    table = scan_batches(log.read_bytes()).table
    if hurt is not None:
        data = bytearray(log.read_bytes())
        data[int(table.position[hurt]) + 5000] ^= 1
        log.write_bytes(data)
    losses: list[Loss] = []
    columns = ["offset", "value"]
    batches = tidelog.scan(
        log.parent, columns=columns, max_rows=20, threads=1, corrupt="skip", on_loss=losses.append
    )
    rows = batches.read_next_batch().to_pylist()
    if change == "written anew":
        rewrite(log, 25, b"anew" * 500, table)
    else:
        os.truncate(log, int(table.position[30]) + (0 if change == "cut" else 1000))
    rows += told(batches, DataLossError)
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    assert all(row["value"].startswith(b"%d." % row["offset"]) for row in rows)
    hurt_offsets = [] if hurt is None else [hurt * 20]
    assert [loss.first_offset for loss in losses] == hurt_offsets[: len(losses)]


def test_segments_that_became_one_are_not_lost(tmp_path: Path) -> None:
    path = LogBuilder(tmp_path / "t-0").records(200).roll().records(200).roll().records(10).close()
    tasks = plan_scan(path)
    logs = sorted(path.glob("*.log"))
    assert len(logs) > 2
    data = logs[0].read_bytes()
    table = scan_batches(data).table
    logs[0].write_bytes(data[: int(table.position[len(table) // 2])] + logs[1].read_bytes())
    logs[1].unlink()
    losses: list[Loss] = []
    with pytest.raises(DataLossError, match="plan it anew"):
        for _ in salvage_task(tasks[0], Projection(("offset",)), losses.append):
            pass
    assert losses == []


def test_segments_that_were_joined_are_no_damage(tmp_path: Path) -> None:
    """Cleaning has left the later one's records only, in a file of the earlier one's name."""
    path = LogBuilder(tmp_path / "t-0").records(200).roll().records(200).roll().records(10).close()
    tasks = plan_scan(path)
    logs = sorted(path.glob("*.log"))
    logs[1].replace(logs[0])
    with pytest.raises(DataLossError, match="plan it anew"):
        list(run_task(tasks[0], Projection(("offset",))))


def test_a_segment_that_was_cut_and_then_joined_with_the_next_is_no_damage(tmp_path: Path) -> None:
    """Who reads the file as it was cut finds later offsets than were planned when it looks again."""
    path = LogBuilder(tmp_path / "t-0").records(200).roll().records(200).roll().records(10).close()
    tasks = plan_scan(path)
    logs = sorted(path.glob("*.log"))
    os.truncate(logs[0], logs[0].stat().st_size - 5)
    view = open_view(tasks[0])
    logs[1].replace(logs[0])
    with pytest.raises(DataLossError, match="plan it anew"):
        list(run_task(tasks[0], Projection(("offset",)), view=view))


@pytest.mark.parametrize("batch", [-1, -2, 7])
@pytest.mark.parametrize("bit", [0, 2, 3, 5, 6, 8, 9, 40, 63])
def test_a_flipped_bit_in_a_base_offset_is_found(tmp_path: Path, batch: int, bit: int) -> None:
    path = LogBuilder(tmp_path / "t-0").records(600).close()
    log = sorted(path.glob("*.log"))[-1]
    data = bytearray(log.read_bytes())
    table = scan_batches(data).table
    at, base = int(table.position[batch]), int(table.base_offset[batch])
    wrong = base ^ (1 << bit)
    if wrong > base and batch == -1:
        pytest.skip("nothing comes after it: it looks like a gap that compaction left")
    data[at : at + 8] = wrong.to_bytes(8, "big")
    log.write_bytes(data)
    seen = [row["offset"] for row in told(tidelog.scan(path, columns=["offset"]), CorruptRecordError)]
    sound = int(table.base_offset[batch])
    assert seen[:sound] == list(range(sound)), "what is sound comes first"
    assert len(seen) <= sound + 10


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [0, 3, -1])
@pytest.mark.parametrize("field", [8, 16])  # length, magic
def test_what_is_sound_comes_before_structural_damage(
    tmp_path: Path, isolation: str, threads: int, batch: int, field: int
) -> None:
    path = LogBuilder(tmp_path / "t-0").records(200).close()
    log = sorted(path.glob("*.log"))[-1]
    data = bytearray(log.read_bytes())
    table = scan_batches(data).table
    data[int(table.position[batch]) + field] ^= 0xFF
    log.write_bytes(data)
    batches = tidelog.scan(path, columns=["offset"], isolation=isolation, threads=threads)
    assert [row["offset"] for row in told(batches, CorruptRecordError)] == list(
        range(int(table.base_offset[batch]))
    )


def test_defaults_are_those_of_a_consumer(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "t-0").records(5).transaction(7, records=3, commit=False).close()
    LogBuilder(tmp_path / "__consumer_offsets-0").records(4).close()
    LogBuilder(tmp_path / "__cluster_metadata-0").records(4).close()

    def offsets(*args: object, **options: object) -> list[tuple[str, int]]:
        found = tidelog.scan(*args, columns=["topic", "offset"], **options)
        return [(row["topic"], row["offset"]) for row in found.read_all().to_pylist()]

    data = [("t", n) for n in range(8)]
    assert offsets(tmp_path) == data
    assert offsets(tmp_path, control_records=True) == [*data, ("t", 8)]
    assert offsets(tmp_path, isolation="read_committed") == data[:5]
    internal = [("__consumer_offsets", n) for n in range(4)]
    assert offsets(tmp_path, "__consumer_offsets") == internal
    assert offsets(tmp_path / "__consumer_offsets-0") == internal
    assert sorted(offsets(tmp_path, ["t", "__consumer_offsets"])) == sorted(data + internal)


def test_a_task_of_a_log_that_was_compacted_since(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t-0", 400)
    tasks = plan_scan(log.parent, split_bytes=500_000)
    assert len(tasks) > 3
    smaller = log.parent.with_name("new-0")
    with LogBuilder(smaller) as builder:
        for n in range(0, 400, 40):
            builder.append([Record(b"%d." % n + b"y" * 9_000)]).gap(39)
    (smaller / log.name).replace(log)
    for task in tasks[1:]:
        with pytest.raises(DataLossError):
            list(run_task(task, Projection(("offset",))))


def test_order_of_offsets() -> None:
    def table(*offsets: tuple[int, int], magic: int = 2) -> BatchTable:
        rows = np.zeros((len(offsets), 16), np.int64)
        rows[:, 2:4] = np.reshape(offsets, (-1, 2))
        rows[:, 5] = magic
        return BatchTable(rows)

    assert first_disorder(table(), 0) is None
    assert first_disorder(table((0, 4), (5, 5), (9, 12)), 0) is None
    assert first_disorder(table((0, 4)), 1) == 0
    assert first_disorder(table((0, 4), (4, 5)), 0) == 1
    assert first_disorder(table((0, 4), (8, 7)), 0) == 1
    assert first_disorder(table((0, 4), (90, 94), (10, 14)), 0) == 1
    assert first_disorder(table((0, 4), (5, 9), (3, 7)), 0) == 2
    assert first_disorder(table((0, 4), (5, 9)), 0, 9) == 1
    assert first_disorder(table((9, 9), (12, 12), magic=1), 3) is None
