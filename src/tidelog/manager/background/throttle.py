"""A limit on how much is read and written in a second, kept on average."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Throttle"]

_LOOK_S = 0.3
"""How long is averaged over."""
_NAP_S = 0.05
"""How long a wait continues before it is asked whether it is to stop."""
_SHORTEST_S = 0.001
"""A wait that is not worth while."""


class Throttle:
    """Told of bytes as they pass; waits when they were too many. One thread."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._begin = clock()
        self._passed = 0

    def __call__(self, size_bytes: int, check: Callable[[], None] = lambda: None) -> None:
        """So many bytes pass. `check` is called while it waits, and may raise to end that."""
        self._passed += size_bytes
        elapsed = self._clock() - self._begin
        wait_until = self._passed / self.bytes_per_second
        if elapsed < _LOOK_S and wait_until - elapsed < _LOOK_S:
            return
        while (left := wait_until - (self._clock() - self._begin)) > _SHORTEST_S:
            check()
            self._sleep(min(left, _NAP_S))
        self._begin, self._passed = self._clock(), 0
