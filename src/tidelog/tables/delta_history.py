"""The versions of a Delta table.

`deltalake` answers what a version consists of, not what it has changed. That is in
`_delta_log/<version>.json`, a line for each action; of these, `add` and `remove` with dataChange=true count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.storage import LOCAL, read_file
from tidelog.storage.remote import file_system
from tidelog.tables.changes import AddedFile, Change, gone, plain_path
from tidelog.tables.types import normal

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["DeltaHistory"]


class DeltaHistory:
    """A Delta table at a path or URL, to be read."""

    def __init__(self, target: str, options: Mapping[str, str]) -> None:
        """`options` are deltalake's storage options."""
        self.name = target
        self._options = dict(options)
        self._table = self._load()
        if self._table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise InvalidInputError(f"{target} maps columns to other names, which is not supported")

    @property
    def identity(self) -> str:
        """The id in the table's metadata."""
        return str(self._table.metadata().id)

    def columns(self) -> pa.Schema:
        """Its columns."""
        found = pa.schema(self._table.schema().to_arrow())
        return pa.schema([pa.field(one.name, normal(one.type)) for one in found])

    def whole(self, version: str | None = None) -> Change | None:
        """All files of a version."""
        table = self._table
        if version is not None and int(version) != table.version():
            table = self._load(int(version))
        if pa.table(table.deletion_vectors()).num_rows:
            raise _has_deletion_vectors(self.name)
        found = pa.table(table.get_add_actions()).to_pylist()
        types = {one.name: one.type for one in pa.schema(table.schema().to_arrow())}
        files = [
            self._file(one["path"], one["size_bytes"], _texts(one.get("partition"), types)) for one in found
        ]
        return Change(str(table.version()), tuple(sorted(files, key=lambda one: one.url)), is_whole=True)

    def one(self, version: str) -> Change:
        """What one version has added."""
        try:
            text = self._read(f"_delta_log/{int(version):020}.json")
        except FileNotFoundError:
            raise gone(self.name, str(int(version) - 1)) from None
        return self._change(version, [json.loads(line) for line in text.splitlines() if line.strip()])

    def since(self, version: str) -> Iterator[Change]:
        """The versions after one."""
        last = self._table.version()
        if int(version) > last:
            raise InvalidInputError(
                f"{self.name} is at version {last}, and version {version} was ingested before: it was "
                "put back to an older state; ingest under another name to take the whole table again"
            )
        for number in range(int(version) + 1, last + 1):
            yield self.one(str(number))

    def _change(self, version: str, actions: list[dict[str, Any]]) -> Change:
        files, removes = [], False
        for action in actions:
            add, remove = action.get("add"), action.get("remove")
            if remove is not None:
                removes = removes or bool(remove.get("dataChange", True))
            elif add is not None and add.get("dataChange", True):
                if add.get("deletionVector"):
                    raise _has_deletion_vectors(self.name)
                values = {name: value or None for name, value in (add.get("partitionValues") or {}).items()}
                files.append(self._file(add["path"], int(add["size"]), values))
        return Change(version, tuple(files), removes)

    def _file(self, path: str, size: int, values: Mapping[str, str | None]) -> AddedFile:
        path = unquote(path)
        is_absolute = bool(urlsplit(path).scheme) or path.startswith("/")
        url = path if is_absolute else f"{self.name.rstrip('/')}/{path}"
        return AddedFile(plain_path(url), size, tuple(values.items()))

    def _read(self, path: str) -> bytes:
        url = f"{self.name.rstrip('/')}/{path}"
        if "://" not in url:
            return read_file(LOCAL, url)
        fs, at = file_system(url, {})
        data: bytes = fs.cat_file(at)
        return data

    def _load(self, version: int | None = None) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(self.name, version, storage_options=self._options or None)
        except TableNotFoundError:
            raise InvalidInputError(f"{self.name} is not a Delta table") from None
        except DeltaError as error:
            if version is not None:
                raise gone(self.name, str(version)) from None
            raise InvalidInputError(f"{self.name} cannot be read: {error}") from error


def _texts(values: Mapping[str, Any] | None, types: Mapping[str, pa.DataType]) -> dict[str, str | None]:
    """Partition values as they are in the log."""
    found: dict[str, str | None] = {}
    for name, value in (values or {}).items():
        scalar = pa.scalar(value, normal(types[name]))
        found[name] = scalar.cast(pa.string()).as_py()
    return found


def _has_deletion_vectors(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} has deletion vectors, which are not read: rewrite its files first "
        "(REORG TABLE ... APPLY (PURGE))"
    )
