"""A table of an Iceberg catalog, through `pyiceberg`.

A run adds its files in one snapshot. The snapshot's summary and, by the same commit, the table's properties
have all end offsets under `tidelog.offsets`, as JSON:

    {"sequence": 7, "next": {"orders": {"<topic id>": {"0": 50, "1": 50}}}}

Topics without an id have `-` in its place; `sequence` is the snapshot's number. Offsets are read from the
last snapshot in the table's history that has them: so they go back if the table is rolled back. If that
snapshot has expired, the properties tell.

A commit asserts the snapshot that it was made on. If others were faster, the table is loaded again: if its
offsets are still those that the run began with, the commit is made again. pyiceberg's own attempts must not
take part in this, for they do not look at offsets: `for_commits` turns them off.

Files have the table's field ids. Their statistics come with the commit: no footer is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.tables.changes import plain_path
from tidelog.tables.iceberg_catalog import asking, catalog_of, for_commits, load_table, with_ids
from tidelog.tables.iceberg_offsets import NO_ID, OFFSETS, moved_offsets, offsets_text, parse_offsets
from tidelog.tables.table import (
    BY_KEY_COLUMNS,
    DataFile,
    Done,
    LiveFile,
    changed_partitions,
    check_partition_by,
    commit_to,
    overtaken,
    rewritten,
)
from tidelog.tables.types import check_fits, normal
from tidelog.types import TopicPartition
from tidelog.values.existing import Widenings

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

__all__ = ["Iceberg"]

_BUCKETS = "tidelog.buckets"
_EPOCH = date(1970, 1, 1)


class Iceberg:
    """A table named `catalog.namespace.table`."""

    keeps_partition_columns = True
    widenings: Widenings = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))

    def __init__(
        self,
        target: str,
        options: Mapping[str, str],
        partition_by: Sequence[str],
        buckets: int | None = None,
    ) -> None:
        """`options` are properties of the catalog, beside those in pyiceberg's configuration."""
        self.name = target
        self._wanted_buckets = buckets
        self._wanted_partitions = check_partition_by(partition_by) if buckets is None else BY_KEY_COLUMNS
        self._catalog, self._identifier = catalog_of(target, options)
        self._table = self._load()

    @property
    def exists(self) -> bool:
        """Whether there is such a table by now."""
        return self._table is not None

    @property
    def location(self) -> str | None:
        """Where its files are; the catalog says it when the table is made."""
        return None if self._table is None else self._table.location().rstrip("/")

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by; `date` is the day of the timestamp."""
        if self._table is None:
            return self._wanted_partitions
        schema = self._table.schema()
        names = {("topic", "identity"): "topic", ("partition", "identity"): "partition"}
        names |= {("timestamp", "day"): "date", ("bucket", "identity"): "bucket"}
        found = []
        for field in self._table.spec().fields:
            source, transform = str(schema.find_column_name(field.source_id)), str(field.transform)
            found.append(names.get((source, transform), f"{transform}({source})"))
        return tuple(found)

    @property
    def buckets(self) -> int | None:
        """Kept as a property of the table."""
        if self._table is None:
            return self._wanted_buckets
        found = self._table.properties.get(_BUCKETS)
        return None if found is None else int(found)

    def files(self) -> list[LiveFile]:
        """Its files."""
        names, own = self.partition_by, self._there().spec().spec_id
        found = []
        for file in self._live():
            values = _partition_values(file, names) if file.spec_id == own else None
            found.append(
                LiveFile(
                    file.file_path,
                    plain_path(file.file_path),
                    int(file.file_size_in_bytes),
                    int(file.record_count),
                    values or {},
                    self._first(file),
                    is_foreign=values is None,
                )
            )
        return found

    def _live(self) -> Iterator[Any]:
        """pyiceberg's facts of the files."""
        from pyiceberg.manifest import ManifestContent

        table = self._there()
        snapshot = table.current_snapshot()
        for manifest in () if snapshot is None else snapshot.manifests(table.io):
            if manifest.content == ManifestContent.DELETES:
                raise InvalidInputError(f"{self.name} has delete files: rewrite its data files first")
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file

    def _first(self, file: Any) -> tuple[int, int]:
        from pyiceberg.conversions import from_bytes

        schema: Any = self._there().schema()
        found = []
        for name in ("partition", "offset"):
            field = schema.find_field(name)
            data = (file.lower_bounds or {}).get(field.field_id)
            found.append(0 if data is None else int(from_bytes(field.field_type, data)))
        return found[0], found[1]

    def refresh(self) -> None:
        """Load the table again."""
        self._table = self._load()

    def check_writable(self) -> None:
        """Iceberg has no such rules."""

    def schema(self) -> pa.Schema | None:
        """Its columns."""
        if self._table is None:
            return None
        found = self._table.schema().as_arrow()
        return pa.schema([pa.field(one.name, normal(one.type), one.nullable) for one in found])

    def create(self, schema: pa.Schema) -> None:
        """Make the table, without rows, and its namespace."""
        with asking(self._catalog.name):
            self._create_namespace(self._identifier.rpartition(".")[0])
            self._create(schema)
        self.refresh()

    def _create(self, schema: pa.Schema) -> None:
        transaction = self._catalog.create_table_transaction(self._identifier, schema)
        with transaction.update_spec() as spec:
            for name in self._wanted_partitions:
                if name == "date":
                    spec.add_field("timestamp", "day", "date")
                else:
                    spec.add_identity(name)
        if self._wanted_buckets is not None:
            transaction.set_properties({_BUCKETS: str(self._wanted_buckets)})
        try:
            transaction.commit_transaction()
        except Exception:  # which one, catalogs do not agree on: some answer as if they had failed
            if self._catalog.table_exists(self._identifier):
                raise overtaken(self.name) from None
            raise

    def _create_namespace(self, namespace: str) -> None:
        try:
            self._catalog.create_namespace_if_not_exists(namespace)
        except Exception:  # as above, where another export has made it at the same time
            if not self._catalog.namespace_exists(namespace):
                raise

    def add_columns(self, schema: pa.Schema) -> None:
        """Add what the table does not have, by name, and widen types."""
        from pyiceberg.exceptions import CommitFailedException

        def commit() -> None:
            with asking(self._catalog.name), self._there().update_schema() as update:
                update.union_by_name(schema)

        commit_to(self, commit, CommitFailedException)

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """Columns have the table's field ids."""
        known = self._there().schema()
        return pa.schema([with_ids(one, known.find_field(one.name)) for one in schema])

    def done(self, ids: Mapping[TopicPartition, str | None]) -> Done:
        """Where partitions continue, these and others."""
        offsets: dict[TopicPartition, int] = {}
        known: dict[TopicPartition, str] = {}
        for topic, by_id in self._state().get("next", {}).items():
            for topic_id, partitions in by_id.items():
                for partition, offset in partitions.items():
                    name = TopicPartition(topic, int(partition))
                    offsets[name] = int(offset)
                    if topic_id != NO_ID:
                        known[name] = topic_id
        return Done(offsets, known)

    def append(
        self, run: str, files: Sequence[DataFile], before: Done, after: Done, removed: Sequence[str] = ()
    ) -> None:
        """Commit, again and again as long as nobody has moved our offsets."""
        from pyiceberg.exceptions import CommitFailedException

        moved = changed_partitions(before, after)
        gone = [name for name in before.offsets if name not in after.offsets]
        schema = self.schema()

        def commit() -> None:
            now = self.done({})
            if any(now.offsets.get(name) != before.offsets.get(name) for name in [*moved, *gone]) or any(
                now.ids.get(name) != before.ids.get(name) for name in [*moved, *gone]
            ):
                raise overtaken(self.name)
            check_fits(self.name, self.schema() or pa.schema([]), schema or pa.schema([]))
            self._commit(files, moved_offsets(now, after, moved, gone), removed)

        commit_to(self, commit, CommitFailedException, run)

    def replace(self, run: str, files: Sequence[DataFile], removed: Sequence[str]) -> None:
        """Commit, again and again as long as the files are there."""
        from pyiceberg.exceptions import CommitFailedException

        def commit() -> None:
            table = self._there()
            state = self._state()
            kept = {OFFSETS: json.dumps(state, separators=(",", ":"))} if state else {}
            transaction = table.transaction()
            with _replacing(transaction, table.io, kept) as snapshot:
                for file in files:
                    snapshot.append_data_file(self._data_file(table, file))
                for gone in self._facts(removed):
                    snapshot.delete_data_file(gone)
            with asking(self._catalog.name):
                transaction.commit_transaction()

        commit_to(self, commit, CommitFailedException, run)

    def refers_to(self, directory: str) -> bool:
        """Whether the table has files in a directory."""
        table = self._table
        snapshot = None if table is None else table.current_snapshot()
        if table is None or snapshot is None:
            return False
        marked = f"/{directory}/"
        return any(
            marked in entry.data_file.file_path
            for manifest in snapshot.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io)
        )

    def _load(self) -> IcebergTable | None:
        table = load_table(self._catalog, self._identifier)
        return None if table is None else for_commits(table)

    def _there(self) -> IcebergTable:
        assert self._table is not None, "created before use"
        return self._table

    def _state(self) -> dict[str, Any]:
        """The offsets in the table's history, or in its properties if the history is cut off before them."""
        snapshot = None if self._table is None else self._table.current_snapshot()
        if self._table is None or snapshot is None:
            return {}
        number = snapshot.sequence_number or 0
        while snapshot is not None:
            summary = snapshot.summary
            text = None if summary is None else summary.additional_properties.get(OFFSETS)
            if text is not None:
                return parse_offsets(text, self.name)
            parent = snapshot.parent_snapshot_id  # None too if it has expired
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        text = self._table.properties.get(OFFSETS)
        found = {} if text is None else parse_offsets(text, self.name)
        if found.get("sequence", 0) > number:
            raise DataLossError(
                f"{self.name} was rolled back to a snapshot that does not tell where to continue: remove the "
                f"property {OFFSETS} to export everything again, or export to another table"
            )
        return found

    def _commit(self, files: Sequence[DataFile], done: Done, removed: Sequence[str] = ()) -> None:
        table = self._there()
        text = offsets_text(done, table.metadata.next_sequence_number())
        transaction = table.transaction()
        transaction.set_properties({OFFSETS: text})
        update = transaction.update_snapshot(snapshot_properties={OFFSETS: text})
        with update.overwrite() if removed else update.fast_append() as snapshot:
            for file in files:
                snapshot.append_data_file(self._data_file(table, file))
            for gone in self._facts(removed):
                snapshot.delete_data_file(gone)
        with asking(self._catalog.name):
            transaction.commit_transaction()

    def _facts(self, names: Sequence[str]) -> list[Any]:
        """pyiceberg's facts of files; LogLockedError if some are not there any more."""
        wanted = set(names)
        found = [file for file in self._live() if file.file_path in wanted] if wanted else []
        if len(found) != len(wanted):
            raise rewritten(self.name)
        return found

    def _data_file(self, table: IcebergTable, file: DataFile) -> Any:
        from pyiceberg.conversions import to_bytes
        from pyiceberg.manifest import DataFile as IcebergFile
        from pyiceberg.manifest import DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        day = None if file.min_timestamp_us is None else file.min_timestamp_us // 86_400_000_000
        values = {"topic": file.topic, "partition": file.partition, "date": day}
        values["bucket"] = file.bucket
        bounds = file.bounds()
        if file.bucket is not None:
            bounds["bucket"] = (file.bucket, file.bucket)
        if file.min_timestamp_us is not None:
            bounds["timestamp"] = (file.min_timestamp_us, file.max_timestamp_us)
        schema = table.schema()
        nulls = {schema.find_field(name).field_id: 0 for name in bounds}
        nulls[schema.find_field("timestamp").field_id] = file.null_timestamps
        lower, upper = {}, {}
        for name, (least, most) in bounds.items():
            field: Any = schema.find_field(name)
            lower[field.field_id] = to_bytes(field.field_type, least)
            upper[field.field_id] = to_bytes(field.field_type, most)
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{table.location().rstrip('/')}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*(values[name] for name in self.partition_by)),
            record_count=file.records,
            file_size_in_bytes=file.size,
            value_counts=dict.fromkeys(nulls, file.records),
            null_value_counts=nulls,
            lower_bounds=lower,
            upper_bounds=upper,
            spec_id=table.spec().spec_id,
        )


def _partition_values(file: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """The values of a file's partition; None for a date outside of the calendar."""
    found = {name: file.partition[at] for at, name in enumerate(names)}
    if found.get("date") is not None:
        try:
            found["date"] = (_EPOCH + timedelta(days=found["date"])).isoformat()
        except OverflowError:
            return None
    return found


def _replacing(transaction: Any, io: Any, properties: Mapping[str, str]) -> Any:
    """A snapshot that replaces files and no rows: pyiceberg has overwriting ones only."""
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    class Replacing(_OverwriteFiles):
        def _summary(self, snapshot_properties: Any = properties) -> Summary:
            found = super()._summary(snapshot_properties)
            return Summary(Operation.REPLACE, **found.additional_properties)

    return Replacing(Operation.OVERWRITE, transaction, io, snapshot_properties=dict(properties))
