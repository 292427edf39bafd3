"""`format("tidelog")`: the data source that Spark finds by itself, through `pyspark_tidelog`.

Spark starts a Python process for each `load` only to ask this: what a query does not need is imported late.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tidelog.scanning.losses import Corrupt
from tidelog.spark.runtime.shipping import Shipped
from tidelog.spark.source.batch import BatchReader
from tidelog.spark.source.offsets import select_partitions
from tidelog.spark.source.options import SourceOptions, bad_option
from tidelog.spark.source.schemas import Wanted, source_schema, typed_source

if TYPE_CHECKING:
    from tidelog.spark.sink.writers import BatchSink, StreamSink
    from tidelog.spark.source.streaming import StreamReader

__all__ = ["TidelogSource"]


class TidelogSource(Shipped, DataSource):
    """Directories of Kafka's logs as DataFrames, under the options of Spark's Kafka connector."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """What `format(...)` takes."""
        return "tidelog"

    def schema(self) -> StructType:
        """The connector's columns and what the options add; asked at `load`, so the path is checked here."""
        select_partitions(self._options, may_be_none=True)
        if self._options.table == "losses":
            from tidelog.spark.source.loss_table import LOSS_COLUMNS

            return LOSS_COLUMNS
        return source_schema(self._options, typed_source(self._options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of the columns in `schema`."""
        if self._options.table == "losses":
            from tidelog.spark.source.loss_table import LossReader

            return LossReader(self._options, schema)
        return BatchReader(self._options, Wanted.of(schema, typed_source(self._options)))

    def streamReader(self, schema: StructType) -> StreamReader:
        """A stream of the columns in `schema`."""
        if self._options.table != "records":
            raise bad_option("table", f"{self._options.table} can only be read in a batch query")
        if self._options.corrupt is Corrupt.STOP:
            raise bad_option("corrupt", "a stream does not stop: choose fail or skip")
        from tidelog.spark.source.streaming import StreamReader

        return StreamReader(self._options, Wanted.of(schema, typed_source(self._options)))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """A batch write of rows with these columns."""
        from tidelog.spark.sink.options import SinkOptions
        from tidelog.spark.sink.writers import BatchSink

        return BatchSink(SinkOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        """A stream of rows with these columns.

        `overwrite` is Spark's word for output mode `complete`. All of the result is appended then, as the
        connector does it: the topic's older records may be others', and stay.
        """
        from tidelog.spark.sink.options import SinkOptions
        from tidelog.spark.sink.writers import StreamSink

        return StreamSink(SinkOptions.parse(self.options), schema, overwrite=False)
