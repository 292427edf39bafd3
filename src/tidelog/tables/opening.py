"""A table by its format and name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from tidelog.errors import InvalidInputError, MissingLibraryError
from tidelog.tables.changes import History
from tidelog.tables.delta import Delta
from tidelog.tables.delta_history import DeltaHistory
from tidelog.tables.iceberg import Iceberg
from tidelog.tables.iceberg_history import IcebergHistory
from tidelog.tables.table import Table, TableFormat

__all__ = ["open_history", "open_table", "table_format"]

DEFAULT_PARTITION_BY = ("topic", "date")
_LIBRARIES = {TableFormat.DELTA: "deltalake", TableFormat.ICEBERG: "pyiceberg"}


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
    _require_library(kind)
    columns = DEFAULT_PARTITION_BY if partition_by is None else partition_by
    opened = Iceberg if kind is TableFormat.ICEBERG else Delta
    return opened(target, options or {}, columns, buckets)


def open_history(kind: TableFormat, target: str, options: Mapping[str, str] | None = None) -> History:
    """The versions of a table; InvalidInputError if there is no such table."""
    _require_library(kind)
    opened = IcebergHistory if kind is TableFormat.ICEBERG else DeltaHistory
    return opened(target, options or {})


def _require_library(kind: TableFormat) -> None:
    library = _LIBRARIES[kind]
    try:
        import_module(library)
    except ImportError as error:
        raise MissingLibraryError(
            f"{kind.title()} tables need {library}: pip install 'tidelog[{kind}]'"
        ) from error
