"""Power cuts and failing disks at every step of cleaning, and readers that run through it."""

from __future__ import annotations

import errno
import itertools
import random
import threading
from pathlib import Path

import pytest

from tests.log.logs import NOW_MS, Clock, abort, all_records, commit, record, send
from tidelog.cleanup.cleaner import LocalPasses, clean_log
from tidelog.cleanup.offset_map import SLOT_BYTES, OffsetMap
from tidelog.config import LogConfig
from tidelog.errors import LogOfflineError
from tidelog.log import Log
from tidelog.log.read.fetching import to_arrow
from tidelog.records import Record, StoredRecord
from tidelog.records.schema import Projection
from tidelog.storage import LOCAL, FileSystem
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import FaultyFileSystem, fail_at
from tidelog.types import FetchIsolation

CONFIG = LogConfig(
    internal_segment_bytes=900,
    index_interval_bytes=100,
    segment_index_bytes=600,
    file_delete_delay_ms=0,
    delete_retention_ms=1000,
)
PATH = "/data/t-0"
KEYS = 9


def open_log(fs: FileSystem, path: Path | str = PATH, *, clean: bool = False, recovery_point: int = 0) -> Log:
    return Log.open(path, CONFIG, fs=fs, clean=clean, recovery_point=recovery_point, now_ms=Clock())


def fill(log: Log, count: int = 45) -> None:
    """Values, tombstones and transactions, of a few keys; all of it decided and on the disk."""
    draw = random.Random(1)
    sequences = {7: 0, 8: 0}
    for number in range(count):
        key = record(draw.randrange(KEYS)).key
        one = Record(None if draw.random() < 0.2 else b"value %d" % number, key, timestamp=NOW_MS + number)
        producer = draw.choice((None, 7, 8))
        if producer is None:
            log.append_as_leader([one])
        else:
            send(log, producer, sequences[producer], one)
            sequences[producer] += 1
            (commit if draw.random() < 0.6 else abort)(log, producer)
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    log.flush()


def clean(log: Log, now_ms: int, slots: int = 1000, first_dirty: int = 0) -> None:
    log.update_high_watermark(log.log_end_offset)
    clean_log(
        log,
        LocalPasses(OffsetMap(slots * SLOT_BYTES)),
        first_dirty_offset=first_dirty,
        upper_bound=log.last_stable_offset,
        now_ms=now_ms,
    )


def committed(log: Log) -> dict[bytes | None, bytes | None]:
    """The last committed value of each key; none where it was deleted."""
    log.update_high_watermark(log.log_end_offset)
    found: dict[bytes | None, bytes | None] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.read(offset, 1 << 20, FetchIsolation.TXN_COMMITTED)
        if not len(fetched.batches()):
            break
        read = to_arrow(fetched, offset, log.topic_partition, Projection.of(("key", "value")))
        found |= dict(zip(read["key"].to_pylist(), read["value"].to_pylist(), strict=True))
        offset = int(fetched.batches().last_offset[-1]) + 1
    return {key: value for key, value in found.items() if value is not None}


def check(
    after: FileSystem, before: dict[int, StoredRecord], expected: dict[bytes | None, bytes | None]
) -> int:
    """A log after a cut: nothing that counts is missing, nothing is new; how many records there are."""
    end = max(before) + 1
    with open_log(after, recovery_point=end) as log:
        found = all_records(log)
        assert log.log_end_offset == end
        for one in found:
            assert one == before[one.offset]
        assert committed(log) == expected
        names = {entry.name for entry in after.list(PATH)}
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        for segment in log.segments:
            assert segment.index_fault() is None
    return len(found)


def test_cleaning_survives_power_cuts() -> None:
    cut(1000, every=4)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1000, 5])
def test_cleaning_survives_a_power_cut_at_every_step(slots: int) -> None:
    """In one round and in several."""
    cut(slots, every=1)


def cut(slots: int, every: int) -> None:
    """Clean a log, and again when tombstones and markers go, and cut the power at some steps."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.sync_directory("/")
    with open_log(fs, clean=True) as log:
        fill(log)
        fs.sync_directory("/data")
        before = {one.offset: one for one in all_records(log)}
        expected = committed(log)
        begin = fs.steps
        for now_ms in (NOW_MS, NOW_MS + 5000):
            clean(log, now_ms, slots)
        end = fs.steps
        assert committed(log) == expected
    assert end - begin > 100
    counts = {check(fs.crash(step, seed=step), before, expected) for step in [*range(begin, end, every), end]}
    assert max(counts) == len(before)
    assert min(counts) < 0.6 * len(before)
    for step in range(begin, end + 1, 5 * every):
        for kept in ("synced", "all"):
            check(fs.crash(step, seed=step, kept=kept), before, expected)


def test_a_cut_log_can_be_cleaned_again() -> None:
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.sync_directory("/")
    with open_log(fs, clean=True) as log:
        fill(log)
        fs.sync_directory("/data")
        end_offset, expected = log.log_end_offset, committed(log)
        begin = fs.steps
        clean(log, NOW_MS)
        end, left = fs.steps, [one.offset for one in all_records(log)]
    for step in range(begin, end + 1, 17):
        with open_log(fs.crash(step, seed=step), recovery_point=end_offset) as log:
            clean(log, NOW_MS)
            assert committed(log) == expected
            assert [one.offset for one in all_records(log)] == left


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_in_the_middle_costs_nothing(code: int, tmp_path: Path) -> None:
    """Changes of files fail, each once. Before the swap the log goes on; in it, it is offline, and whole."""
    offline = untouched = 0
    for number in itertools.count(1, 7):
        path = tmp_path / str(number) / "t-0"
        path.parent.mkdir()
        fs = FaultyFileSystem(LOCAL, lambda call: None)
        log = open_log(fs, path, clean=True)
        fill(log, 20)
        end, before, expected = log.log_end_offset, all_records(log), committed(log)
        fs.rule = fail_at(number, code)
        try:
            clean(log, NOW_MS)
        except (OSError, LogOfflineError):
            fs.rule = lambda call: None
        else:
            fs.rule = lambda call: None
            log.close()
            break
        assert committed(log) == expected
        if log.is_offline:
            offline += 1
            log.close_handlers()
        else:
            untouched += all_records(log) == before
            clean(log, NOW_MS)
            log.close()
        with open_log(LOCAL, path, recovery_point=end) as again:
            assert committed(again) == expected
            assert again.log_end_offset == end
    assert offline > 1
    assert untouched > 1


def test_readers_see_every_last_value_while_segments_are_replaced(tmp_path: Path) -> None:
    """Readers go through the log over and over while it is cleaned again and again."""
    with open_log(LOCAL, tmp_path / "t-0", clean=True) as log:
        fill(log, 80)
        expected = committed(log)
        stop = threading.Event()
        failures: list[BaseException] = []
        rounds = [0, 0]

        def read(number: int) -> None:
            try:
                while not stop.is_set():
                    assert committed(log) == expected
                    for one in all_records(log):
                        again = log.read_record(one.offset)
                        assert again is None or again == one
                    rounds[number] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read, args=(number,)) for number in range(len(rounds))]
        for thread in threads:
            thread.start()
        try:
            for now_ms in range(NOW_MS, NOW_MS + 2):  # a reader is to see tombstones before they go
                clean(log, now_ms, slots=8)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        for failure in failures:
            raise failure
        assert all(rounds)
