"""The limit on what cleaning reads and writes."""

from __future__ import annotations

from tidelog.manager.background.throttle import Throttle


def test_a_limit_is_kept_on_average() -> None:
    now = [0.0]
    checks = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = Throttle(1000, clock=lambda: now[0], sleep=sleep)
    for _ in range(100):
        now[0] += 0.01  # the work itself
        throttle(50, lambda: checks.append(now[0]))
    assert 4.6 <= now[0] <= 5.1, "5000 bytes in five seconds"
    assert len(checks) > 50, "a wait can be cut short"
    free = Throttle(1e9, clock=lambda: now[0], sleep=sleep)
    begin = now[0]
    for _ in range(100):
        free(50)
    assert now[0] == begin
