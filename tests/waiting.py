"""Waiting for something to happen, with patience: a busy machine is no failure."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

__all__ = ["PATIENCE_S", "wait_until"]

PATIENCE_S = 60.0
"""Much longer than anything takes here: what is not there by then does not come."""


def wait_until(done: Callable[[], object], what: str = "it") -> None:
    """Ask again and again until it is so; the test fails if it never is."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            pytest.fail(f"{what} did not happen in {PATIENCE_S:g} seconds")
        time.sleep(0.01)
