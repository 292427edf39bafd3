"""`plan`: what a batch query would read, without Spark: which bytes of which files, in which of its tasks.

Segments that do not appear are never opened; that is how a range by offset or time is seen to be resolved
through the indexes.
"""

from __future__ import annotations

import pyarrow as pa

from tidelog.spark.source.batch import plan_batch
from tidelog.spark.source.options import SourceOptions

__all__ = ["PLAN_SCHEMA", "plan"]

PLAN_SCHEMA = pa.schema(
    [
        pa.field("split", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("file", pa.string()),
        pa.field("start_position", pa.int64()),
        pa.field("end_position", pa.int64()),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
    ]
)
"""A row for each stretch of a file. The offsets are those of the partition's whole range."""


def plan(path: str, **options: object) -> pa.Table:
    """What each task of `spark.read.format("tidelog").options(...).load(path)` reads, with these options.

    Options with a dot in their name go through a dict: `plan(path, **{"kafka.isolation.level": ...})`.
    """
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    parts = plan_batch(SourceOptions.parse(texts | {"path": str(path)}))
    rows = [
        {
            "split": number,
            "topic": task.topic,
            "partition": task.partition,
            "file": task.source,
            "start_position": task.start_position,
            "end_position": task.end_position,
            "start_offset": task.start_offset,
            "end_offset": task.end_offset,
        }
        for number, part in enumerate(parts)
        for split in part.splits
        for task in split.tasks
    ]
    return pa.Table.from_pylist(rows, schema=PLAN_SCHEMA)
