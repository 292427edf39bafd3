"""Who is at work on a partition's segments, and who may stop them."""

from __future__ import annotations

import threading

import pytest

from tests.waiting import wait_until
from tidelog.manager.background.cleaner_states import CleanerStates, CleaningAbortedError
from tidelog.types import TopicPartition


def test_who_works_is_alone_and_can_be_stopped() -> None:
    states, name = CleanerStates(), TopicPartition("t", 0)
    assert states.begin(name)
    assert not states.begin(name)
    assert states.begin(TopicPartition("t", 1))
    states.check(name)
    assert states.is_working(name)
    order = []

    def pause() -> None:
        with states.paused(name):
            order.append("paused")
            assert not states.begin(name)
            with states.paused(name):
                assert states.is_paused(name)
            assert not states.begin(name)

    thread = threading.Thread(target=pause)
    thread.start()
    wait_until(lambda: states.is_paused(name))
    with pytest.raises(CleaningAbortedError):
        states.check(name)
    order.append("stopped")
    states.end(name)
    thread.join()
    assert order == ["stopped", "paused"]
    assert states.begin(name)
    states.close()
    with pytest.raises(CleaningAbortedError):
        states.check(name)
    states.end(name)
    assert not states.begin(name)
