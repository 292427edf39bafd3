"""Arrow types as tables know them.

Tables know one kind of text, bytes and lists. What a library answers is brought to the types that records are
decoded to, so that both can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidelog.errors import InvalidInputError

__all__ = ["check_fits", "check_names", "has_local_times", "normal", "without_local_times_in_maps"]

_types = pa.types


def normal(kind: pa.DataType) -> pa.DataType:
    """A type without variants that mean the same to a table: long offsets, views, names of list elements."""
    if _types.is_large_string(kind) or _types.is_string_view(kind):
        return pa.string()
    if _types.is_large_binary(kind) or _types.is_binary_view(kind):
        return pa.binary()
    if _types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if _types.is_struct(kind):
        return pa.struct([pa.field(one.name, normal(one.type)) for one in kind])
    if _types.is_list(kind) or _types.is_large_list(kind):
        return pa.list_(normal(kind.value_type))
    if _types.is_map(kind):
        return pa.map_(normal(kind.key_type), normal(kind.item_type))
    return kind


def has_local_times(kind: pa.DataType, *, in_maps: bool = False) -> bool:
    """Whether a type has timestamps without a zone, at any depth; or such ones in maps."""
    if _types.is_timestamp(kind):
        return kind.tz is None and not in_maps
    if _types.is_struct(kind):
        return any(has_local_times(one.type, in_maps=in_maps) for one in kind)
    if _types.is_list(kind):
        return has_local_times(kind.value_type, in_maps=in_maps)
    return _types.is_map(kind) and has_local_times(kind.item_type)


def without_local_times_in_maps(schema: pa.Schema) -> pa.Schema:
    """A schema as deltalake (1.6) can make a table of it: such fields have to be added later."""
    return pa.schema(_without(schema))


def _without(fields: Iterable[pa.Field]) -> list[pa.Field]:
    found = []
    for one in fields:
        if not has_local_times(one.type, in_maps=True):
            found.append(one)
        elif _types.is_struct(one.type) and (inner := _without(one.type)):
            found.append(one.with_type(pa.struct(inner)))
    return found


def check_fits(name: str, table: pa.Schema, wanted: pa.Schema) -> None:
    """InvalidInputError if rows with `wanted` columns cannot be added to a table.

    A column that must not be null has to be among them, and never be null there.
    """
    for column in table:
        at = wanted.get_field_index(column.name)
        if not column.nullable and (at < 0 or wanted.field(at).nullable):
            why = "records do not have it" if at < 0 else "records may lack it"
            raise InvalidInputError(
                f"column {column.name} of {name} must not be null, and {why}: let it be null, or export to "
                "another table"
            )
    for column in wanted:
        at = table.get_field_index(column.name)
        if at < 0:
            raise InvalidInputError(
                f"{name} has no column {column.name}: export without it, or to another table"
            )
        there = normal(table.field(at).type)
        if not _holds(there, normal(column.type)):
            raise InvalidInputError(
                f"column {column.name} of {name} is {there}, and {column.type} is to be exported: "
                "export to another table"
            )


def _holds(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of a table takes a type: structs may lack fields, which are null then."""
    if _types.is_struct(there) and _types.is_struct(wanted):
        kinds = {one.name: one.type for one in there}
        return all(one.name in kinds and _holds(kinds[one.name], one.type) for one in wanted)
    if _types.is_list(there) and _types.is_list(wanted):
        return _holds(there.value_type, wanted.value_type)
    if _types.is_map(there) and _types.is_map(wanted):
        return _holds(there.key_type, wanted.key_type) and _holds(there.item_type, wanted.item_type)
    return bool(there == wanted)


def check_names(kind: pa.DataType, where: str = "value") -> None:
    """Readers of tables do not tell upper from lower case: names that differ in case only are refused."""
    if _types.is_struct(kind):
        seen: dict[str, str] = {}
        for one in kind:
            other = seen.setdefault(one.name.casefold(), one.name)
            if other != one.name:
                raise InvalidInputError(
                    f"{where} has the fields {other} and {one.name}, which a table cannot tell apart: "
                    "give a schema, or export to Parquet"
                )
            check_names(one.type, f"{where}.{one.name}")
    elif _types.is_list(kind):
        check_names(kind.value_type, f"{where}[]")
    elif _types.is_map(kind):
        check_names(kind.item_type, f"{where}{{}}")
