"""`df.write.format("tidelog")` and `writeStream`: rows staged by tasks, published at once by the commit.

    writer, streamWriter    on the driver's side: options and columns are checked, topics looked up
    write                   in each task: the rows are staged outside of the root (`stager`)
    commit                  on the driver's side, in a process of its own: published under the root's lock,
                            in the order of the tasks (`manager.publishing`); or, if it fails,
    abort                   the staged files go

A streaming batch is known by its query's id and its number, a batch write by the options `writeId` and
`writeBatch`: what was published is not published again.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidelog.errors import InvalidInputError
from tidelog.manager.publishing.committing import sweep_staging
from tidelog.spark.runtime.shipping import Shipped
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.writing import Writing, begin_staging, discard_staging
from tidelog.storage.processes import owner

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchSink", "StagedTask", "StreamSink", "check_columns"]

_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES: dict[str, tuple[str, ...]] = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz", "bigint"),
    "headers": (_HEADERS,),
}
_NAME_LENGTH = 80
_QUERY, _BATCH, _RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):
    """What a task has staged: its manifest, and whose batch it is."""

    task: int
    name: str
    directory: str
    query: str
    batch: int


def check_columns(schema: StructType, has_topic: bool) -> None:
    """Refuse columns that are no records; others than those of a record are skipped."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise InvalidInputError(f"column 'value' is missing; there are {', '.join(types) or 'none'}")
    for name, allowed in _TYPES.items():
        found = types.get(name)
        if found is not None and found not in allowed:
            raise InvalidInputError(f"column {name!r} has type {found}; {' or '.join(allowed)} is expected")
    if "topic" not in types and not has_topic:
        raise InvalidInputError("name a topic: with the option topic, or a column 'topic'")


class _Sink(Shipped):
    """What batch and stream have in common."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check_columns(schema, options.topic is not None)
        self._writing = Writing(options, overwrite=overwrite)

    def _stage(self, batches: Iterator[pa.RecordBatch], directory: str, query: str, batch: int) -> StagedTask:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        is_stream = isinstance(self, StreamSink)
        name = self._writing.stage(batches, directory, task, is_stream=is_stream)
        return StagedTask(task, name, directory, query, batch)

    def _publish(self, messages: Sequence[Any], directory: str, query: str, batch: int) -> None:
        tasks = sorted((one for one in messages if isinstance(one, StagedTask)), key=lambda one: one.task)
        self._writing.publish([one.name for one in tasks], directory, query, batch)


class BatchSink(_Sink, DataSourceArrowWriter):
    """The writer of a batch."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        # Who writes under a name may know by it what a run that was killed has left (`ingesting.files`).
        name = re.sub(r"[^\w.-]", "-", options.write_id, flags=re.ASCII)[:_NAME_LENGTH] or "write"
        self._directory = f"{options.staging}/{name}-{uuid.uuid4().hex}"
        begin_staging(self._directory, owner())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of a task."""
        options = self._writing.options
        return self._stage(iterator, self._directory, options.write_id, options.write_batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks have staged."""
        options = self._writing.options
        self._publish(messages, self._directory, options.write_id, options.write_batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks have staged."""
        discard_staging(self._directory)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """The writer of a stream's batches."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._owner = owner()  # here on the driver: tasks begin the directories

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of a task."""
        context = TaskContext.get()
        told = {name: context.getLocalProperty(name) if context else None for name in (_QUERY, _BATCH, _RUN)}
        query, batch = told[_QUERY], told[_BATCH]
        if query is None or batch is None:
            raise InvalidInputError("Spark gives no query id, so this cannot be written exactly once")
        # Another run of the query must not touch the files of a batch that is being published.
        directory = f"{self._writing.options.staging}/{query}-{batch}-{told[_RUN] or 'run'}"
        # The driver does not know the batch; the next commit sweeps what comes late.
        begin_staging(directory, self._owner)
        return self._stage(iterator, directory, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish what the tasks of a batch have staged, unless it was published before."""
        first = next((one for one in messages if isinstance(one, StagedTask)), None)
        if first is not None:
            self._publish(messages, first.directory, first.query, first.batch)
            options = self._writing.options
            sweep_staging(options.staging, prefix=f"{first.query}-", root=options.roots[0])  # of earlier runs

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks of a batch have staged."""
        for directory in {one.directory for one in messages if isinstance(one, StagedTask)}:
            discard_staging(directory)
