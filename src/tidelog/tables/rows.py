"""The rows of a table's files, with the columns that the table has now.

Columns are found by field id if file and table have ids, else by name. Columns and nested fields that a file
does not have are null, or the same value in all rows (`AddedFile.constants`); narrower types are widened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.storage.remote import file_system
from tidelog.tables.changes import AddedFile

__all__ = ["open_file", "read_rows"]

_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 1 << 15
_BUFFER_BYTES = 1 << 20  # of each column; else all of a row group is read ahead
_FIELD_ID = b"PARQUET:field_id"
_types = pa.types


def read_rows(file: AddedFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A file's rows, a few megabytes at a time."""
    constants = dict(file.constants)
    try:
        with open_file(file.url) as source:
            parquet = pq.ParquetFile(
                source,
                pre_buffer=False,
                buffer_size=_BUFFER_BYTES,
                coerce_int96_timestamp_unit="us",  # Spark writes INT96; as nanoseconds, other centuries wrap
            )
            there = parquet.schema_arrow
            found = [_find(there, one) for one in columns]
            wanted = [there.names[at] for at in found if at is not None]
            for group in range(parquet.metadata.num_row_groups):
                facts = parquet.metadata.row_group(group)
                per_row = max(facts.total_byte_size // max(facts.num_rows, 1), 1)
                rows = min(max(_BATCH_BYTES // per_row, 1), _BATCH_ROWS)
                for batch in parquet.iter_batches(rows, [group], wanted, use_threads=False):
                    arrays = [
                        _constant(one, constants.get(one.name), batch.num_rows)
                        if at is None
                        else project(batch.column(there.names[at]), there.field(at), one)
                        for one, at in zip(columns, found, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=columns)
    except FileNotFoundError:
        raise DataLossError(
            f"{file.url} is gone: the table refers to it, or did when it was listed; if it was vacuumed or "
            "expired, ingest under another name to take the whole table again"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"{file.url} cannot be read: {error}") from error


def open_file(url: str) -> Any:
    """A file of this machine or behind a URL, to be read in a `with`."""
    if "://" not in url:
        return closing(pa.OSFile(url))
    fs, at = file_system(url, {})
    return fs.open(at, "rb")


def _id(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


def _find(there: Sequence[pa.Field] | pa.Schema | pa.StructType, wanted: pa.Field) -> int | None:
    """Where a column is among others."""
    own = _id(wanted)
    fields = list(there)
    if own is not None and any(_id(one) is not None for one in fields):
        return next((at for at, one in enumerate(fields) if _id(one) == own), None)
    return next((at for at, one in enumerate(fields) if one.name == wanted.name), None)


def _constant(column: pa.Field, text: str | None, rows: int) -> pa.Array:
    if text is None:
        return pa.nulls(rows, column.type)
    if _types.is_timestamp(column.type) and column.type.tz is not None and not text.endswith("Z"):
        text += "Z"
    if _types.is_binary(column.type):
        return pa.repeat(pa.scalar(text.encode(), column.type), rows)
    return pa.repeat(pa.scalar(text).cast(column.type), rows)


def project(array: pa.Array, there: pa.Field, wanted: pa.Field) -> pa.Array:
    """An array of a file as the table's type."""
    kind = wanted.type
    if array.type == kind:
        return array
    if _types.is_struct(kind) and _types.is_struct(array.type):
        children = []
        for one in kind:
            at = _find(array.type, one)
            found = None if at is None else array.flatten()[at]
            children.append(
                pa.nulls(len(array), one.type) if found is None else project(found, array.type.field(at), one)
            )
        is_null = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=is_null)
    if _types.is_list(kind) and (_types.is_list(array.type) or _types.is_large_list(array.type)):
        values = project(array.flatten(), array.type.value_field, kind.value_field)
        ends = pc.cumulative_sum(pc.list_value_length(array).fill_null(0).cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, values, kind, mask=array.is_null())
    return array.cast(kind)
