"""One thread writes, others read: they see whole entries, and nothing of what is gone."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.index import AbortedTxn, ActiveOffsetIndex, ActiveTimeIndex, TransactionIndex
from tidelog.storage import Directory


@pytest.fixture(autouse=True)
def eager_switching() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def run(readers: list[Callable[[], None]], write: Callable[[], None]) -> None:
    """Run `write` while each reader runs over and over; raise what a reader raised."""
    done = threading.Event()
    failures: list[BaseException] = []

    def loop(reader: Callable[[], None]) -> None:
        while not done.is_set() and not failures:
            try:
                reader()
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=loop, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        write()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def test_appends_are_seen_whole(directory: Directory) -> None:
    """Entry n is (3n, 7n + 1): any other pair is a torn one."""
    index = ActiveOffsetIndex(directory, 0, 1 << 20)
    times = ActiveTimeIndex(directory, 0, 1 << 20)

    def one() -> None:
        found = index.lookup(1 << 40)
        assert found.position == (found.offset // 3 * 7 + 1 if index.entries and found.position else 0)
        last = times.lookup(1 << 50)
        assert last.timestamp == (last.offset * 5 if last.timestamp >= 0 else -1)

    def many() -> None:
        offsets, positions = index.entries_array()
        assert (positions == offsets // 3 * 7 + 1).all()
        found, at = index.lookup_many(offsets[::50])
        assert (found == offsets[::50]).all()
        assert (at == positions[::50]).all()

    def write() -> None:
        for n in range(20_000):
            index.append(3 * n, 7 * n + 1)
            times.maybe_append(5 * n, n)

    run([one, one, many], write)


def test_readers_survive_truncation_and_trimming(directory: Directory) -> None:
    """Whatever shrinks the file takes readers off first: touching what was cut would kill the process."""
    index = ActiveOffsetIndex(directory, 0, 1 << 19)
    deadline = time.monotonic() + 1.5

    def read() -> None:
        found = index.lookup(1 << 40)
        assert found.position in (0, found.offset + 1)
        offsets, positions = index.entries_array()
        assert (positions == offsets + 1).all()

    def write() -> None:
        while time.monotonic() < deadline:
            index.append_many(range(60_000), range(1, 60_001))
            index.trim_to_valid_size()
            index.truncate_to(3)
            index.trim_to_valid_size()
            index.reset()

    run([read, read], write)


def test_readers_survive_sealing(directory: Directory) -> None:
    current = [ActiveOffsetIndex(directory, 0, 1 << 19)]

    def read() -> None:
        index = current[0]
        found = index.lookup(1 << 40)
        assert found.position in (0, found.offset - index.base_offset + 1)

    def write() -> None:
        for base in range(1, 300):
            index = current[0]
            index.append_many([base - 1, base + 500], [1, 502])
            index.seal()
            current[0] = ActiveOffsetIndex(directory, base, 1 << 19)

    run([read, read], write)


def test_aborted_transactions_are_seen_whole(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    index = TransactionIndex(directory, 0)

    def read() -> None:
        txns = index.all_aborted_txns()
        assert txns == [AbortedTxn(n, n, n + 1, n + 2) for n in range(len(txns))]

    def write() -> None:
        for n in range(1500):
            index.append(AbortedTxn(n, n, n + 1, n + 2))
            if n % 100 == 0:
                index.seal()

    run([read, read], write)
