"""Segments whose offsets reach too far: split as Kafka splits them, on opening and in an open log."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest

from tests.log.crafting import CONTROL, TRANSACTIONAL, Batch
from tests.log.logs import SMALL, Clock, all_records, data_files, open_log
from tests.oracle import Oracle
from tests.segment.crafting import batch, random_batches
from tidelog.errors import InvalidInputError, TidelogError
from tidelog.log import Log
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.records import StoredRecord, decode_records, scan_batches
from tidelog.segment import ActiveSegment
from tidelog.storage import LOCAL
from tidelog.storage.names import FileKind, Transient, format_segment_file
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.journal import Operation, Rename
from tidelog.types import Codec

FAR = 2**31
CONFIG = {"index.interval.bytes": 200, "segment.index.bytes": 8192}


def log_name(base_offset: int) -> str:
    return format_segment_file(base_offset, FileKind.LOG)


def spread(seed: int, *starts: int, magic: int = 2) -> bytes:
    """Batches of all sorts from each of these offsets on."""
    rng = random.Random(seed)
    return b"".join(data for start in starts for data in random_batches(rng, start, 12, magic=magic))


def transactions() -> bytes:
    """Transactions of two producers; one is aborted near, one far away."""

    def data(offset: int, producer_id: int, sequence: int) -> bytes:
        return Batch(
            base_offset=offset,
            attributes=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        ).encode()

    def marker(offset: int, producer_id: int, committed: bool) -> bytes:
        key, value = struct.pack(">hh", 0, committed), struct.pack(">hi", 0, 0)
        return Batch(
            records=((1000, key, value),),
            base_offset=offset,
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer_id,
            producer_epoch=0,
        ).encode()

    return b"".join(
        [
            data(0, 1, 0),
            data(1, 2, 0),
            marker(2, 1, False),
            data(5, 1, 1),
            marker(6, 1, True),
            data(FAR + 5, 1, 2),
            marker(FAR + 6, 2, False),
            data(2 * FAR + 7, 2, 1),
            marker(2 * FAR + 9, 1, False),
            marker(2 * FAR + 10, 2, True),
        ]
    )


CASES: dict[str, tuple[dict[int, bytes], list[int]]] = {
    "two parts": ({0: batch(0) + batch(5) + batch(FAR - 1) + batch(FAR)}, [0, FAR]),
    "many parts": ({0: spread(1, 0, FAR, 3 * FAR, 9 * FAR + 5)}, [0, FAR, 3 * FAR, 9 * FAR + 5]),
    "begins above its base": ({3: spread(2, 9, FAR + 20)}, [9, FAR + 20]),
    "between others": (
        {0: spread(3, 0), 1000: spread(4, 1000, FAR + 2000), 2 * FAR: spread(5, 2 * FAR)},
        [0, 1000, FAR + 2000, 2 * FAR],
    ),
    "two of them": (
        {0: spread(6, 0, FAR + 1), 5 * FAR: spread(7, 5 * FAR, 7 * FAR)},
        [0, FAR + 1, 5 * FAR, 7 * FAR],
    ),
    "the last batch reaches over": (
        {0: batch(4) + batch(FAR + 2, [1, 2]) + batch(FAR + 4)},
        [4, FAR + 4],
    ),
    "magic 0": ({0: spread(8, 5, FAR + 9, magic=0)}, [5, FAR + 9]),
    "magic 1": ({0: spread(9, 5, FAR + 9, magic=1)}, [5, FAR + 9]),
    "magic 1, wrapped": (
        {0: b"".join(batch(at, [1, 2, 3], magic=1, codec=Codec.GZIP) for at in (5, FAR - 2, 2 * FAR))},
        [5, 2 * FAR],
    ),
    "transactions": ({0: transactions()}, [0, FAR + 5, 2 * FAR + 7]),
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "old-0"
    made.mkdir()
    return made


def fill(path: Path, segments: dict[int, bytes]) -> list[StoredRecord]:
    for base_offset, data in segments.items():
        (path / log_name(base_offset)).write_bytes(data)
    return [record for data in segments.values() for record in decode_records(data)]


def bases(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in path.glob("*.log"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_is_split_when_it_is_recovered(path: Path, name: str, clean: bool) -> None:
    segments, parts = CASES[name]
    records = fill(path, segments)
    with open_log(path, clean=clean) as log:
        assert [segment.base_offset for segment in log.segments] == parts
        assert all_records(log) == records
        assert not any(segment.has_overflow for segment in log.segments)
        for record in records[:: max(len(records) // 20, 1)]:
            assert log.read_record(record.offset) == record
    assert b"".join((path / log_name(base)).read_bytes() for base in parts) == b"".join(segments.values())
    assert not [file.name for file in path.iterdir() if file.suffix in (".cleaned", ".swap", ".deleted")]
    with open_log(path) as log:
        assert all_records(log) == records


@pytest.mark.parametrize("name", CASES)
def test_kafka_splits_into_the_same_files(path: Path, tmp_path: Path, oracle: Oracle, name: str) -> None:
    segments, _ = CASES[name]
    fill(path, segments)
    now = Clock()()
    theirs = oracle.recover(path, tmp_path / "kafka", config=CONFIG, now_ms=now)
    open_log(path, clean=False).close()
    expected = data_files(theirs)
    for empty in [file for file, data in expected.items() if file.endswith(".txnindex") and not data]:
        del expected[empty]
    assert data_files(path) == expected


def test_aborted_transactions_go_with_their_markers(path: Path) -> None:
    fill(path, {0: transactions()})
    shutil.copytree(path, recovered := path.with_name("old-1"))
    with open_log(path, clean=False) as log:
        log.update_high_watermark(log.log_end_offset)
        expected = [segment.txn_index.all_aborted_txns() for segment in log.segments]
        assert [len(some) for some in expected] == [1, 1, 1]
    whole = b"".join(
        (path / format_segment_file(base, FileKind.TXN_INDEX)).read_bytes() for base in bases(path)
    )
    # an open log keeps what its index had
    (recovered / format_segment_file(0, FileKind.TXN_INDEX)).write_bytes(whole)
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        (recovered / format_segment_file(0, kind)).write_bytes(b"")
    with open_log(recovered) as log:
        log.roll()
        log.split_overflowed_segment(log.segments.first)
        assert [segment.txn_index.all_aborted_txns() for segment in log.segments] == [*expected, []]


def open_whole(path: Path) -> Log:
    """A log with an overflowing segment, closed cleanly, and one behind it."""
    data = spread(11, 0, FAR + 3)
    fill(path, {0: data})
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        (path / format_segment_file(0, kind)).write_bytes(b"")
    log = open_log(path)
    log.roll()
    return log


def test_a_segment_of_an_open_log_is_split_under_its_readers(path: Path) -> None:
    with open_whole(path) as log:
        records = all_records(log)
        old = log.segments.first
        mtime_ms = old.mtime_ms
        held, reading = old.buffer(), log.view
        parts = log.split_overflowed_segment(old)
        assert [part.base_offset for part in parts] == [0, FAR + 3]
        assert list(log.segments)[:2] == parts
        assert [part.mtime_ms for part in parts] == [mtime_ms] * 2
        assert all_records(log) == records
        assert list(decode_records(held)) == records
        assert reading.segments.first is old
        with pytest.raises(InvalidInputError, match="not split"):
            log.split_overflowed_segment(parts[0])
    with open_log(path) as log:
        assert all_records(log) == records


def test_damage_is_told_and_nothing_is_replaced(path: Path) -> None:
    with open_whole(path) as log:
        file = path / log_name(0)
        data = file.read_bytes()
        with file.open("r+b") as writing:
            writing.seek(len(data) - 300)
            writing.write(b"\x01" * 300)
        damaged = file.read_bytes()
        with pytest.raises(TidelogError):
            log.split_overflowed_segment(log.segments.first)
        assert file.read_bytes() == damaged
        assert bases(path) == [0, log.segments.last.base_offset]


def test_a_torn_end_is_cut_off_the_last_part(path: Path) -> None:
    data = spread(12, 0, FAR + 3)
    fill(path, {0: data, 2 * FAR: batch(2 * FAR)})
    (path / log_name(0)).write_bytes(data + batch(FAR + 500, [1, 2])[:-7])
    with open_log(path, clean=False) as log:
        assert all_records(log) == list(decode_records(data))
    assert bases(path) == [0, FAR + 3]


def test_what_lies_behind_damage_in_a_segment_that_is_split_is_kept_aside(path: Path) -> None:
    data = spread(12, 0, FAR + 3)
    damaged = bytearray(batch(FAR + 500, [1, 2]))
    damaged[8] ^= 0x7F  # its length: nothing behind it can be framed
    behind = bytes(damaged) + batch(FAR + 600, [1, 2])
    fill(path, {0: data})
    (path / log_name(0)).write_bytes(data + behind)
    keeping = KeepingFileSystem(LOCAL)
    with open_log(path, clean=False, fs=keeping) as log:
        assert all_records(log) == list(decode_records(data))
    assert [(Path(name).name, Path(name).read_bytes()) for name, _ in keeping.kept] == [
        (f"{log_name(0)}.from-{len(data)}", behind)
    ]


# Power cuts


def on_a_disk(data: bytes) -> CrashFileSystem:
    """A file system with a segment that is safe on its disk."""
    fs = CrashFileSystem()
    fs.make_directory("/old-0")
    fs.sync_directory("/")
    file = fs.open(f"/old-0/{log_name(3)}", create=True)
    file.pwrite(data, 0)
    file.sync()
    file.close()
    fs.sync_directory("/old-0")
    return fs


@pytest.mark.parametrize("first", [3, 9])
@pytest.mark.parametrize("seeds", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_a_split_survives_a_power_cut_at_every_step(first: int, seeds: int) -> None:
    data = batch(first) + batch(first + 5) + batch(FAR + 20) + batch(FAR + 21) + batch(3 * FAR)
    records = list(decode_records(data))
    fs = on_a_disk(data)
    safe = fs.steps
    Log.open("/old-0", SMALL, fs=fs, now_ms=Clock()).close()
    assert fs.exists(f"/old-0/{log_name(3 * FAR)}")
    for step in range(safe, fs.steps + 1):
        for seed in range(seeds):
            after = fs.crash(step, seed=seed)
            with Log.open("/old-0", SMALL, fs=after, now_ms=Clock()) as log:
                assert all_records(log) == records, (step, seed)
            names = [entry.name for entry in after.list("/old-0")]
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_no_part_looks_complete_before_all_parts_are_on_the_disk() -> None:
    data = batch(3) + batch(8) + batch(FAR + 20) + batch(FAR + 21) + batch(3 * FAR)
    fs = on_a_disk(data)
    safe = fs.steps
    Log.open("/old-0", SMALL, fs=fs, now_ms=Clock()).close()
    swaps = [step for step in range(safe + 1, fs.steps) if _is_swap(fs.operation(step))]
    for step in range(swaps[0], swaps[0] + 3):
        for seed in range(60):
            with Log.open("/old-0", SMALL, fs=fs.crash(step, seed=seed), now_ms=Clock()) as log:
                assert all_records(log) == list(decode_records(data)), (step, seed)


def _is_swap(operation: Operation) -> bool:
    return isinstance(operation, Rename) and operation.to_name.endswith(Transient.SWAP.value)


def test_parts_that_were_joined_with_the_next_segment_survive_a_power_cut_too() -> None:
    """Two segments for two, with another border: what was split off went into one with what came behind."""
    near, far, behind = batch(0) + batch(5), batch(FAR + 20), batch(FAR + 21)
    records = list(decode_records(near + far + behind))
    fs = CrashFileSystem()
    fs.make_directory("/old-0")
    for base_offset, data in ((0, near + far), (FAR + 21, behind)):
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            file = fs.open(f"/old-0/{format_segment_file(base_offset, kind)}", create=True)
            file.pwrite(data if kind is FileKind.LOG else b"", 0)
            file.sync()
            file.close()
    for directory in ("/old-0", "/"):
        fs.sync_directory(directory)
    with Log.open("/old-0", SMALL, fs=fs, clean=True, now_ms=Clock()) as log:
        log.roll()
        old = list(log.segments)[:-1]
        new = []
        for base_offset, data in ((0, near), (FAR + 20, far + behind)):
            cleaned = ActiveSegment.create(
                log.directory, base_offset, SMALL, clock=Clock(), transient=Transient.CLEANED
            )
            cleaned.append(data, scan_batches(data).require())
            new.append(cleaned.seal())
            new[-1].flush()
        safe = fs.steps
        log.replace_segments(new, old)
        assert all_records(log) == records
        done = fs.steps
    for step in range(safe, done + 1):
        for seed in range(4):
            with Log.open("/old-0", SMALL, fs=fs.crash(step, seed=seed), now_ms=Clock()) as log:
                assert all_records(log) == records, (step, seed)
