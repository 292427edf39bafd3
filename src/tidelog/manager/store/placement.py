"""Where a new partition goes: to the root with the fewest partitions, the first of several such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

__all__ = ["place"]

_T = TypeVar("_T")


def place(new: Iterable[int], roots: Sequence[_T], counts: Mapping[_T, int]) -> dict[int, _T]:
    """A root for each new partition; `counts` is how many each has, `roots` is in order of preference."""
    load = {root: counts.get(root, 0) for root in roots}
    placed = {}
    for number in new:
        chosen = min(roots, key=lambda root: load[root])
        load[chosen] += 1
        placed[number] = chosen
    return placed
