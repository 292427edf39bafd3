"""Batches of an ingest on their way into topics: each staged by tasks, and published once.

A batch is known in the root's journal by the ledger's id and its number.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidInputError
from tidelog.manager.publishing.committing import sweep_staging
from tidelog.manager.publishing.waiting import await_free, open_waiting
from tidelog.spark.ingesting.ledger import Ledger, is_ledger
from tidelog.spark.ingesting.parquet import LOADED_SCHEMA
from tidelog.spark.ingesting.records import Columns, records_of
from tidelog.spark.runtime.jobs import Work, run_job
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.writing import Writing, begin_staging, discard_staging
from tidelog.storage import LOCAL
from tidelog.storage.lock import LOCK_FILE
from tidelog.storage.processes import owner
from tidelog.storage.write_journal import WriteJournal, read_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BatchWriter"]


class BatchWriter:
    """Writes the batches of a ledger."""

    def __init__(
        self, spark: SparkSession, columns: Columns, sink: Mapping[str, str], progress: Path
    ) -> None:
        """`sink` has the options of the sink; `progress` is the ledger's directory, held by the caller."""
        there = {entry.name for entry in LOCAL.list(progress)} if LOCAL.exists(progress) else set()
        if there - {LOCK_FILE} and not is_ledger(progress):
            raise InvalidInputError(f"{progress} is that of a stream: take another name")
        self._spark = spark
        self._columns = columns
        self._sink = sink
        self.options = SinkOptions.parse(sink)
        self.ledger = Ledger(progress)

    def settled(self) -> WriteJournal:
        """The root's journal, when nothing is pending in it and what killed runs have staged is gone."""
        options = self.options
        await_free(options.roots, wait_ms=options.lock_timeout_ms, recover=options.recover)
        root = options.roots[0]
        if not LOCAL.exists(root):
            return WriteJournal()
        journal = read_journal(LOCAL, root)
        if journal.pending is not None:
            open_waiting(
                options.roots, wait_ms=options.lock_timeout_ms, config=options.broker, recover=options.recover
            ).close()
            journal = read_journal(LOCAL, root)
        self._sweep()
        return journal

    def load(self, number: int, splits: Sequence[Any], work: Callable[[Writing, str], Work]) -> None:
        """Have tasks stage the rows that they read by themselves, and publish here."""
        writing = Writing(self.options)
        directory = f"{self.options.staging}/{self._staging_name}-{number}-{uuid.uuid4().hex}"
        begin_staging(directory, owner())
        try:
            staged = run_job(self._spark, work(writing, directory), splits, LOADED_SCHEMA)
            staged.sort(key=lambda row: int(row["task"]))
            writing.publish([row["manifest"] for row in staged], directory, self.ledger.query, number)
        finally:
            discard_staging(directory)
        self._sweep()

    def write(self, number: int, frame: DataFrame) -> None:
        """Have the sink write what Spark has read."""
        writer = records_of(frame, self._columns).write.format("tidelog").mode("append").options(**self._sink)
        writer.option("writeId", self.ledger.query).option("writeBatch", number).save()
        self._sweep()

    def _sweep(self) -> None:
        """Remove what killed runs have staged."""
        options = self.options
        if self.ledger.query:
            sweep_staging(options.staging, prefix=f"{self._staging_name}-", root=options.roots[0])

    @property
    def _staging_name(self) -> str:
        return self.ledger.query.replace(" ", "-")
