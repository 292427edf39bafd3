"""The snapshots of an Iceberg table, from the last one back to where a reading ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.tables.changes import AddedFile, Change, gone, plain_path
from tidelog.tables.iceberg_catalog import columns_with_ids, load_iceberg

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["IcebergHistory"]


class IcebergHistory:
    """A table named `catalog.namespace.table`, to be read."""

    def __init__(self, target: str, options: Mapping[str, str]) -> None:
        """`options` are properties of the catalog."""
        self.name = target
        found = load_iceberg(target, options)
        if found is None:
            raise InvalidInputError(f"there is no Iceberg table {target}")
        self._table = found

    @property
    def identity(self) -> str:
        """The table's UUID."""
        return str(self._table.metadata.table_uuid)

    def columns(self) -> pa.Schema:
        """Its columns, with their field ids."""
        return columns_with_ids(self._table.schema())

    def whole(self, version: str | None = None) -> Change | None:
        """All files of a snapshot."""
        at = self._table.current_snapshot() if version is None else self._table.snapshot_by_id(int(version))
        if at is None:
            if version is None:
                return None
            raise gone(self.name, version)
        files = sorted(self._files(at, None), key=lambda one: one.url)
        return Change(str(at.snapshot_id), tuple(files), is_whole=True)

    def one(self, version: str) -> Change:
        """What one snapshot has added."""
        from pyiceberg.table.snapshots import Operation

        snapshot = self._table.snapshot_by_id(int(version))
        if snapshot is None:
            raise gone(self.name, version)
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation is Operation.REPLACE:
            return Change(version, ())
        added = tuple(self._files(snapshot, snapshot.snapshot_id))
        return Change(version, added, operation is not Operation.APPEND)

    def since(self, version: str) -> Iterator[Change]:
        """The snapshots after one."""
        chain: list[str] = []
        at = self._table.current_snapshot()
        while at is not None and str(at.snapshot_id) != version:
            chain.append(str(at.snapshot_id))
            parent = at.parent_snapshot_id
            at = None if parent is None else self._table.snapshot_by_id(parent)
        if at is None:
            raise gone(self.name, version)
        yield from map(self.one, reversed(chain))

    def _files(self, snapshot: Snapshot, added_by: int | None) -> Iterator[AddedFile]:
        """The data files of a snapshot, or those that one has added."""
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

        for manifest in snapshot.manifests(self._table.io):
            if added_by is not None and manifest.added_snapshot_id != added_by:
                continue
            if manifest.content == ManifestContent.DELETES:
                if added_by is None:
                    raise InvalidInputError(
                        f"{self.name} has delete files, which are not read: rewrite its data files first"
                    )
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if added_by is None or (
                    entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id in (None, added_by)
                ):
                    yield self._file(entry.data_file)

    def _file(self, file: Any) -> AddedFile:
        """Columns that it is partitioned by are in the file, or else in its partition."""
        schema, spec = self._table.schema(), self._table.specs()[file.spec_id]
        values = []
        for at, field in enumerate(spec.fields):
            if str(field.transform) == "identity":
                name = schema.find_column_name(field.source_id)
                value = file.partition[at]
                if name is not None and "." not in name and not isinstance(value, bytes):
                    values.append((name, None if value is None else str(value)))
        return AddedFile(plain_path(file.file_path), int(file.file_size_in_bytes), tuple(values))
