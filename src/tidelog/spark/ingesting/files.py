"""Files into topics, by a ledger of batches (`ledger`).

1. What a writer before us left unfinished in the root is finished: then its journal says what was published.
2. Batches of the ledger that the root does not have are taken first, each with just the files it was given.
3. Spark lists the source's files. Those that are in no batch make new ones, so many at a time.
4. Each batch is written down, staged by tasks, and published under the ledger's id and its number.

Where they can, tasks read the files by themselves (`parquet`); where not, Spark reads them, and the sink does
the rest. What is written is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import InvalidInputError
from tidelog.spark.ingesting.batches import BatchWriter
from tidelog.spark.ingesting.ledger import SourceFile
from tidelog.spark.ingesting.parquet import LoadPlan, LoadWork, local_file, plan_load
from tidelog.spark.ingesting.records import RECORD_COLUMNS, Columns, FileSource
from tidelog.spark.runtime.jobs import pack, share_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FileIngest", "is_file_source"]

_FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
_LISTING_OPTIONS = frozenset(
    {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "timezone", "basepath"}
)
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


def is_file_source(source: FileSource) -> bool:
    """Whether a source is files, which can be listed."""
    return source.path is not None and source.format.lower() in _FILE_FORMATS


class FileIngest:
    """One run of an ingest of files."""

    def __init__(
        self,
        spark: SparkSession,
        source: FileSource,
        columns: Columns,
        sink: Mapping[str, str],
        progress: Path,
    ) -> None:
        """`sink` has the options of the sink; `progress` is the ledger's directory, held by the caller."""
        self._spark = spark
        self._source = source
        self._path = source.path or ""
        self._columns = columns
        self._batches = BatchWriter(spark, columns, sink, progress)
        self._options = self._batches.options
        self._ledger = self._batches.ledger
        if self._ledger.position is not None:
            raise InvalidInputError(f"{progress} is that of an ingest from a table: take another name")

    def run(self, files_at_a_time: int) -> None:
        """Take what is there and was not taken."""
        there = self._list()
        known = set(there)
        ledger = self._ledger
        if not there and not ledger.batches:
            _ = self._frame  # Spark says what is wrong with a source without files, or nothing
        journal = self._batches.settled()
        for number, files in enumerate(ledger.batches):
            if not journal.has(ledger.query, number):
                self._check_there(number, (one.path for one in files if one not in known))
                self._take(number, files)
        fresh = ledger.fresh(there)
        for start in range(0, len(fresh), files_at_a_time):
            files = tuple(fresh[start : start + files_at_a_time])
            self._take(ledger.add(files), files)

    def _list(self) -> list[SourceFile]:
        """The files as Spark lists them: globs, hidden files and directories as everywhere in Spark."""
        told = {key: value for key, value in self._source.options.items() if key.lower() in _LISTING_OPTIONS}
        listed = self._spark.read.format("binaryFile").options(**told).load(self._path)
        facts = listed.selectExpr(
            "_metadata.file_path", "_metadata.file_size", "unix_millis(_metadata.file_modification_time)"
        )
        return [SourceFile(str(path), int(size), int(mtime)) for path, size, mtime in facts.collect()]

    def _check_there(self, number: int, missing: Iterable[str]) -> None:
        """Refuse a batch whose files are not what they were: which rows it has must not change."""
        gone = next(iter(missing), None)
        if gone is None:
            return
        is_last = number == len(self._ledger.batches) - 1
        advice = (
            f"remove {self._ledger.file(number)}, and its files are listed anew"
            if is_last
            else "bring it back, or ingest under another name"
        )
        raise InvalidInputError(
            f"{gone} was changed or removed after an ingest had begun to take it. Nothing of its batch was "
            f"published: {advice}"
        )

    def _take(self, number: int, files: Sequence[SourceFile]) -> None:
        """Stage and publish a batch."""
        plan = self._plan(files)
        if plan is None:
            self._write(number, files)
        else:
            self._load(number, plan)

    def _plan(self, files: Sequence[SourceFile]) -> LoadPlan | None:
        source = self._source
        if source.format.lower() != "parquet":
            return None
        if any(self._spark.conf.get(name, "false") == "true" for name in _LENIENT):
            return None
        columns = {name: getattr(self._columns, name) for name in RECORD_COLUMNS}
        plan = plan_load(self._path, source.options, columns, files)
        if plan is None or (self._options.topic is None and "topic" not in dict(plan.columns)):
            return None
        return plan

    def _load(self, number: int, plan: LoadPlan) -> None:
        """Have tasks read the files by themselves."""
        splits = pack(plan.groups, share_bytes(self._spark, plan.size))
        self._batches.load(
            number, splits, lambda writing, directory: LoadWork(writing, directory, plan.columns)
        )

    def _write(self, number: int, files: Sequence[SourceFile]) -> None:
        """Have Spark read the files, and the sink write them."""
        listed = self._listed
        self._check_there(number, (one.path for one in files if _plain(one.path) not in listed))
        self._batches.write(number, self._in_order(files))

    def _in_order(self, files: Sequence[SourceFile]) -> DataFrame:
        """The rows of files, in the order of the files."""
        from pyspark.sql import functions as sql

        cost = (self._spark.conf.get("spark.sql.files.openCostInBytes") or "").rstrip("bB")
        runs = ordered_runs(files, int(cost) if cost.isdigit() else 0)
        path = sql.col("_metadata.file_path")
        frames = [self._frame.where(path.isin([one.path for one in run])) for run in runs]
        while len(frames) > 1:  # as a tree that is not deep
            pairs = [frames[n : n + 2] for n in range(0, len(frames), 2)]
            frames = [pair[0].union(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
        return frames[0]

    @cached_property
    def _frame(self) -> DataFrame:
        """All of the source; Spark lists the files, and reads them for the schema, once in a run."""
        source = self._source
        return self._spark.read.format(source.format).options(**source.options).load(self._path)

    @cached_property
    def _listed(self) -> frozenset[str]:
        """The files that Spark will read: it lists them again."""
        return frozenset(map(_plain, self._frame.inputFiles()))


def ordered_runs(files: Sequence[SourceFile], unsplit_bytes: int) -> list[list[SourceFile]]:
    """Neighbours that Spark reads in this order if it is given them at once.

    It takes pieces of files by size, the largest first, and never cuts what has at most `unsplit_bytes`. So a
    run has small files only, each smaller than the one before; a large file is a run of its own.
    """
    runs: list[list[SourceFile]] = []
    for file in files:
        last = runs[-1][-1] if runs else None
        if last is not None and file.size < last.size <= unsplit_bytes:
            runs[-1].append(file)
        else:
            runs.append([file])
    return runs


def _plain(url: str) -> str:
    """A file's name, which Spark writes in one way or another (`file:/x`, `file:///x`)."""
    return local_file(url) or url
