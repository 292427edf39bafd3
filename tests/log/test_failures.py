"""A disk that fails under a log: nothing half written is seen, and the log goes on or says that it cannot."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.log.logs import SMALL, Clock, abort, all_records, numbered, open_log, record, send
from tidelog.errors import LogOfflineError
from tidelog.log import Log
from tidelog.storage import LOCAL
from tidelog.testing.faults import Call, Fault, FaultyFileSystem, disk_full, fail_at, fail_on


def _well(call: Call) -> Fault | None:
    return None


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem(LOCAL, _well)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def _open(path: Path, fs: FaultyFileSystem, **options: object) -> Log:
    return open_log(path, SMALL, fs=fs, **options)


@pytest.mark.parametrize("written", [0, 1, 60, 100])
def test_a_failed_write_is_undone_and_the_next_append_works(
    path: Path, fs: FaultyFileSystem, written: int
) -> None:
    with _open(path, fs) as log:
        for number in range(5):
            log.append_as_leader([record(number)])
        before, offsets = all_records(log), log.offsets
        for _ in range(3):
            fs.rule = fail_on("pwrite", "*.log", errno.ENOSPC, times=1, written=written)
            with pytest.raises(OSError, match="No space") as refused:
                log.append_as_leader([record(5)], leader_epoch=4)
            assert refused.value.errno == errno.ENOSPC
            assert log.offsets == offsets
            assert all_records(log) == before
            assert log.latest_epoch == 0
            assert not log.is_offline
        info = log.append_as_leader([record(5)])
        assert info.first_offset == 5
    with open_log(path) as log:
        assert len(all_records(log)) == 6


def test_a_write_that_cannot_be_undone_takes_the_log_offline(path: Path, fs: FaultyFileSystem) -> None:
    log = _open(path, fs)
    for number in range(5):
        log.append_as_leader([record(number)])
    before = all_records(log)
    fs.rule = fail_on("*", "*.log", errno.EIO)
    with pytest.raises((OSError, LogOfflineError)):
        log.append_as_leader([record(5)])
    fs.rule = _well
    with pytest.raises(LogOfflineError):
        log.append_as_leader([record(5)])
    assert all_records(log) == before, "what is there can be read"
    log.close_handlers()
    with open_log(path, clean=False) as log:
        assert all_records(log)[:5] == before
        log.append_as_leader([record(5)])


def test_a_transaction_index_that_cannot_be_written_takes_the_log_offline(
    path: Path, fs: FaultyFileSystem
) -> None:
    log = _open(path, fs)
    send(log, 1, 0, record(0))
    offsets = log.offsets
    fs.rule = fail_on("*", "*.txnindex", errno.EIO)
    with pytest.raises(LogOfflineError, match="aborted transactions"):
        abort(log, 1)
    assert log.is_offline
    assert log.offsets == offsets
    for use in (lambda: log.append_as_leader(numbered(1)), log.roll, lambda: log.truncate_to(0), log.close):
        with pytest.raises(LogOfflineError, match="open it again"):
            use()
    log.close_handlers()
    with open_log(path, clean=False) as log:
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 2, "the marker was written: recovery notes what it aborts"
        assert len(log.aborted_transactions(0, 2)) == 1


def test_an_epoch_that_cannot_be_written_refuses_its_append(path: Path, fs: FaultyFileSystem) -> None:
    with _open(path, fs) as log:
        log.append_as_leader([record(0)], leader_epoch=1)
        fs.rule = fail_on("*", "leader-epoch-checkpoint*", errno.ENOSPC, times=1)
        with pytest.raises(OSError, match="No space"):
            log.append_as_leader([record(1)], leader_epoch=2)
        assert (log.log_end_offset, log.latest_epoch) == (1, 1)
        log.append_as_leader([record(1)], leader_epoch=2)
    with open_log(path) as log:
        assert [entry.epoch for entry in log.epoch_entries] == [1, 2]


def test_wherever_the_disk_fails_nothing_acknowledged_is_lost(path: Path, tmp_path: Path) -> None:
    """One failure at each call that changes anything, once for a moment and once for good."""
    steps = 0
    for times in (1, None):
        number = 0
        while True:
            number += 1
            fs = FaultyFileSystem(LOCAL, _well)
            log = _open(path, fs)
            log.append_as_leader([record(0)])
            fs.rule = fail_at(number, errno.EIO, times=times)
            acknowledged = _work(log, 1, 40)
            failed = fs.faults > 0
            if not log.is_offline:
                assert len(all_records(log)) == acknowledged, number
            log.close_handlers()
            with Log.open(path, SMALL, clean=False, now_ms=Clock()) as recovered:
                found = [one.offset for one in all_records(recovered)]
                assert found[:acknowledged] == list(range(acknowledged)), number
                assert len(found) <= acknowledged + 2, "an append that failed may be there, or not"
            shutil.rmtree(path)
            steps += 1
            if not failed:
                break
    assert steps > 100


def _work(log: Log, start: int, end: int = 1000) -> int:
    """Append records, and roll, until the disk fails; the first that was not acknowledged."""
    for number in range(start, end):
        try:
            log.append_as_leader([record(number)], leader_epoch=number // 15)
        except (OSError, LogOfflineError):
            return number
    return end


def test_a_full_disk(path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, disk_full(20_000))
    log = _open(path, fs)
    acknowledged = _work(log, 0)
    assert 5 < acknowledged < 1000
    assert fs.faults
    assert len(all_records(log)) == acknowledged
    log.close_handlers()
    with Log.open(path, SMALL, clean=False, now_ms=Clock()) as recovered:
        assert len(all_records(recovered)) >= acknowledged
        recovered.append_as_leader([record(0)])


def test_a_failed_flush_takes_the_log_offline(path: Path, fs: FaultyFileSystem) -> None:
    """What the system could not write may be gone from its memory: only recovery can tell what is left."""
    log = _open(path, fs)
    log.append_as_leader([record(0)])
    fs.rule = fail_on("sync", "*.log", errno.EIO, times=1)
    with pytest.raises(LogOfflineError):
        log.flush()
    assert log.recovery_point == 0
    with pytest.raises(LogOfflineError):
        log.append_as_leader([record(1)])
    log.close_handlers()
