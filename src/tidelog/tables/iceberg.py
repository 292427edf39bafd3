"""A table of an Iceberg catalog, through `pyiceberg`.

A run adds its files in one snapshot. The snapshot's summary and, by the same commit, the table's properties
have all end offsets under `tidelog.offsets`, as JSON:

    {"sequence": 7, "next": {"orders": {"<topic id>": {"0": 50, "1": 50}}}}

Topics without an id have `-` in its place; `sequence` is the snapshot's number. Offsets are read from the
last snapshot in the table's history that has them: so they go back if the table is rolled back. If that
snapshot has expired, the properties tell.

A commit asserts the snapshot that it was made on. If others were faster, the table is loaded again: if its
offsets are still those that the run began with, the commit is made again. pyiceberg's own attempts must not
take part in this, for they do not look at offsets: `_load` turns them off.

Files have the table's field ids. Their statistics come with the commit: no footer is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.tables.table import DataFile, Done, changed_partitions, check_partition_by, overtaken
from tidelog.tables.types import check_fits, normal
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

__all__ = ["Iceberg"]

_OFFSETS = "tidelog.offsets"
_NO_ID = "-"
_ATTEMPTS = 20
_RETRIES = "commit.retry.num-retries"
_FIELD_ID = "PARQUET:field_id"


class Iceberg:
    """A table named `catalog.namespace.table`."""

    keeps_partition_columns = True

    def __init__(self, target: str, options: Mapping[str, str], partition_by: Sequence[str]) -> None:
        """`options` are properties of the catalog, beside those in pyiceberg's configuration."""
        from pyiceberg.catalog import load_catalog

        catalog, _, identifier = target.partition(".")
        if not catalog or "." not in identifier.strip("."):
            raise InvalidInputError(f"an Iceberg table is named catalog.namespace.table, not {target!r}")
        self.name = target
        self._identifier = identifier
        self._wanted_partitions = check_partition_by(partition_by)
        try:
            self._catalog = load_catalog(catalog, **options)
        except ValueError as error:
            raise InvalidInputError(
                f"catalog {catalog}: {error}; configure it in .pyiceberg.yaml, or give its properties "
                "(--table-option uri=...)"
            ) from error
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
        names[("timestamp", "day")] = "date"
        found = []
        for field in self._table.spec().fields:
            source, transform = str(schema.find_column_name(field.source_id)), str(field.transform)
            found.append(names.get((source, transform), f"{transform}({source})"))
        return tuple(found)

    def refresh(self) -> None:
        """Load the table again."""
        self._table = self._load()

    def schema(self) -> pa.Schema | None:
        """Its columns."""
        if self._table is None:
            return None
        found = self._table.schema().as_arrow()
        return pa.schema([pa.field(one.name, normal(one.type), one.nullable) for one in found])

    def create(self, schema: pa.Schema) -> None:
        """Make the table, without rows, and its namespace."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        namespace = self._identifier.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        transaction = self._catalog.create_table_transaction(self._identifier, schema)
        with transaction.update_spec() as spec:
            for name in self._wanted_partitions:
                if name == "date":
                    spec.add_field("timestamp", "day", "date")
                else:
                    spec.add_identity(name)
        try:
            transaction.commit_transaction()
        except (TableAlreadyExistsError, CommitFailedException):
            raise overtaken(self.name) from None
        self.refresh()

    def add_columns(self, schema: pa.Schema) -> None:
        """Add what the table does not have, by name."""
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(_ATTEMPTS):
            try:
                with self._there().update_schema() as update:
                    update.union_by_name(schema)
            except CommitFailedException as error:
                refused = error
                self.refresh()
            else:
                self.refresh()
                return
        raise LogLockedError(f"{self.name} took no commit in {_ATTEMPTS} attempts; run it again") from refused

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """Columns have the table's field ids."""
        known = self._there().schema()
        return pa.schema([_with_ids(one, known.find_field(one.name)) for one in schema])

    def done(self, ids: Mapping[TopicPartition, str | None]) -> Done:
        """Where partitions continue, these and others."""
        offsets: dict[TopicPartition, int] = {}
        known: dict[TopicPartition, str] = {}
        for topic, by_id in self._state().get("next", {}).items():
            for topic_id, partitions in by_id.items():
                for partition, offset in partitions.items():
                    name = TopicPartition(topic, int(partition))
                    offsets[name] = int(offset)
                    if topic_id != _NO_ID:
                        known[name] = topic_id
        return Done(offsets, known)

    def append(self, run: str, files: Sequence[DataFile], before: Done, after: Done) -> None:
        """Commit, again and again as long as nobody has moved our offsets."""
        from pyiceberg.exceptions import CommitFailedException

        moved = changed_partitions(before, after)
        gone = [name for name in before.offsets if name not in after.offsets]
        schema = self.schema()
        for _ in range(_ATTEMPTS):
            now = self.done({})
            if any(now.offsets.get(name) != before.offsets.get(name) for name in [*moved, *gone]) or any(
                now.ids.get(name) != before.ids.get(name) for name in [*moved, *gone]
            ):
                raise overtaken(self.name)
            check_fits(self.name, self.schema() or pa.schema([]), schema or pa.schema([]))
            try:
                self._commit(files, _moved(now, after, moved, gone))
            except CommitFailedException as error:
                refused = error
            else:
                self.refresh()
                return
            self.refresh()
        raise LogLockedError(f"{self.name} took no commit in {_ATTEMPTS} attempts; run it again") from refused

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
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            table = self._catalog.load_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        properties = {**table.metadata.properties, _RETRIES: "0"}  # in memory only: the catalog has its own
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        return table

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
            text = None if summary is None else summary.additional_properties.get(_OFFSETS)
            if text is not None:
                return _parse(text, self.name)
            parent = snapshot.parent_snapshot_id  # None too if it has expired
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        text = self._table.properties.get(_OFFSETS)
        found = {} if text is None else _parse(text, self.name)
        if found.get("sequence", 0) > number:
            raise DataLossError(
                f"{self.name} was rolled back to a snapshot that does not tell where to continue: remove the "
                f"property {_OFFSETS} to export everything again, or export to another table"
            )
        return found

    def _commit(self, files: Sequence[DataFile], done: Done) -> None:
        table = self._there()
        text = _text(done, table.metadata.next_sequence_number())
        transaction = table.transaction()
        transaction.set_properties({_OFFSETS: text})
        with transaction.update_snapshot(snapshot_properties={_OFFSETS: text}).fast_append() as snapshot:
            for file in files:
                snapshot.append_data_file(self._data_file(table, file))
        transaction.commit_transaction()

    def _data_file(self, table: IcebergTable, file: DataFile) -> Any:
        from pyiceberg.conversions import to_bytes
        from pyiceberg.manifest import DataFile as IcebergFile
        from pyiceberg.manifest import DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        day = None if file.min_timestamp_us is None else file.min_timestamp_us // 86_400_000_000
        values = {"topic": file.topic, "partition": file.partition, "date": day}
        bounds: dict[str, tuple[Any, Any]] = {
            "topic": (file.topic, file.topic),
            "partition": (file.partition, file.partition),
            "offset": (file.first_offset, file.last_offset),
        }
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


