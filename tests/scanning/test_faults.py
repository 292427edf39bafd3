"""Missing, damaged and changing input: a clear error, or exactly the sound rest."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidelog
from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tidelog.errors import ChecksumError, CorruptRecordError, DataLossError, InvalidInputError
from tidelog.records.schema import Projection
from tidelog.scanning import plan_scan, run_task
from tidelog.scanning.log_end import log_end_offset
from tidelog.scanning.partitions import find_partitions, list_partitions
from tidelog.scanning.salvage import Loss, salvage_task

NAME = "golden-none-0"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A partition directory to be broken."""
    return Path(shutil.copytree(GOLDEN / "clean" / NAME, tmp_path / NAME))


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def salvage(path: Path, split_bytes: int = 1 << 30) -> tuple[list[int], list[Loss]]:
    losses: list[Loss] = []
    offsets = [
        offset
        for task in plan_scan(path, split_bytes=split_bytes)
        for batch in salvage_task(task, Projection(("offset", "value")), losses.append)
        for offset in batch.column("offset").to_pylist()
    ]
    return offsets, losses


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist"):
        tidelog.scan(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="nothing matches"):
        tidelog.scan(tmp_path / "no*")
    with pytest.raises(InvalidInputError, match="no Kafka partition directory under"):
        tidelog.scan(tmp_path)
    with pytest.raises(InvalidInputError, match="no partition of topic nosuch under"):
        tidelog.scan(GOLDEN / "clean", "nosuch")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="is not a directory"):
        tidelog.scan(tmp_path / "file")
    assert list_partitions(tmp_path) == []


def test_bad_requests() -> None:
    root = GOLDEN / "clean"
    with pytest.raises(InvalidInputError, match="an offset is 0 or more, not -3"):
        tidelog.scan(root, start=-3)
    with pytest.raises(InvalidInputError, match="has no time zone"):
        tidelog.scan(root, start=datetime(2026, 1, 1))
    with pytest.raises(InvalidInputError, match="isolation is read_uncommitted or read_committed"):
        tidelog.scan(root, isolation="serializable")
    with pytest.raises(InvalidInputError, match="unknown column 'colour'"):
        tidelog.scan(root, columns=["colour"])
    with pytest.raises(InvalidInputError, match="threads must be 1 or more"):
        tidelog.scan(root, threads=0)
    with pytest.raises(InvalidInputError, match="split_bytes must be 1 or more"):
        tidelog.scan(root, split_bytes=0)


def test_a_time_past_the_end_reads_nothing() -> None:
    assert not list(tidelog.scan(GOLDEN / "clean", "golden-none", start=datetime(2100, 1, 1, tzinfo=UTC)))


def test_the_same_partition_twice(copy: Path) -> None:
    with pytest.raises(InvalidInputError, match="golden-none-0 is there twice"):
        tidelog.scan([copy, GOLDEN / "clean" / NAME])
    assert len(find_partitions([copy, copy])) == 1


def test_a_flipped_bit_is_told_with_file_and_offset(copy: Path) -> None:
    flip(logs(copy)[2], 300)
    with pytest.raises(ChecksumError) as failure:
        tidelog.scan(copy).read_all()
    assert str(logs(copy)[2]) in str(failure.value)
    assert "offset 480" in str(failure.value)


@pytest.mark.parametrize("split_bytes", [1 << 30, 2000])
def test_salvage_leaves_out_the_batch_whose_checksum_fails(copy: Path, split_bytes: int) -> None:
    records = expected.records(golden_partition(NAME))
    victim = records[700]
    log = next(log for log in reversed(logs(copy)) if int(log.stem) <= victim["offset"])
    flip(log, victim["position"] + 61 + 10)
    offsets, losses = salvage(copy, split_bytes)
    assert offsets == [r["offset"] for r in records if r["base_offset"] != victim["base_offset"]]
    (loss,) = losses
    assert loss.source == str(log)
    assert loss.start_position == victim["position"]
    assert loss.first_offset == victim["base_offset"]
    assert loss.end_offset == min(r["offset"] for r in records if r["base_offset"] > victim["base_offset"])


@pytest.mark.parametrize("split_bytes", [1 << 30, 2000])
def test_salvage_goes_on_at_the_next_sound_batch(copy: Path, split_bytes: int) -> None:
    records = expected.records(golden_partition(NAME))
    victim = records[300]
    log = next(log for log in reversed(logs(copy)) if int(log.stem) <= victim["offset"])
    flip(log, victim["position"] + 8)  # the length
    with pytest.raises(CorruptRecordError, match=str(log)):
        tidelog.scan(copy).read_all()
    offsets, losses = salvage(copy, split_bytes)
    kept = set(offsets)
    lost = [r for r in records if r["offset"] not in kept]
    assert offsets == sorted(kept)
    assert lost == [r for r in records if r["base_offset"] == victim["base_offset"]]
    (loss,) = losses
    assert loss.source == str(log)
    assert (loss.first_offset, loss.end_offset) == (lost[0]["offset"], lost[-1]["offset"] + 1)


