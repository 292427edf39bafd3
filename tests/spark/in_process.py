"""The tasks of a distributed compaction, run in this process: all that travels is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.cleanup.cleaning import PassesBy
from tidelog.spark.compaction.passes import DistributedPasses

__all__ = ["distributed", "run_here"]


def run_here(work: Callable[[int, Any], Any], splits: Sequence[Any]) -> list[Any]:
    """One split after the other, each as a task would get it."""
    parcels = [pickle.dumps((work, number, split)) for number, split in enumerate(splits)]
    return [pickle.loads(pickle.dumps(_do(*pickle.loads(parcel)))) for parcel in parcels]


def _do(work: Callable[[int, Any], Any], number: int, split: Any) -> Any:
    return work(number, split)


def distributed(staging: Path, share_bytes: int = 1) -> PassesBy:
    """Passes by tasks of so many bytes; by default a segment or a group each."""
    return lambda map_bytes, load_factor: DistributedPasses(
        run_here, staging, share_bytes=share_bytes, dedupe_bytes=map_bytes, load_factor=load_factor
    )