def _moved(now: Done, after: Done, moved: list[TopicPartition], gone: list[TopicPartition]) -> Done:
    """What the table has now, with our partitions moved."""
    offsets = {name: offset for name, offset in now.offsets.items() if name not in gone}
    ids = {name: known for name, known in now.ids.items() if name not in gone and name not in moved}
    offsets |= {name: after.offsets[name] for name in moved}
    ids |= {name: after.ids[name] for name in moved if name in after.ids}
    return Done(offsets, ids)


def _text(done: Done, sequence: int) -> str:
    """Offsets as they are kept."""
    kept: dict[str, dict[str, dict[str, int]]] = {}
    for name in sorted(done.offsets):
        by_id = kept.setdefault(name.topic, {})
        by_id.setdefault(done.ids.get(name, _NO_ID), {})[str(name.partition)] = done.offsets[name]
    return json.dumps({"sequence": sequence, "next": kept}, separators=(",", ":"))


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("next"), dict):
        raise DataLossError(
            f"{name} has no offsets in {_OFFSETS}, but {text[:100]!r}: export to another table"
        )
    return found


def _with_ids(arrow: pa.Field, iceberg: Any) -> pa.Field:
    """A column of files with the ids of the table's column, nested ones too."""
    return arrow.with_type(_type_with_ids(arrow.type, iceberg.field_type)).with_metadata(
        {_FIELD_ID: str(iceberg.field_id)}
    )


def _type_with_ids(kind: pa.DataType, iceberg: Any) -> pa.DataType:
    if pa.types.is_struct(kind):
        known = {one.name: one for one in iceberg.fields}
        return pa.struct([_with_ids(one, known[one.name]) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_ids(kind.value_field.with_name("element"), iceberg.element_field))
    if pa.types.is_map(kind):
        key, item = (
            _with_ids(kind.key_field, iceberg.key_field),
            _with_ids(kind.item_field, iceberg.value_field),
        )
        return pa.map_(key, item)
    return kind
