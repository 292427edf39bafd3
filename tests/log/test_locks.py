"""The lock that writers of a log hold: one thread at a time, as often as it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.kernels_twin import TWINS, twin
from tests.waiting import wait_until
from tidelog.kernels import locks


@pytest.fixture(params=TWINS)
def new_lock(request: pytest.FixtureRequest) -> Callable[[], Any]:
    kernel = locks if request.param == "compiled" else twin("locks")
    made: Callable[[], Any] = kernel.Lock
    return made


def test_many_threads_hold_it_one_at_a_time(new_lock: Callable[[], Any]) -> None:
    lock, held, seen = new_lock(), [0], [0]

    def work() -> None:
        for _ in range(2_000):
            with lock, lock:
                before = seen[0]
                held[0] += 1
                assert held[0] == 1
                held[0] -= 1
                seen[0] = before + 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [16_000]


def test_who_waits_goes_on_only_when_it_was_given_back_as_often_as_it_was_taken(
    new_lock: Callable[[], Any],
) -> None:
    lock, order = new_lock(), []

    def wait() -> None:
        order.append("waits")
        with lock:
            order.append("holds")

    threads = [threading.Thread(target=wait) for _ in range(3)]
    with lock:
        with lock:
            for thread in threads:
                thread.start()
            wait_until(lambda: order.count("waits") == 3)
        order.append("gives")
    for thread in threads:
        thread.join(60)
    assert sorted(order[:3]) == ["waits"] * 3
    assert order[3:] == ["gives", "holds", "holds", "holds"]


def test_it_is_given_back_after_an_error(new_lock: Callable[[], Any]) -> None:
    lock = new_lock()
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    thread = threading.Thread(target=lock.__enter__)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_no_thread_gives_back_what_another_one_holds(new_lock: Callable[[], Any]) -> None:
    lock, refused = new_lock(), []

    def give_back() -> None:
        with pytest.raises(RuntimeError):
            lock.__exit__(None, None, None)
        refused.append(True)

    with lock:
        thread = threading.Thread(target=give_back)
        thread.start()
        thread.join(60)
    assert refused == [True]
    with pytest.raises(RuntimeError):
        lock.__exit__(None, None, None)
