"""The source's schema, and what of it a query wants.

The columns are those of Spark's Kafka connector, in its order; `headers` and the facts of the batch come
after them where they are asked for. A schema given by the user names the columns it wants, in any order, and
nothing else is decoded.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from tidelog.errors import InvalidInputError
from tidelog.records.schema import ALL_COLUMNS, BATCH_FACTS, RECORD_COLUMNS, Projection
from tidelog.spark.source.options import SourceOptions

__all__ = ["Wanted", "arrow_schema", "source_schema"]

_TYPES = {
    field.name: StructField(field.name, from_arrow_type(field.type, True))
    for field in Projection.of(ALL_COLUMNS).schema
}
_BY_LOWER_NAME = {name.lower(): name for name in ALL_COLUMNS}


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema of Spark's as Arrow's, times in UTC."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before 4.2 there is no choice: they are
        return to_arrow_schema(schema)


def source_schema(options: SourceOptions) -> StructType:
    """The schema of a source with these options."""
    columns = [name for name in RECORD_COLUMNS if name != "headers" or options.include_headers]
    if options.include_batch_facts:
        columns += BATCH_FACTS
    return StructType([_TYPES[name] for name in columns])


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns to decode, and the exact Arrow schema that Spark waits for."""

    projection: Projection
    arrow_schema: pa.Schema

    @classmethod
    def of(cls, schema: StructType) -> Wanted:
        """What a schema asks for; `InvalidInputError` for a column that is not there or has another type."""
        columns = []
        for field in schema.fields:
            name = _BY_LOWER_NAME.get(field.name.lower())
            if name is None:
                raise InvalidInputError(
                    f"schema: there is no column {field.name!r}; there are {', '.join(ALL_COLUMNS)}"
                )
            if field.dataType.simpleString() != _TYPES[name].dataType.simpleString():
                raise InvalidInputError(
                    f"schema: column {field.name!r} is {_TYPES[name].dataType.simpleString()}, "
                    f"not {field.dataType.simpleString()}"
                )
            columns.append(name)
        if not columns:
            raise InvalidInputError("schema: name at least one column")
        return cls(Projection.of(columns), arrow_schema(schema))

    def shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A decoded batch under the names and flags that Spark waits for."""
        if batch.schema.equals(self.arrow_schema):
            return batch
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.arrow_schema)
