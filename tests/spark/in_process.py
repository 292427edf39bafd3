"""Tasks of jobs, run in this process: all that travels is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.cleanup.cleaning import PassesBy
from tidelog.spark.compaction.passes import DistributedPasses

__all__ = ["LocalSpark", "distributed", "run_here"]


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


class LocalSpark:
    """As much of a session as jobs ask of Spark: tasks over numbers, report frames, a listing of files.

    A process can be forked with it, and killed at any call, which Java does not survive.
    """

    defaultParallelism = 2

    def __init__(self) -> None:
        self._sc = self.sparkContext = self
        self.conf = _Settings()
        self.read = _Files()

    def parallelize(self, numbers: Sequence[int], slices: int) -> _Numbers:
        assert len(numbers) == slices
        return _Numbers(numbers)

    def createDataFrame(self, table: pa.Table, schema: Any) -> _Frame:
        assert table.column_names == schema.names
        return _Frame(table)


class _Settings(dict[str, Any]):
    set = dict.__setitem__
    unset = dict.pop


class _Numbers:
    """An RDD of a number a task."""

    def __init__(self, numbers: Sequence[int], work: Callable[[Any], Iterator[Any]] | None = None) -> None:
        self._numbers = numbers
        self._work = work

    def mapPartitions(self, work: Callable[[Any], Iterator[Any]]) -> _Numbers:
        return _Numbers(self._numbers, work)

    def collect(self) -> list[Any]:
        assert self._work is not None
        return [found for number in self._numbers for found in self._work(iter([number]))]


class _Frame:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:
        return self._table


class _Files:
    """`spark.read.format("binaryFile")`: name, size and time of the files in a directory."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def format(self, name: str) -> _Files:
        assert name == "binaryFile"
        return self

    def options(self, **options: str) -> _Files:
        return self

    def load(self, path: str) -> _Files:
        return _Files(path)

    def selectExpr(self, *names: str) -> _Files:
        return self

    def collect(self) -> list[tuple[str, int, int]]:
        there = sorted(Path(self._path).iterdir())
        facts = [(path.absolute().as_uri(), path.stat()) for path in there if path.name[0] not in "._"]
        return [(uri, each.st_size, each.st_mtime_ns // 1_000_000) for uri, each in facts]
