"""The search kernel compiled and as plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from tests.kernels_twin import twin
from tidelog.kernels import search

TWINS = ("compiled", "plain")


def module(name: str) -> ModuleType:
    """The kernel called `name`."""
    return search if name == "compiled" else twin("search")


@contextmanager
def use(name: str) -> Iterator[None]:
    """Have the indexes use the kernel called `name`."""
    kernel = module(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidelog.index.base.Entries", kernel.Entries)
        patch.setattr("tidelog.index.base.floor_many", kernel.floor_many)
        patch.setattr("tidelog.index.active.Entries", kernel.Entries)
        yield
