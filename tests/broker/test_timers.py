"""Deadlines by name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.effects import Effect
from tidelog.broker.timers import Timers


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20))), max_size=400))
def test_timers_are_a_table_of_deadlines(changes: list[tuple[str, int | None]]) -> None:
    timers, model = Timers(), dict[str, int]()
    rung: list[str] = []
    for name, at_ms in changes:
        if at_ms is None:
            timers.cancel(name)
            model.pop(name, None)
        else:

            def ring(_: int, name: str = name) -> list[Effect]:
                rung.append(name)
                return []

            timers.set(name, at_ms, ring)
            model[name] = at_ms
        assert timers.deadline(name) == model.get(name)
        assert timers.earliest == min(model.values(), default=None)
    while (action := timers.due(10)) is not None:
        action(10)
    assert sorted(rung) == sorted(name for name, at_ms in model.items() if at_ms <= 10)
    assert timers.due(10) is None


def test_a_deadline_that_moves_all_the_time_takes_no_room() -> None:
    timers = Timers()
    for at_ms in range(10_000):
        timers.set("busy", at_ms, lambda _: ())
    assert len(timers._queue) < 200
    assert timers.earliest == 9_999
