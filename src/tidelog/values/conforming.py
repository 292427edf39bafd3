"""Arrays as another type that holds them: fields by name, wider numbers, null where there is nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.values.json_reading import Misfit

__all__ = ["conform", "validity"]

_types = pa.types


def conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as a wider type; fields that it does not have are null. Misfit where it is not wider."""
    if array.type == kind:
        return array
    if _types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if _types.is_struct(array.type) and _types.is_struct(kind):
        return _struct(array, kind)
    if _types.is_struct(array.type) and not array.type.num_fields and _types.is_map(kind):
        ends = pa.py_buffer(np.zeros(len(array) + 1, np.int32))
        nothing = pa.nulls(0, pa.struct([kind.key_field, kind.item_field]))
        return pa.Array.from_buffers(kind, len(array), [validity(array), ends], children=[nothing])
    if _types.is_list(array.type) and _types.is_list(kind):
        return _list(array, kind, conform(array.values, kind.value_type))
    if _types.is_map(array.type) and _types.is_map(kind):
        inner = [conform(array.keys, kind.key_type), conform(array.items, kind.item_type)]
        entries = pa.StructArray.from_arrays(inner, fields=[kind.key_field, kind.item_field])
        return _list(array, kind, entries)
    try:
        return array.cast(kind, safe=not _types.is_floating(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misfit(f"{array.type} does not fit {kind}: {error}") from None


def _struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    names = {one.name: number for number, one in enumerate(array.type)}
    if any(name not in [one.name for one in kind] for name in names):
        raise Misfit(f"{array.type} has more fields than {kind}")
    columns = [
        conform(array.field(names[one.name]), one.type)
        if one.name in names
        else pa.nulls(len(array), one.type)
        for one in kind
    ]
    mask = pc.invert(array.is_valid()) if array.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _list(array: pa.Array, kind: pa.DataType, inner: pa.Array) -> pa.Array:
    ends = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    buffers = [validity(array), pa.py_buffer(np.ascontiguousarray(ends))]
    return pa.Array.from_buffers(kind, len(array), buffers, children=[inner])


def validity(array: pa.Array) -> pa.Buffer | None:
    """Which values are not null, a bit each; None if all are."""
    if not array.null_count:
        return None
    found = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(found, bitorder="little"))
