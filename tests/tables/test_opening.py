"""Opening tables: formats by name, and libraries that are not installed."""

from __future__ import annotations

import sys

import pytest

from tidelog.errors import InvalidInputError, MissingLibraryError
from tidelog.tables.opening import open_history, open_table, table_format
from tidelog.tables.table import TableFormat


@pytest.mark.parametrize(
    ("kind", "library"), [(TableFormat.DELTA, "deltalake"), (TableFormat.ICEBERG, "pyiceberg")]
)
def test_a_missing_library_is_named_with_its_extra(
    kind: TableFormat, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError, match=rf"{library}: pip install 'tidelog\[{kind}\]'"):
        open_table(kind, "catalog.space.table")


def test_formats_have_names() -> None:
    assert table_format("Delta") is TableFormat.DELTA
    with pytest.raises(InvalidInputError, match="a format is one of parquet, delta, iceberg, not 'orc'"):
        table_format("orc")


def test_files_are_no_table() -> None:
    for opened in (open_table, open_history):
        with pytest.raises(InvalidInputError, match=r"parquet is not a format of tables: .*delta, iceberg"):
            opened(TableFormat.PARQUET, "lake")