def test_salvage_skips_records_that_do_not_decode(copy: Path) -> None:
    from tidelog.records.checksums import crc32c

    log = logs(copy)[0]
    data = bytearray(log.read_bytes())
    size = 12 + int.from_bytes(data[8:12])
    data[61] = 0xFF  # the first record's length, under a checksum that is right
    data[17:21] = crc32c(data[21:size]).to_bytes(4)
    log.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        tidelog.scan(copy).read_all()
    records = expected.records(golden_partition(NAME))
    offsets, losses = salvage(copy)
    assert offsets == [record["offset"] for record in records if record["base_offset"] != 0]
    assert [(loss.start_position, loss.end_position) for loss in losses] == [(0, size)]


def test_a_segment_that_goes_after_planning(copy: Path) -> None:
    tasks = plan_scan(copy)
    logs(copy)[3].unlink()
    with pytest.raises(DataLossError, match=r"00000000000000000720.log has gone since the scan was planned"):
        list(run_task(tasks[3], Projection()))
    losses: list[Loss] = []
    got = [b for task in tasks for b in salvage_task(task, Projection(("offset",)), losses.append)]
    assert sum(batch.num_rows for batch in got) == 1560 - 240
    assert [loss.reason for loss in losses] == ["the file has gone"]


def test_a_log_without_its_file_is_missed(copy: Path) -> None:
    (partition,) = find_partitions(copy)
    assert partition.missing_logs == ()
    logs(copy)[3].unlink()
    (partition,) = find_partitions(copy)
    assert partition.missing_logs == (720,)


def test_retention_is_not_taken_for_loss(copy: Path) -> None:
    logs(copy)[0].unlink()  # the oldest segment, on its way out: its indexes go next
    (partition,) = find_partitions(copy)
    assert partition.missing_logs == ()
    assert partition.log_start_offset == 240


def test_a_torn_tail_is_the_end(copy: Path) -> None:
    last = logs(copy)[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-10])
    got = tidelog.scan(copy, columns=["offset"]).read_all()
    records = expected.records(golden_partition(NAME))
    assert got["offset"].to_pylist() == [
        record["offset"] for record in records if record["base_offset"] != records[-1]["base_offset"]
    ]


def test_a_torn_segment_in_the_middle_is_damage(copy: Path) -> None:
    middle = logs(copy)[2]
    middle.write_bytes(middle.read_bytes()[:-10])
    with pytest.raises(CorruptRecordError, match="ends inside a batch"):
        tidelog.scan(copy).read_all()


def test_a_damaged_tail(copy: Path) -> None:
    last = logs(copy)[-1]
    with last.open("ab") as file:
        file.write(b"\xff" * 100)
    (partition,) = find_partitions(copy)
    with pytest.raises(CorruptRecordError):
        log_end_offset(partition)
    assert log_end_offset(partition, damage_ends_it=True) == 1560


@pytest.mark.parametrize("kind", ["missing", "empty", "zeros", "untrimmed", "beyond"])
def test_indexes_may_be_absent_or_unclean(copy: Path, kind: str) -> None:
    for index in sorted([*copy.glob("*.index"), *copy.glob("*.timeindex")]):
        whole = index.read_bytes()
        if kind == "missing":
            index.unlink()
        elif kind == "empty":
            index.write_bytes(b"")
        elif kind == "zeros":
            index.write_bytes(bytes(len(whole)))
        elif kind == "untrimmed":
            index.write_bytes(whole + bytes(65536 - len(whole)))
        elif index.suffix == ".index":
            index.write_bytes(whole + (2000).to_bytes(4) + (1 << 30).to_bytes(4))
    got = tidelog.scan(copy, split_bytes=3000, start=100, end=1555).read_all()
    rows = [row for row in expected.rows(golden_partition(NAME)) if 100 <= row["offset"] < 1555]
    assert got.to_pylist() == rows


def test_transient_files_are_not_read(copy: Path) -> None:
    for suffix in (".deleted", ".cleaned", ".swap"):
        (copy / f"{9000:020}.log{suffix}").write_bytes(b"nothing to see here")
    (copy / "leftover.txt").touch()
    assert tidelog.scan(copy, columns=["offset"]).read_all().num_rows == 1560


def test_an_empty_log(tmp_path: Path) -> None:
    directory = tmp_path / "empty-0"
    directory.mkdir()
    (directory / f"{0:020}.log").touch()
    assert tidelog.scan(directory).read_all().num_rows == 0
    (tmp_path / "bare-0").mkdir()
    assert tidelog.scan(tmp_path).read_all().num_rows == 0
