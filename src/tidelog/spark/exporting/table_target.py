"""A table as the target of an export: where its files are written, and what is left of runs that died.

    <location>/data/<run>/topic=orders/date=2026-11-15/<n>-<attempt>-<m>.parquet   files of a run
    <location>/_tidelog/runs/<run>/run.json    a run under way, and the offsets that it began with
    <location>/_tidelog/.lock                  held by the run under way

The table's own commit makes files part of it (`tidelog.tables`). A directory is locked by one run at a time,
so a run knows that all others that it finds there are dead. If the offsets in the table are still those that
such a run began with, it has committed nothing, and its files are removed. An object store has no locks;
there the files of dead runs stay until the table is vacuumed. No other file is ever removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidelog.errors import InvalidInputError, LogLockedError
from tidelog.scanning.partitions import Partition
from tidelog.spark.exporting.directory import EXPORT_FILE, METADATA, target_place
from tidelog.spark.exporting.schema_evolution import column_of, to_text, types_changed
from tidelog.spark.exporting.storage import Place
from tidelog.spark.exporting.tasks import TableLayout, columns_of, table_date
from tidelog.spark.source.topic_ids import for_each, topic_id_at
from tidelog.tables.table import PARTITION_COLUMNS, DataFile, Done, LiveFile, Table
from tidelog.tables.types import check_fits, check_names
from tidelog.types import TopicPartition
from tidelog.values.decoding import Decoder
from tidelog.values.existing import ExistingColumn, Widenings
from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import join
from tidelog.values.versions import error_name

__all__ = ["TableTarget"]

_RUNS = f"{METADATA}/runs"
_RUN_FILE = "run.json"
_NEVER_NULL = ("topic", "partition", "bucket")


class TableTarget:
    """A table that this run adds to, from its making to `release`."""

    folds_case = True  # as readers of tables do

    def __init__(self, table: Table, *, by_key: bool = False) -> None:
        """Take hold of the table's location, if it is known yet, and clear what dead runs left."""
        self._table = table
        self.by_key = by_key
        self._place: Place | None = None
        self._before = Done()
        self._ids: dict[TopicPartition, str | None] = {}
        self._may_remove = False
        self.run = uuid.uuid4().hex
        self._hold()

    @property
    def url(self) -> str:
        """How messages call the target."""
        return self._table.name

    @property
    def place(self) -> Place:
        """Where files are written; known when the table is."""
        assert self._place is not None, "prepared before use"
        return self._place

    @property
    def buckets(self) -> int:
        """Of a table by key: into how many buckets the keys of a partition are spread."""
        count = self._table.buckets
        if count is None:
            raise InvalidInputError(
                f"{self.url} does not tell how many buckets it has: export to another table"
            )
        return count

    def files(self) -> Sequence[LiveFile]:
        """The files of the table."""
        return self._table.files()

    @property
    def scratch(self) -> str:
        """Where the tasks of this run write what is not for the table."""
        return f"{_RUNS}/{self.run}/changes"

    @property
    def staging(self) -> str:
        """Where the tasks of this run write."""
        return _files_of(self.run)

    def _hold(self) -> None:
        location = self._table.location
        if location is None or self._place is not None:
            return
        place = target_place(location)
        place.hold()
        self._place = place
        try:
            if place.exists(EXPORT_FILE):
                raise InvalidInputError(f"{place.url} has an export to Parquet: export to another directory")
            self._table.refresh()
            self._check_kind()
            self._table.check_writable()
            unknown = [
                name for name in self._table.partition_by if name not in (*PARTITION_COLUMNS, "bucket")
            ]
            if unknown:
                raise InvalidInputError(
                    f"{self.url} is partitioned by {unknown[0]}, which records do not have: "
                    "export to another table"
                )
            self._sweep()
        except BaseException:
            place.release()
            raise

    def _check_kind(self) -> None:
        """A table is by key, or it has every record."""
        is_by_key = self._table.exists and "bucket" in self._table.partition_by
        if self._table.exists and is_by_key != self.by_key:
            has = "the last record of each key" if is_by_key else "every record"
            way = "with --by-key" if is_by_key else "without --by-key"
            raise InvalidInputError(f"{self.url} has {has}: export {way}, or to another table")

    def release(self) -> None:
        """Remove what this run wrote, unless it is in the table or may be, and let go."""
        if self._place is None:
            return
        try:
            if self._may_remove:
                self._forget(self.run, with_files=True)
        finally:
            self._place.release()

    # ---- what the target knows

    def agree(self, way: dict[str, Any]) -> dict[str, Any]:
        """What an export is like is told by the table's schema, which `prepare` looks at."""
        return {}

    def done(self, partitions: Sequence[Partition]) -> Done:
        """Where these partitions continue."""
        found = for_each(partitions, lambda each: topic_id_at(each.url, each.volume))
        names = [each.topic_partition for each in partitions]
        self._ids = dict(zip(names, found, strict=True))
        self._before = self._table.done(self._ids)
        return self._before

    def schemas(self, names: Iterable[str]) -> dict[str, str]:
        """All topics have the schema of the table's column."""
        kinds = {name: self._kept(column_of(name)) for name in names}
        return {name: to_text(kind) for name, kind in kinds.items() if kind is not None}

    def keep_schemas(self, schemas: dict[str, str], changed: Iterable[str]) -> None:
        """The table keeps them: `prepare` sees to it."""

    @property
    def widenings(self) -> Widenings:
        """Which types the table's format makes which others."""
        return self._table.widenings

    def _kept(self, column: str) -> pa.DataType | None:
        """The type of decoded values or keys in the table; None if they are as they were."""
        schema = self._table.schema()
        kind = schema.field(column).type if schema is not None and column in schema.names else None
        if kind is None or schema is None:
            return None
        return kind if pa.types.is_struct(kind) or error_name(column) in schema.names else None

    # ---- a run

    def prepare(
        self,
        columns: Sequence[str],
        decoders: Mapping[str, Decoder],
        keys: Mapping[str, Decoder] | None = None,
    ) -> TableLayout:
        """Make the table, or add the columns that it lacks; what the tasks need to write its files.

        Decoders are of one type (`one_type`).
        """
        decoder = next(iter(decoders.values()))
        key_decoder = next(iter((keys or {}).values()), None)
        table = self._table
        own = [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
        ]
        if not table.keeps_partition_columns and "date" in table.partition_by:
            own.append(pa.field("date", pa.date32()))
        if self.by_key:
            own.append(pa.field("bucket", pa.int32()))
        wanted = pa.schema([*own, *columns_of(tuple(columns), decoder, key_decoder)])
        loose = pa.schema([column.with_nullable(True) for column in wanted])
        there = table.schema()
        if there is None:
            table.create(loose)
            self._hold()
        elif self._grows("value", decoder) or (key_decoder is not None and self._grows("key", key_decoder)):
            table.add_columns(loose)
        never_null = (*_NEVER_NULL, "key") if self.by_key else _NEVER_NULL
        known = [one.with_nullable(False) if one.name in never_null else one for one in wanted]
        check_fits(self.url, table.schema() or loose, pa.schema(known))
        self._note()
        return TableLayout(table.file_schema(wanted), table.partition_by)

    def one_type(self, decoders: Mapping[str, Decoder]) -> dict[str, Decoder]:
        """All topics are in one table, so their values have one type.

        Once there is a table, the first topic's new fields win.
        """
        first, *others = [one.fields[0].type for one in decoders.values()] or [pa.null()]
        joined = first
        for other in others:
            if self._table.exists and pa.types.is_struct(joined) and pa.types.is_struct(other):
                joined = ExistingColumn(joined, self.widenings, self.folds_case).grown(other)
                continue
            try:
                joined = joined if other == joined else join(joined, other)
            except Misfit as error:
                raise _of_different_types(str(error)) from None
            if not pa.types.is_struct(joined) and other != first:
                raise _of_different_types(f"{first} and {other}")
        if not pa.types.is_struct(joined):
            return dict(decoders)
        check_names(joined)
        return {name: one.with_struct(joined) for name, one in decoders.items()}

    def _grows(self, column: str, decoder: Decoder) -> bool:
        """Whether values have more fields than the table; types that would change are refused."""
        before, after = self._kept(column), decoder.fields[0].type
        if before is None or before == after:
            return False
        can_be = ExistingColumn(before, self.widenings).grown(after)
        if not (pa.types.is_struct(before) and pa.types.is_struct(after)):
            return bool(can_be == after)
        if types_changed(can_be, after):
            raise InvalidInputError(
                f"{column}s need wider types than {self.url} has, and its format does not widen them so: "
                "export to another table"
            )
        return True

    def commit(self, done: Done, rows: Sequence[Mapping[str, Any]], removed: Sequence[str] = ()) -> None:
        """Make the files of a run part of the table, in place of others."""
        files = [_data_file(row, file) for row in rows for file in row["files"]]
        self._may_remove = False  # whatever happens: the table may have them
        try:
            self._table.append(self.staging, files, self._before, done, removed)
        except LogLockedError:
            self._may_remove = True
            raise
        self._forget(self.run, with_files=False)

    def prepare_merge(self) -> TableLayout:
        """What tasks need to write files that replace others of the table, with all of its columns."""
        schema = self._table.schema()
        assert schema is not None, "there is a table"
        self._note()
        return TableLayout(self._table.file_schema(schema), self._table.partition_by)

    def replace(self, rows: Sequence[Mapping[str, Any]], removed: Sequence[str]) -> None:
        """Put the files of a run in the place of others that have the same rows."""
        files = [_data_file(row, file) for row in rows for file in row["files"]]
        self._may_remove = False
        try:
            self._table.replace(self.staging, files, removed)
        except LogLockedError:
            self._may_remove = True
            raise
        self._forget(self.run, with_files=False)

    # ---- what runs leave

    def _note(self) -> None:
        """Note that this run is under way, before it writes files."""
        began = [
            [name.topic, name.partition, known, self._before.offsets.get(name)]
            for name, known in self._ids.items()
        ]
        if self.place.exclusive:
            self.place.write(f"{_RUNS}/{self.run}/{_RUN_FILE}", json.dumps({"began": began}).encode())
        self._may_remove = True

    def _forget(self, run: str, *, with_files: bool) -> None:
        if with_files:
            self.place.remove(_files_of(run))
        self.place.remove(f"{_RUNS}/{run}")

    def _sweep(self) -> None:
        """Remove the files of dead runs that are not in the table."""
        for run in self.place.names(_RUNS) if self.place.exclusive else ():
            path = f"{_RUNS}/{run}/{_RUN_FILE}"
            began = json.loads(self.place.read(path))["began"] if self.place.exists(path) else []
            names = {TopicPartition(topic, part): (known, at) for topic, part, known, at in began}
            now = self._table.done({name: known for name, (known, _) in names.items()})
            is_unmoved = all(now.offsets.get(name) == at for name, (_, at) in names.items())
            self._forget(run, with_files=is_unmoved and not self._table.refers_to(_files_of(run)))


def _of_different_types(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the topics have values or keys of different types ({why}): export each to a table of its own"
    )


def _files_of(run: str) -> str:
    return f"data/{run}"


def _data_file(row: Mapping[str, Any], file: Mapping[str, Any]) -> DataFile:
    return DataFile(
        file["path"],
        row["topic"],
        row["partition"],
        row["table_date"] if "table_date" in row else table_date(file["date"] or ""),
        file["records"],
        file["bytes"],
        file["first_offset"],
        file["last_offset"],
        file["min_timestamp_us"],
        file["max_timestamp_us"],
        file["null_timestamps"],
        row.get("bucket"),
        row.get("max_topic"),
        row.get("max_partition"),
        row.get("has_bounds", True),
    )
