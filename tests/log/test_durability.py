"""What a log vouches for is on the disk: after power cuts, between threads, and when a sync has failed."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log.lives import Later, check, live
from tests.log.logs import SMALL, abort, all_records, open_log, record, send
from tests.waiting import PATIENCE_S
from tidelog.errors import LogClosedError, LogOfflineError
from tidelog.log import Log
from tidelog.storage import LOCAL
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import Call, Fault, FaultyFileSystem, Rule, fail_on
from tidelog.testing.journal import Sync, SyncNames


@pytest.mark.parametrize("seed", range(24))
def test_a_log_survives_power_cuts(seed: int) -> None:
    _cut(seed, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1120))
def test_a_log_survives_thousands_of_power_cuts(seed: int) -> None:
    _cut(seed, 30)


def _cut(seed: int, cuts: int) -> None:
    life = live(seed)
    dice = random.Random(seed)
    for step in (life.fs.steps, *dice.sample(range(life.fs.steps), cuts)):
        for kept in ("some", "synced"):
            check(life, step, seed, kept)


@pytest.fixture
def crashing() -> CrashFileSystem:
    fs = CrashFileSystem()
    fs.make_directory("/disk")
    fs.sync_directory("/")
    return fs


def _values(log: Log) -> list[str]:
    return [bytes(one.value or b"").decode().rstrip(".") for one in all_records(log)]


def test_a_delayed_flush_after_a_truncation_says_nothing_of_what_comes_next(
    crashing: CrashFileSystem,
) -> None:
    later = Later()
    log = open_log(Path("/disk/orders-0"), fs=crashing, scheduler=later)
    log.append_as_leader([record(number) for number in range(20)])
    log.roll()
    log.truncate_to(0)
    later.run(100)
    assert (log.recovery_point, log.log_end_offset) == (0, 0)
    log.append_as_leader([record(100)])
    log.flush()
    assert log.recovery_point == 1
    after = open_log(Path("/disk/orders-0"), fs=crashing.crash(kept="synced"), clean=False)
    assert _values(after) == ["value 100"]


@pytest.mark.parametrize("records_behind", [0, 1, 30])
def test_a_delayed_flush_that_finds_other_records_flushes_those(
    crashing: CrashFileSystem, records_behind: int
) -> None:
    later = Later()
    log = open_log(Path("/disk/orders-0"), fs=crashing, scheduler=later)
    for number in range(20):
        log.append_as_leader([record(number)])
    log.roll()
    log.truncate_to(3)
    for number in range(records_behind):
        log.append_as_leader([record(100 + number)])
    later.run(100)
    point = log.recovery_point
    assert point <= log.log_end_offset
    after = open_log(
        Path("/disk/orders-0"), fs=crashing.crash(kept="synced"), clean=False, recovery_point=point
    )
    assert _values(after)[:point] == _values(log)[:point]


def test_a_truncation_is_on_the_disk_when_it_returns(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    log = open_log(path, fs=crashing)
    for number in range(60):
        log.append_as_leader([record(number)])
    log.flush()
    assert len(log.segments) > 2
    log.truncate_to(4)
    log.roll()  # the segment that was cut is sealed before anything is flushed
    log.append_as_leader([record(100)])
    log.flush()
    for kept in ("synced", "some", "all"):
        after = open_log(path, fs=crashing.crash(kept=kept), clean=False, recovery_point=log.recovery_point)
        assert _values(after) == [*(f"value {number}" for number in range(4)), "value 100"]


def test_aborted_transactions_that_were_cut_off_do_not_come_back(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    log = open_log(path, fs=crashing)
    log.append_as_leader([record(0)])
    send(log, 1, 0, record(1))
    abort(log, 1)
    log.flush()
    log.truncate_to(1)
    log.roll()
    log.append_as_leader([record(5)])
    log.flush()
    after = open_log(path, fs=crashing.crash(kept="synced"), clean=False, recovery_point=log.recovery_point)
    assert not after.aborted_transactions(0, 10)


def test_an_aborted_transaction_is_flushed_with_its_marker(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    log = open_log(path, fs=crashing)
    send(log, 1, 0, record(0))
    abort(log, 1)
    log.flush()
    log.roll()
    log.append_as_leader([record(1)])
    log.flush()
    after = open_log(path, fs=crashing.crash(kept="synced"), clean=False, recovery_point=log.recovery_point)
    assert len(after.aborted_transactions(0, 10)) == 1


def test_an_undone_write_is_flushed_away(crashing: CrashFileSystem) -> None:
    """A write that failed half-way is cut off again: that the disk has it so must be seen to as well."""
    fs = FaultyFileSystem(crashing, _well)
    path = Path("/disk/orders-0")
    log = open_log(path, fs=fs)
    log.append_as_leader([record(0)])
    log.flush()
    fs.rule = fail_on("pwrite", "*.log", errno.ENOSPC, times=1, written=90)
    with pytest.raises(OSError, match="No space"):
        log.append_as_leader([record(1)])
    log.close()
    for seed in range(20):
        with open_log(path, fs=crashing.crash(seed=seed)) as after:
            assert _values(after) == ["value 0"]


def test_an_orderly_stop_leaves_nothing_to_be_written(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    log = open_log(path, fs=crashing)
    for number in range(30):
        log.append_as_leader([record(number)])
    before = [(one.base_offset, one.max_timestamp_so_far) for one in log.segments]
    log.close()
    for seed in range(20):
        after = open_log(path, fs=crashing.crash(seed=seed))
        assert _values(after) == [f"value {number}" for number in range(30)]
        assert [(one.base_offset, one.max_timestamp_so_far) for one in after.segments] == before
        names = {entry.name for entry in crashing.crash(seed=seed).list(path)}
        assert "00000000000000000030.snapshot" in names


def test_a_log_that_nobody_wrote_to_is_closed_without_a_sync(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    with open_log(path, fs=crashing) as log:
        log.append_as_leader([record(0)])
    before = crashing.steps
    with open_log(path, fs=crashing) as log:
        assert _values(log) == ["value 0"]
    done = [crashing.operation(step) for step in range(before + 1, crashing.steps + 1)]
    assert not [one for one in done if isinstance(one, Sync | SyncNames)]


# Threads


def test_a_truncation_waits_for_the_flush_that_is_under_way(crashing: CrashFileSystem) -> None:
    """The flush has seen records that the truncation removes: it must not speak of the ones that follow."""
    path = Path("/disk/orders-0")
    fs = FaultyFileSystem(crashing, _well)
    log = open_log(path, fs=fs)
    for number in range(10):
        log.append_as_leader([record(number)])
    inside, order = threading.Event(), []

    def cut() -> None:
        inside.wait(PATIENCE_S)
        log.truncate_to(2)
        order.append("cut")

    def rule(call: Call) -> Fault | None:
        if call.operation == "sync" and call.path.endswith(".log") and not inside.is_set():
            inside.set()
            cutting.join(0.2)
            order.append("synced")
        return None

    cutting = threading.Thread(target=cut)
    fs.rule = rule
    cutting.start()
    log.flush()
    cutting.join(PATIENCE_S)
    fs.rule = _well
    assert order == ["synced", "cut"]
    assert (log.recovery_point, log.log_end_offset) == (2, 2)
    log.append_as_leader([record(number) for number in range(100, 103)])
    log.flush()
    after = open_log(path, fs=crashing.crash(kept="synced"), clean=False)
    assert _values(after) == ["value 0", "value 1", "value 100", "value 101", "value 102"]


def test_flushes_truncations_and_appends_of_many_threads(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    log = open_log(path, fs=crashing)
    stop = threading.Event()
    errors: list[BaseException] = []

    def repeat(action: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                action()
                assert log.recovery_point <= log.log_end_offset or log.truncations
        except BaseException as error:
            errors.append(error)

    dice = random.Random(1)
    numbers = iter(range(1_000_000))
    actions: list[Callable[[], object]] = [
        lambda: log.append_as_leader([record(next(numbers))]),
        log.flush,
        lambda: log.flush(active=False),
        lambda: log.truncate_to(max(log.log_end_offset - dice.randint(0, 5), 0)),
    ]
    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    stop.wait(1.0)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not errors
    log.flush()
    assert log.recovery_point == log.log_end_offset
    expected = _values(log)
    after = open_log(path, fs=crashing.crash(kept="synced"), clean=False, recovery_point=log.recovery_point)
    assert _values(after) == expected


# A sync that fails


def _well(call: Call) -> Fault | None:
    return None


_SYNCS: dict[str, tuple[str, str]] = {
    "log": ("sync", "*.log"),
    "offset index": ("flush", "*.index"),
    "time index": ("flush", "*.timeindex"),
    "sealed index": ("sync", "*.index"),
    "transaction index": ("sync", "*.txnindex"),
    "snapshot": ("sync", "*.snapshot"),
    "epochs": ("sync", "leader-epoch-checkpoint.tmp"),
    "directory": ("sync_directory", "orders-0"),
}


def _append_in_a_new_epoch(log: Log) -> None:
    log.append_as_leader([record(1)], leader_epoch=9)


def _roll_and_flush(log: Log) -> None:
    log.roll()
    log.flush()


_TRIGGERS: dict[str, Callable[[Log], object]] = {
    "flush": Log.flush,
    "roll and flush": _roll_and_flush,
    "truncate": lambda log: log.truncate_to(3),
    "start anew": lambda log: log.truncate_fully_and_start_at(3),
    "close": Log.close,
    "epoch": _append_in_a_new_epoch,
}


_NOT_SYNCED = {
    *(("sealed index", trigger) for trigger in ("flush", "truncate", "start anew", "close")),
    *(("transaction index", trigger) for trigger in ("start anew",)),
    *(("snapshot", trigger) for trigger in ("flush", "start anew")),
    *(("epochs", trigger) for trigger in ("flush", "roll and flush", "truncate", "close")),
    *((file, "epoch") for file in _SYNCS if file not in ("epochs", "directory")),
}
"""What needs no sync there."""


@pytest.mark.parametrize("trigger", _TRIGGERS)
@pytest.mark.parametrize("file", _SYNCS)
def test_after_a_failed_sync_nothing_is_acknowledged(tmp_path: Path, file: str, trigger: str) -> None:
    fs = FaultyFileSystem(LOCAL, _well)
    path = tmp_path / "orders-0"
    log = open_log(path, fs=fs)
    log.append_as_leader([record(0)])
    log.flush()
    send(log, 7, 0, record(1))
    abort(log, 7)
    for number in range(3, 12):
        log.append_as_leader([record(number)])
    before, point = all_records(log), log.recovery_point
    fs.rule = _once(fail_on(*_SYNCS[file], errno.EIO))
    try:
        _TRIGGERS[trigger](log)
    except (LogOfflineError, OSError):
        pass
    faults, fs.rule = fs.faults, _well  # the next sync would succeed
    if not faults:
        assert (file, trigger) in _NOT_SYNCED
        log.close()
        return
    assert log.is_offline
    for use in (
        log.flush,
        lambda: log.flush(active=False),
        lambda: log.append_as_leader([record(1)]),
        lambda: log.truncate_to(1),
        log.roll,
        log.close,
    ):
        if use is not log.close or trigger != "close" or not log._state.is_closed:
            with pytest.raises(LogOfflineError, match="open it again"):
                use()
    assert log.recovery_point <= max(point, 0) or trigger == "start anew"
    if trigger in ("flush", "roll and flush", "close"):
        assert all_records(log) == before, "it can still be read"
    log.close_handlers()
    with open_log(path, clean=False, recovery_point=min(point, log.recovery_point)) as again:
        again.append_as_leader([record(100)], leader_epoch=9)
        again.flush()
        assert again.recovery_point == again.log_end_offset


def _once(rule: Rule) -> Rule:
    failed = False

    def once(call: Call) -> Fault | None:
        nonlocal failed
        fault = None if failed else rule(call)
        failed = failed or fault is not None
        return fault

    return once


def test_flush_messages_acknowledges_nothing_after_a_failed_sync(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, _well)
    log = open_log(tmp_path / "orders-0", replace(SMALL, flush_messages=1), fs=fs)
    log.append_as_leader([record(0)])
    fs.rule = fail_on("sync", "*.log", errno.EIO, times=1)
    for number in (1, 2):
        with pytest.raises(LogOfflineError):
            log.append_as_leader([record(number)])
    assert log.recovery_point == 1
    log.close_handlers()


def test_a_flush_that_waited_for_one_that_failed_fails_too(tmp_path: Path) -> None:
    """The kernel reports a failed write once: to the one of two callers that comes first."""
    fs = FaultyFileSystem(LOCAL, _well)
    log = open_log(tmp_path / "orders-0", fs=fs)
    log.append_as_leader([record(0)])
    failures: list[BaseException] = []

    def flush() -> None:
        try:
            log.flush()
        except LogOfflineError as error:
            failures.append(error)

    def rule(call: Call) -> Fault | None:
        if call.operation == "sync" and call.path.endswith(".log") and not second.is_alive():
            second.start()
            second.join(0.2)
            return Fault(errno.EIO)
        return None

    second = threading.Thread(target=flush)
    fs.rule = rule
    flush()
    second.join(PATIENCE_S)
    assert len(failures) == 2
    assert log.recovery_point == 0
    log.close_handlers()


# The end


def test_closing_and_deleting_again_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    log = open_log(path)
    log.append_as_leader([record(0)])
    log.close()
    log.close()
    with pytest.raises(LogClosedError):
        log.append_as_leader([record(1)])
    log.delete()
    assert not path.exists()
    log.delete()
    log.close()
    log.close_handlers()


def test_recovery_vouches_for_nothing_before_it_is_flushed(crashing: CrashFileSystem) -> None:
    path = Path("/disk/orders-0")
    log = open_log(path, fs=crashing)
    log.append_as_leader([record(number) for number in range(5)])
    log.flush()
    log.append_as_leader([record(number) for number in range(5, 9)])
    log.close_handlers()  # killed: what was not flushed is in the system's memory
    log = open_log(path, fs=crashing, clean=False, recovery_point=5)
    assert (log.recovery_point, log.log_end_offset) == (5, 9)
    log.flush()
    assert log.recovery_point == 9
    assert len(all_records(open_log(path, fs=crashing.crash(kept="synced"), clean=False))) == 9


def test_recovery_ends_before_a_batch_that_is_another_logs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    for number in range(4):
        log.append_as_leader([record(number)])
    log.close()
    path = next((tmp_path / "orders-0").glob("*.log"))
    data = path.read_bytes()
    first = data[: len(data) // 4]
    path.write_bytes(data + first + data)  # blocks that the disk gave to a write that never came
    log = open_log(tmp_path / "orders-0", clean=False, recovery_point=4)
    assert _values(log) == [f"value {number}" for number in range(4)]
    assert path.read_bytes() == data
    log.append_as_leader([record(4)])
    assert len(all_records(log)) == 5
