"""A table by its format and name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from tidelog.errors import InvalidInputError, MissingLibraryError
from tidelog.tables.changes import History
from tidelog.tables.delta import Delta
from tidelog.tables.delta_history import DeltaHistory
from tidelog.tables.iceberg import Iceberg
from tidelog.tables.iceberg_history import IcebergHistory
from tidelog.tables.table import Table, TableFormat

__all__ = ["open_history", "open_table", "table_format"]

DEFAULT_PARTITION_BY = ("topic", "date")


class _Opening(NamedTuple):
    """How the tables of a format are opened."""

    library: str
    table: Callable[[str, Mapping[str, str], Sequence[str], int | None], Table]
    history: Callable[[str, Mapping[str, str]], History]


_OPENINGS: Mapping[TableFormat, _Opening] = {
    TableFormat.DELTA: _Opening("deltalake", Delta, DeltaHistory),
    TableFormat.ICEBERG: _Opening("pyiceberg", Iceberg, IcebergHistory),
}


def table_format(name: str) -> TableFormat:
    """The format of that name."""
    try:
        return TableFormat(name.lower())
    except ValueError:
        known = ", ".join(each.value for each in TableFormat)
        raise InvalidInputError(f"a format is one of {known}, not {name!r}") from None


def open_table(
    kind: TableFormat,
    target: str,
    options: Mapping[str, str] | None = None,
    partition_by: Sequence[str] | None = None,
    buckets: int | None = None,
) -> Table:
    """The table at a path or URL (Delta), or of a catalog (Iceberg).

    `options` are deltalake's storage options, or the properties of pyiceberg's catalog. `partition_by` counts
    if the table is yet to be made; so does `buckets`, which makes it a table by key.
    """
    columns = DEFAULT_PARTITION_BY if partition_by is None else partition_by
    return _opening(kind).table(target, options or {}, columns, buckets)


def open_history(kind: TableFormat, target: str, options: Mapping[str, str] | None = None) -> History:
    """The versions of a table; InvalidInputError if there is no such table."""
    return _opening(kind).history(target, options or {})


def _opening(kind: TableFormat) -> _Opening:
    """How tables of a format are opened; refuses what is no format of tables, and a missing library."""
    opening = _OPENINGS.get(kind)
    if opening is None:
        raise InvalidInputError(f"{kind} is not a format of tables: choose from {', '.join(_OPENINGS)}")
    try:
        import_module(opening.library)
    except ImportError as error:
        raise MissingLibraryError(
            f"{kind.title()} tables need {opening.library}: pip install 'tidelog[{kind}]'"
        ) from error
    return opening
