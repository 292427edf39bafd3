"""Readers in other threads and other processes, while one writes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.log.logs import NOW_MS, SMALL, numbered, open_log, record
from tests.waiting import PATIENCE_S
from tidelog.errors import LogClosedError, OffsetOutOfRangeError
from tidelog.log import Log
from tidelog.records import decode_records
from tidelog.types import FetchIsolation

SECONDS = 1.5


def _run(*work: Callable[[threading.Event], None]) -> None:
    """Run functions at once for a while; what one raises is raised here."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def guarded(function: Callable[[threading.Event], None]) -> None:
        try:
            function(stop)
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    stop.wait(SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _check(log: Log, isolation: FetchIsolation, *, may_shrink: bool = False) -> int:
    """Read from the start: every record is the one that was written at its offset."""
    offset, seen = log.log_start_offset, 0
    while True:
        try:
            fetched = log.read(offset, 900, isolation)
        except OffsetOutOfRangeError:
            assert may_shrink or offset < log.log_start_offset
            return seen
        batches = fetched.batches()
        if not len(batches):
            return seen
        for one in decode_records(fetched.data[: batches.end]):
            assert one.value == record(one.offset).value
            seen += 1
        offset = int(batches.last_offset[-1]) + 1


def test_readers_see_whole_batches_while_one_appends_rolls_and_deletes(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0") as log:
        log.append_as_leader(numbered(3))  # imports what it needs before others contend for the interpreter
        counts: list[int] = []

        def write(stop: threading.Event) -> None:
            while not stop.is_set():
                log.append_as_leader(numbered(3, log.log_end_offset))
                log.update_high_watermark(log.log_end_offset - 2)
                if len(log.segments) > 12:
                    high = log.high_watermark
                    old = [s for s in list(log.segments)[:-1] if s.base_offset < high - 60][:5]
                    log.delete_segments(old)

        def read(stop: threading.Event) -> None:
            isolations = list(FetchIsolation)
            while not stop.is_set():
                counts.append(_check(log, isolations[len(counts) % 3]))

        def look_up(stop: threading.Event) -> None:
            while not stop.is_set():
                start, end = log.log_start_offset, log.log_end_offset
                if end == start:
                    continue
                middle = (start + end) // 2
                try:
                    one = log.read_record(middle)
                except OffsetOutOfRangeError:
                    assert log.log_start_offset > middle
                    continue
                assert one is not None
                assert one.value == record(middle).value
                found = log.offset_for_timestamp(NOW_MS + middle)
                assert found is None or found.offset >= middle

        _run(write, read, read, look_up)
        assert sum(counts) > 1000


def test_readers_outlive_truncation_and_renaming(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0") as log:
        log.append_as_leader(numbered(3))

        def write(stop: threading.Event) -> None:
            names = ["orders-0", f"orders-0.{'d' * 32}-future"]
            rounds = 0
            while not stop.is_set():
                for _ in range(50):
                    log.append_as_leader(numbered(3, log.log_end_offset))
                log.truncate_to(log.log_end_offset // 2 // 3 * 3)
                rounds += 1
                log.rename(names[rounds % 2])
            log.rename("orders-0")

        def read(stop: threading.Event) -> None:
            while not stop.is_set():
                _check(log, FetchIsolation.LOG_END, may_shrink=True)

        _run(write, read, read)


def test_appends_of_many_threads_come_one_after_the_other(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", SMALL) as log:
        given: list[int] = []

        def write(stop: threading.Event) -> None:
            while not stop.is_set():
                info = log.append_as_leader(numbered(2))
                given.append(info.first_offset)

        _run(write, write, write)
        assert sorted(given) == list(range(0, log.log_end_offset, 2))


def test_a_reader_of_a_log_that_is_deleted_finishes_or_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    for _ in range(100):
        log.append_as_leader(numbered(3, log.log_end_offset))
    fetched = log.read(0, 1 << 20)
    told = threading.Event()

    def read() -> None:
        try:
            while True:
                _check(log, FetchIsolation.LOG_END)
        except LogClosedError:
            told.set()

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.2)
    log.delete()
    thread.join(PATIENCE_S)
    assert told.is_set()
    assert len(fetched.batches())


READER = """
import sys, time
import tidelog
path, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
most = rounds = 0
while time.monotonic() < until or rounds < 3:
    seen = 0
    for batch in tidelog.scan(path, columns=["offset", "value"]):
        for offset, value in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist()):
            assert offset == seen, (offset, seen)
            assert value.startswith(b"value %d." % offset), (offset, value)
            seen += 1
    assert seen >= most, "records have vanished"
    most, rounds = seen, rounds + 1
print(most)
"""


def test_another_process_reads_while_this_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    with open_log(path) as log:
        for _ in range(10):
            log.append_as_leader(numbered(3, log.log_end_offset))
        command = [sys.executable, "-c", READER, str(path), str(SECONDS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
            while reader.poll() is None:
                if log.log_end_offset < 100_000:
                    log.append_as_leader(numbered(3, log.log_end_offset))
                else:
                    time.sleep(0.01)
            out, err = reader.communicate()
        assert reader.returncode == 0, err
        assert 0 < int(out) <= log.log_end_offset
