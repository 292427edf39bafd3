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
from tidelog.spark.exporting.json_reading import Misfit
from tidelog.spark.exporting.json_types import join
from tidelog.spark.exporting.schema_evolution import to_text, types_changed
from tidelog.spark.exporting.storage import Place
from tidelog.spark.exporting.tasks import TableLayout, columns_of, table_date
from tidelog.spark.exporting.values import ValueDecoder, ValueFormat
from tidelog.spark.source.topic_ids import for_each, topic_id_at
from tidelog.tables.table import PARTITION_COLUMNS, DataFile, Done, Table
from tidelog.tables.types import check_fits, check_names
from tidelog.types import TopicPartition

__all__ = ["TableTarget"]

_RUNS = f"{METADATA}/runs"
_RUN_FILE = "run.json"


class TableTarget:
    """A table that this run adds to, from its making to `release`."""

    def __init__(self, table: Table) -> None:
        """Take hold of the table's location, if it is known yet, and clear what dead runs left."""
        self._table = table
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
            unknown = [name for name in self._table.partition_by if name not in PARTITION_COLUMNS]
            if unknown:
                raise InvalidInputError(
                    f"{self.url} is partitioned by {unknown[0]}, which records do not have: "
                    "export to another table"
                )
            self._sweep()
        except BaseException:
            place.release()
            raise

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

    def schemas(self, topics: Iterable[str]) -> dict[str, str]:
        """All topics have the schema of the table's column."""
        struct = self._values()
        return {} if struct is None else dict.fromkeys(topics, to_text(struct))

    def keep_schemas(self, schemas: dict[str, str], changed: Iterable[str]) -> None:
        """The table keeps them: `prepare` sees to it."""

    def _values(self) -> pa.DataType | None:
        """The type of JSON values in the table; None if there are none."""
        schema = self._table.schema()
        kind = schema.field("value").type if schema is not None and "value" in schema.names else None
        return kind if kind is not None and pa.types.is_struct(kind) else None

    # ---- a run

    def prepare(
        self, columns: Sequence[str], decoders: Mapping[str, ValueDecoder]
    ) -> tuple[dict[str, ValueDecoder], TableLayout]:
        """Make the table, or add the columns that it lacks; what the tasks need to write its files."""
        decoder = self._one_decoder(decoders)
        table = self._table
        own = [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]
        if not table.keeps_partition_columns and "date" in table.partition_by:
            own.append(pa.field("date", pa.date32()))
        wanted = pa.schema([*own, *columns_of(tuple(columns), decoder)])
        loose = pa.schema([column.with_nullable(True) for column in wanted])
        there = table.schema()
        if there is None:
            table.create(loose)
            self._hold()
        elif self._grows(there, decoder):
            table.add_columns(loose)
        check_fits(self.url, table.schema() or loose, wanted)
        self._note()
        layout = TableLayout(table.file_schema(wanted), table.partition_by)
        return dict.fromkeys(decoders, decoder), layout

    def _one_decoder(self, decoders: Mapping[str, ValueDecoder]) -> ValueDecoder:
        """All topics are in one table, so their values have one type."""
        chosen = list(decoders.values())
        structs = [each.struct for each in chosen if each.struct is not None]
        if not structs:
            return chosen[0]
        struct = structs[0]
        for other in structs[1:]:
            try:
                struct = join(struct, other)
            except Misfit as error:
                raise InvalidInputError(
                    f"the topics have values of different types ({error}): export each to a table of its own"
                ) from None
        check_names(struct)
        return ValueDecoder(ValueFormat.JSON, struct)

    def _grows(self, there: pa.Schema, decoder: ValueDecoder) -> bool:
        """Whether values have more fields than the table; types that would change are refused."""
        before = self._values()
        if before is None or decoder.struct is None:
            return False
        if types_changed(before, decoder.struct):
            raise InvalidInputError(
                f"values need wider types than {self.url} has, and the types of a table are not changed: "
                "export to another table"
            )
        return bool(before != decoder.struct)

    def commit(self, done: Done, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make the files of a run part of the table."""
        files = [_data_file(row, file) for row in rows for file in row["files"]]
        self._may_remove = False  # whatever happens: the table may have them
        try:
            self._table.append(self.staging, files, self._before, done)
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


def _files_of(run: str) -> str:
    return f"data/{run}"


def _data_file(row: Mapping[str, Any], file: Mapping[str, Any]) -> DataFile:
    return DataFile(
        file["path"],
        row["topic"],
        row["partition"],
        table_date(file["date"] or ""),
        file["records"],
        file["bytes"],
        file["first_offset"],
        file["last_offset"],
        file["min_timestamp_us"],
        file["max_timestamp_us"],
        file["null_timestamps"],
    )
