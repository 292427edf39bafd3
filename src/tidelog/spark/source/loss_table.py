"""`option("table", "losses")`: what reading past damage leaves out, one row a loss.

Splits are those of a batch read of the same options. A task tells the losses that begin in its bytes, so a
loss that spans splits is one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidelog.scanning.losses import LOSS_SCHEMA, Corrupt
from tidelog.scanning.salvage import task_losses
from tidelog.spark.runtime.shipping import Shipped
from tidelog.spark.source.batch import SplitPartition, plan_batch
from tidelog.spark.source.options import SourceOptions, bad_option

__all__ = ["LOSS_COLUMNS", "LossReader"]

LOSS_COLUMNS = StructType(from_arrow_schema(LOSS_SCHEMA).fields)
"""The columns of the table."""

_ROWS = 1 << 10


class LossReader(Shipped, DataSourceReader):
    """Reads all records that the options ask for, and answers what is lost of them."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if schema.fieldNames() != LOSS_COLUMNS.fieldNames():
            raise bad_option("table", f"losses have the columns {', '.join(LOSS_COLUMNS.fieldNames())}")
        self._options = replace(options, corrupt=Corrupt.SKIP, fail_on_data_loss=False)

    def partitions(self) -> list[InputPartition]:
        """The splits of a batch read."""
        return list(plan_batch(self._options, to_the_end=True))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The losses of a split."""
        if not isinstance(partition, SplitPartition):
            return
        rows = []
        for split in partition.splits:
            for task in split.tasks:
                for loss in task_losses(task):
                    rows.append(asdict(loss))
                    if len(rows) >= _ROWS:
                        yield pa.RecordBatch.from_pylist(rows, schema=LOSS_SCHEMA)
                        rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=LOSS_SCHEMA)
