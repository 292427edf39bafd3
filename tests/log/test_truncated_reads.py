"""Readers beside a truncation: what they are told is whole, decided where it must be, and never refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.log.logs import NOW_MS, Clock, commit, numbered, open_log, send
from tests.waiting import PATIENCE_S
from tidelog.errors import LogClosedError, OffsetOutOfRangeError
from tidelog.log import Log
from tidelog.records import Record, decode_records
from tidelog.storage import LOCAL
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import FaultyFileSystem
from tidelog.types import FetchIsolation

DAY_MS = 24 * 60 * 60 * 1000


def at_first(fs: FaultyFileSystem, wanted: str, action: Callable[[], object]) -> None:
    """Do something once, when the file system is first asked for an operation."""

    def interrupt(operation: str) -> None:
        if operation == wanted:
            fs.interrupt = None
            action()

    fs.interrupt = interrupt


def end_replicated(log: Log) -> None:
    log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem(LOCAL, lambda call: None)


def reopened(log: Log, fs: FaultyFileSystem) -> Log:
    """The same log, of which nothing is mapped yet."""
    log.close()
    again = open_log(Path(log.path), fs=fs)
    end_replicated(again)
    return again


def test_a_committed_read_never_sees_what_came_after_a_truncation_undecided(
    tmp_path: Path, fs: FaultyFileSystem
) -> None:
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(numbered(3))
    send(log, 1, 0, *numbered(4))
    commit(log, 1)
    log = reopened(log, fs)

    def cut_and_append() -> None:
        log.truncate_to(3)
        send(log, 2, 0, *[Record(b"undecided")] * 4)
        send(log, 2, 4, Record(b"undecided"))

    at_first(fs, "map", cut_and_append)
    fetched = log.read(0, isolation=FetchIsolation.TXN_COMMITTED)
    values = [one.value for one in decode_records(fetched.data[: fetched.batches().end])]
    assert len(values) == 3
    assert b"undecided" not in values


@pytest.mark.parametrize("by", ["read", "read_record"])
def test_an_offset_that_was_cut_off_meanwhile_is_out_of_range(
    tmp_path: Path, fs: FaultyFileSystem, by: str
) -> None:
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(numbered(10))
    log = reopened(log, fs)
    at_first(fs, "map", lambda: log.truncate_to(5))
    with pytest.raises(OffsetOutOfRangeError):
        getattr(log, by)(7)


def test_a_transaction_is_open_again_from_the_moment_on_at_which_its_marker_is_gone(
    tmp_path: Path, fs: FaultyFileSystem
) -> None:
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(numbered(3))
    send(log, 1, 0, *numbered(2))
    log.append_as_leader(numbered(2))
    commit(log, 1)
    end_replicated(log)
    assert log.last_stable_offset == log.log_end_offset == 8
    seen = set()
    fs.interrupt = lambda operation: seen.add((log.log_end_offset, log.last_stable_offset))
    log.truncate_to(7)
    fs.interrupt = None
    assert seen == {(8, 8), (7, 3)}
    assert log.last_stable_offset == 3


def test_a_truncation_opens_a_transaction_again_whose_producer_has_expired(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path / "t-0", now_ms=clock)
    log.append_as_leader(numbered(3))
    send(log, 1, 0, *numbered(2))
    commit(log, 1)
    clock.now_ms += 2 * DAY_MS
    log.close()
    log = open_log(tmp_path / "t-0", now_ms=clock)
    log.remove_expired_producers()
    assert not log.active_producers
    end_replicated(log)
    log.truncate_to(5)
    assert log.last_stable_offset == 3
    assert set(log.active_producers) == {1}


def test_readers_wait_for_a_segment_that_becomes_the_active_one_again(
    tmp_path: Path, fs: FaultyFileSystem
) -> None:
    log = open_log(tmp_path / "t-0", fs=fs)
    for number in range(30):
        log.append_as_leader(numbered(5, 5 * number))
    log = reopened(log, fs)
    assert len(log.segments) > 3
    target = log.segments.base_offsets[1] + 6
    main, began = threading.get_ident(), False
    readers: list[threading.Thread] = []
    refused: list[BaseException] = []

    def read() -> None:
        try:
            log.read(target - 1)
            log.offset_for_timestamp(NOW_MS + target - 1)
        except LogClosedError as error:
            refused.append(error)

    def interrupt(operation: str) -> None:
        nonlocal began
        began = began or operation == "open_writable"
        if began and threading.get_ident() == main:
            readers.append(threading.Thread(target=read, daemon=True))
            readers[-1].start()
            readers[-1].join(0.02)

    fs.interrupt = interrupt
    log.truncate_to(target)
    fs.interrupt = None
    for reader in readers:
        reader.join(PATIENCE_S)
        assert not reader.is_alive()
    assert readers
    assert not refused


@pytest.mark.parametrize("simulated", [False, True])
def test_what_is_mapped_stays_as_it_is(tmp_path: Path, simulated: bool) -> None:
    fs: Any = CrashFileSystem() if simulated else LOCAL
    path = "/f" if simulated else str(tmp_path / "f")
    file = fs.open(path, create=True)
    file.pwrite(bytes(range(200)) * 50, 0)
    ahead, exact = file.map_readonly(20_000, ahead=True)[:10_000], file.map_readonly()
    file.truncate(100)
    file.pwrite(b"other" * 1000, 100)
    file.truncate(0)
    file.pwrite(b"again", 0)
    assert bytes(ahead) == bytes(exact) == bytes(range(200)) * 50
    assert bytes(file.map_readonly()) == b"again"
