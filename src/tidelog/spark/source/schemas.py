"""The source's schema, and what of it a query wants.

The columns are those of Spark's Kafka connector, in its order; `headers` and the facts of the batch come
after them where they are asked for. A schema given by the user names the columns it wants, in any order, and
nothing else is decoded. A column that is decoded by a schema (`tidelog.values`) has that schema's type, and
two more columns after it: what did not decode, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from tidelog.errors import InvalidInputError
from tidelog.records.schema import ALL_COLUMNS, BATCH_FACTS, RECORD_COLUMNS, Projection
from tidelog.scanning.reader import plan_scan
from tidelog.scanning.typed import TypedColumns, seen_ids
from tidelog.spark.source.offsets import select_partitions
from tidelog.spark.source.options import SourceOptions, Subscribed
from tidelog.values.conforming import conform
from tidelog.values.spec import ColumnDecoder, Values

__all__ = ["Wanted", "arrow_schema", "source_schema", "typed_source"]

_TYPES = {
    field.name: StructField(field.name, from_arrow_type(field.type, True))
    for field in Projection.of(ALL_COLUMNS).schema
}
_AS_THEY_ARE = TypedColumns()


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema of Spark's as Arrow's, times in UTC."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before 4.2 there is no choice: they are
        return to_arrow_schema(schema)


def typed_source(options: SourceOptions) -> TypedColumns:
    """The decoders of a source's columns, by the topics that there are."""
    if options.values is None and options.keys is None:
        return _AS_THEY_ARE
    topics = sorted({one.topic_partition.topic for one in select_partitions(options, may_be_none=True)})
    if not topics and isinstance(options.selection, Subscribed):
        topics = list(options.selection.topics)

    def decoder(column: str, spec: Values) -> ColumnDecoder:
        def seen() -> list[int]:
            return list(seen_ids(column, plan_scan(list(options.paths), topics, corrupt=options.corrupt)))

        return spec.decoder(topics, seen, column=column, portable=True)

    wanted = {"key": options.keys, "value": options.values}
    return TypedColumns(tuple(decoder(name, spec) for name, spec in wanted.items() if spec is not None))


def source_schema(options: SourceOptions, typed: TypedColumns = _AS_THEY_ARE) -> StructType:
    """The schema of a source with these options."""
    columns = [name for name in RECORD_COLUMNS if name != "headers" or options.include_headers]
    if options.include_batch_facts:
        columns += BATCH_FACTS
    types = _types(typed)
    return StructType([types[name] for column in columns for name in _names_of(column, typed)])


def _types(typed: TypedColumns) -> dict[str, StructField]:
    """The columns that there are."""
    own = {
        one.name: StructField(one.name, from_arrow_type(one.type, True))
        for decoder in typed.decoders
        for one in decoder.fields
    }
    return _TYPES | own


def _names_of(column: str, typed: TypedColumns) -> list[str]:
    """The columns that one becomes."""
    for decoder in typed.decoders:
        if decoder.column == column:
            return [one.name for one in decoder.fields]
    return [column]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns to decode, and the exact Arrow schema that Spark waits for."""

    projection: Projection
    arrow_schema: pa.Schema
    typed: TypedColumns = _AS_THEY_ARE
    names: tuple[str, ...] = ()
    """The columns of `typed`, in Spark's order."""

    @classmethod
    def of(cls, schema: StructType, typed: TypedColumns = _AS_THEY_ARE) -> Wanted:
        """What a schema asks for; `InvalidInputError` for a column that is not there or has another type."""
        types = _types(typed)
        by_lower_name = {name.lower(): name for name in types}
        names = []
        for field in schema.fields:
            name = by_lower_name.get(field.name.lower())
            if name is None:
                raise InvalidInputError(
                    f"schema: there is no column {field.name!r}; there are {', '.join(types)}"
                )
            if field.dataType.simpleString() != types[name].dataType.simpleString():
                raise InvalidInputError(
                    f"schema: column {field.name!r} is {types[name].dataType.simpleString()}, "
                    f"not {field.dataType.simpleString()}"
                )
            names.append(name)
        if not names:
            raise InvalidInputError("schema: name at least one column")
        source = {name: column for column in ALL_COLUMNS for name in _names_of(column, typed)}
        columns = tuple(dict.fromkeys(source[name] for name in names))
        used = TypedColumns(tuple(one for one in typed.decoders if one.column in columns))
        return cls(Projection.of(columns), arrow_schema(schema), used, tuple(names))

    def shape(self, batch: pa.RecordBatch, topic: str = "") -> pa.RecordBatch:
        """A decoded batch of a topic under the names and flags that Spark waits for."""
        if self.typed.decoders:
            decoded = self.typed.decode(batch, topic)
            columns = [
                conform(decoded.column(name), field.type)
                for name, field in zip(self.names, self.arrow_schema, strict=True)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
        if batch.schema.equals(self.arrow_schema):
            return batch
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.arrow_schema)
