"""What an ingest reads, and how its columns become those of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RECORD_COLUMNS", "Columns", "FileSource", "records_of"]

RECORD_COLUMNS = ("key", "value", "timestamp", "topic", "partition", "headers")
"""The columns of a record."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """What `spark.readStream` can read: a format, where, and its options."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Columns:
    """SQL expressions over the source's columns that make a record; None for a column of that name, if any.

    Without a column or an expression for `value`, it is all columns as JSON.
    """

    value: str | None = None
    key: str | None = None
    timestamp: str | None = None
    topic: str | None = None
    partition: str | None = None
    headers: str | None = None


def records_of(frame: DataFrame, columns: Columns) -> DataFrame:
    """The columns of a record."""
    from pyspark.sql import functions as sql

    there = set(frame.columns)
    made = []
    for column in RECORD_COLUMNS:
        wanted = getattr(columns, column)
        if wanted is not None:
            made.append(sql.expr(wanted).alias(column))
        elif column in there:
            made.append(sql.col(column))
        elif column == "value":
            made.append(sql.to_json(sql.struct(*(f"`{each}`" for each in frame.columns))).alias("value"))
    found = frame.select(*made)
    types = dict(found.dtypes)
    for column in ("key", "value"):
        if types.get(column, "string") not in ("string", "binary"):
            found = found.withColumn(column, sql.col(column).cast("string"))
    if types.get("partition", "int") != "int":
        found = found.withColumn("partition", sql.col("partition").cast("int"))
    return found
