"""A Delta table, through `deltalake`.

The commit that adds files has app transactions, which Delta keeps with the table (also in checkpoints) and
which conflict with each other:

    tidelog:<topic>-<partition>:<topic id>   the offset at which this topic's partition continues
    tidelog:<topic>-<partition>              likewise, of the topic that was exported last under this name
    tidelog:buckets                          of a table by key: into how many buckets keys are spread

If only the second is there, another topic was exported under this name. Topics without an id have `-` in its
place; -1 ends such an entry when the id becomes known.

`deltalake` tries a commit again if others have added files meanwhile. It refuses one if another commit since
the table was loaded has an app transaction of the same name, or has changed the table's metadata. A commit
that removes files is refused if there was any other. Then the table is loaded again: if its offsets are still
those that the run began with, and it has the files that are to go, the commit is tried again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.tables.changes import plain_path
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
from tidelog.tables.types import check_fits, has_local_times, normal, without_local_times_in_maps
from tidelog.types import TopicPartition
from tidelog.values.existing import Widenings

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["ANOTHER", "Delta"]

ANOTHER = "another one"
"""Stands for the id of a topic that was exported under the same name."""

_NO_ID = "-"
_ENDED = -1
_BUCKETS = "tidelog:buckets"
_LOCAL_TIMES = "timestampNtz"
_COLUMN_MAPPING = "delta.columnMapping.mode"
_FORGETS = "delta.setTransactionRetentionDuration"
_FIELD_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_US, _MAX_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999


class Delta:
    """A Delta table at a path or URL."""

    keeps_partition_columns = False
    widenings: Widenings = ()  # deltalake does not know the table feature typeWidening

    def __init__(
        self,
        target: str,
        options: Mapping[str, str],
        partition_by: Sequence[str],
        buckets: int | None = None,
    ) -> None:
        """`options` are deltalake's storage options; the rest is for a table that is yet to be made."""
        self.name = target
        self._options = dict(options)
        self._wanted_buckets = buckets
        self._wanted_partitions = check_partition_by(partition_by) if buckets is None else BY_KEY_COLUMNS
        self._table = self._load()

    @property
    def exists(self) -> bool:
        """Whether there is such a table by now."""
        return self._table is not None

    @property
    def location(self) -> str | None:
        """Where its files are."""
        return self.name

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by."""
        if self._table is None:
            return self._wanted_partitions
        return tuple(self._table.metadata().partition_columns)

    @property
    def buckets(self) -> int | None:
        """Kept as an app transaction since the table was made."""
        if self._table is None:
            return self._wanted_buckets
        found: int | None = self._table.transaction_version(_BUCKETS)
        return found

    def files(self) -> list[LiveFile]:
        """Its files."""
        self._check_deletions()
        return [
            LiveFile(
                row["path"],
                plain_path(f"{self.name.rstrip('/')}/{unquote(row['path'])}"),
                row["size_bytes"],
                row["num_records"] or 0,
                {
                    name: value.isoformat() if isinstance(value, date) else value
                    for name, value in (row.get("partition") or {}).items()
                },
                _first(row.get("min") or {}),
                is_foreign="%" in row["path"],
            )
            for row in pa.table(self._there().get_add_actions()).to_pylist()
        ]

    def _check_deletions(self) -> None:
        if pa.table(self._there().deletion_vectors()).num_rows:
            raise InvalidInputError(
                f"{self.name} has deletion vectors: rewrite its files first (REORG TABLE ... APPLY (PURGE))"
            )

    def refresh(self) -> None:
        """Load the table again."""
        self._table = self._load()

    def check_writable(self) -> None:
        """Refuse rules that files written here would not keep."""
        if self._table is None:
            return
        metadata = self._table.metadata()
        fields = json.loads(self._table.schema().to_json())["fields"]
        settings = [name for name, of in metadata.configuration.items() if _is_rule(name, of)]
        rules = [
            f"{one['name']}: {rule}" for one in fields for rule in one["metadata"] if rule in _FIELD_RULES
        ]
        if settings or rules:
            raise InvalidInputError(
                f"{self.name} has {', '.join([*settings, *rules])}, which an export cannot keep: remove it, "
                "or export to another table"
            )

    def _restored(self) -> str | None:
        """What to tell if a RESTORE has taken rows out of the table that its offsets count as exported."""
        restored: list[tuple[int, str]] = []
        for limit in (1, 32, None):
            restored = []
            for entry in self._there().history(limit):
                if "tidelog" in entry:
                    lost = [at for to, at in restored if to < entry["version"]]
                    return _rows_gone(self.name, lost[0]) if lost else None
                if entry.get("operation") == "RESTORE":
                    to = (entry.get("operationParameters") or {}).get("version")
                    known = int(to) if to is not None and str(to).isdigit() else -1  # by time: not known
                    restored.append((known, str(entry["version"])))
        return None

    def schema(self) -> pa.Schema | None:
        """Its columns."""
        if self._table is None:
            return None
        found = pa.schema(self._table.schema().to_arrow())
        return pa.schema([pa.field(one.name, normal(one.type), one.nullable) for one in found])

    def create(self, schema: pa.Schema) -> None:
        """Make the table, without rows."""
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.exceptions import DeltaError

        count = self._wanted_buckets
        buckets = None if count is None else [Transaction(_BUCKETS, count)]
        first = without_local_times_in_maps(schema)
        try:
            self._table = DeltaTable.create(
                self.name,
                first,
                partition_by=list(self._wanted_partitions),
                storage_options=self._options or None,
                commit_properties=None if buckets is None else CommitProperties(app_transactions=buckets),
            )
        except DeltaError:
            if self._load() is None:
                raise
            raise overtaken(self.name) from None
        if first != schema:
            self.add_columns(schema)

    def add_columns(self, schema: pa.Schema) -> None:
        """Append no rows under the wider schema; deltalake merges the two."""
        from deltalake import TableFeatures, write_deltalake

        protocol = self._there().protocol()
        if has_local_times(pa.struct(list(schema))) and _LOCAL_TIMES not in (protocol.writer_features or ()):
            self._there().alter.add_feature(
                TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
            )
            self.refresh()
        empty = pa.Table.from_batches([], schema)
        write_deltalake(self._there(), empty, mode="append", schema_mode="merge")
        self.refresh()

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """Values of partition columns are in the log, not in files."""
        return pa.schema([one for one in schema if one.name not in self.partition_by])

    def done(self, ids: Mapping[TopicPartition, str | None]) -> Done:
        """Where these partitions continue."""
        if self._table is None:
            return Done()
        offsets: dict[TopicPartition, int] = {}
        known: dict[TopicPartition, str] = {}
        for name, found in ids.items():  # as few questions as can be: each reads the table's log again
            own = self._offset(name, found)
            if own is not None:
                offsets[name] = own
                if found is not None:
                    known[name] = found
                continue
            last = self._table.transaction_version(_app_id(name))
            if last is None:
                continue
            bare = None if found is None else self._offset(name, None)
            if bare is not None:
                offsets[name] = bare  # exported before the topic's id was known: believed
            else:
                offsets[name], known[name] = last, ANOTHER
        return Done(offsets, known, lost=self._restored() if offsets else None)

    def append(
        self, run: str, files: Sequence[DataFile], before: Done, after: Done, removed: Sequence[str] = ()
    ) -> None:
        """Commit, again and again as long as nobody has moved our offsets."""
        from deltalake.exceptions import CommitFailedError

        moved = changed_partitions(before, after)
        ids = {name: after.ids.get(name) for name in moved}
        schema = self.schema()

        def commit() -> None:
            now = self.done(ids)
            if any(now.offsets.get(name) != before.offsets.get(name) for name in moved):
                raise overtaken(self.name)
            self.check_writable()  # the table's rules may be other ones by now
            check_fits(self.name, self.schema() or pa.schema([]), schema or pa.schema([]))
            self._commit(files, self._removals(removed), _transactions(moved, before, after))

        commit_to(self, commit, CommitFailedError, run)

    def replace(self, run: str, files: Sequence[DataFile], removed: Sequence[str]) -> None:
        """Commit, again and again as long as the files are there."""
        from deltalake.exceptions import CommitFailedError

        def commit() -> None:
            self._commit(files, self._removals(removed, data_change=False), [], data_change=False)

        commit_to(self, commit, CommitFailedError, run)

    def refers_to(self, directory: str) -> bool:
        """Whether the table has files in a directory."""
        marked = f"/{directory}/"
        return self._table is not None and any(marked in uri for uri in self._table.file_uris())

    def _load(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self.name, storage_options=self._options or None)
        except TableNotFoundError:
            return None

    def _there(self) -> DeltaTable:
        assert self._table is not None, "created before use"
        return self._table

    def _offset(self, name: TopicPartition, found: str | None) -> int | None:
        version: int | None = self._there().transaction_version(_app_id(name, found or _NO_ID))
        return None if version is None or version == _ENDED else version

    def _removals(self, names: Sequence[str], *, data_change: bool = True) -> list[Any]:
        """What removes files of these names; LogLockedError if some are not there any more."""
        from deltalake.transaction import RemoveAction

        if not names:
            return []
        self._check_deletions()  # others may have deleted rows of these files meanwhile
        there = {row["path"]: row for row in pa.table(self._there().get_add_actions()).to_pylist()}
        if not there.keys() >= set(names):
            raise rewritten(self.name)
        now = int(time.time() * 1000)
        found = []
        for row in (there[name] for name in names):
            values = {
                one: None if of is None else str(of) for one, of in (row.get("partition") or {}).items()
            }
            found.append(RemoveAction(row["path"], data_change, now, row["size_bytes"], values))
        return found

    def _commit(
        self,
        files: Sequence[DataFile],
        removals: list[Any],
        transactions: list[tuple[str, int]],
        *,
        data_change: bool = True,
    ) -> None:
        from deltalake import CommitProperties, Transaction

        table = self._there()
        now = int(time.time() * 1000)
        table.create_write_transaction(
            [*removals, *(_add_action(file, self.partition_by, now, data_change) for file in files)],
            "append",
            table.schema(),
            list(self.partition_by),
            commit_properties=CommitProperties(
                custom_metadata={"tidelog": json.dumps(dict(transactions))} if transactions else None,
                app_transactions=[Transaction(name, version) for name, version in transactions],
                # deltalake does not see that others have removed the same files meanwhile: it must not
                # try again by itself.
                max_commit_retries=0 if removals else None,
            ),
        )


def _first(least: Mapping[str, Any]) -> tuple[int, int]:
    return least.get("partition") or 0, least.get("offset") or 0


def _is_rule(name: str, value: str) -> bool:
    """Whether a setting means that files are to be written in another way, or that offsets are forgotten."""
    if name == _COLUMN_MAPPING:
        return value != "none"
    return name.startswith("delta.constraints.") or name == _FORGETS


def _rows_gone(name: str, version: str) -> str:
    return (
        f"{name} was restored to an older version by its version {version}: rows that were exported are gone "
        "from it, and are not exported again; export to another table to have them"
    )


def _app_id(name: TopicPartition, found: str | None = None) -> str:
    return f"tidelog:{name}" if found is None else f"tidelog:{name}:{found}"


def _transactions(moved: list[TopicPartition], before: Done, after: Done) -> list[tuple[str, int]]:
    """The app transactions of a commit: names and versions."""
    found = []
    for name in moved:
        offset, known = after.offsets[name], after.ids.get(name)
        found.append((_app_id(name), offset))
        found.append((_app_id(name, known or _NO_ID), offset))
        if known is not None and name in before.offsets and name not in before.ids:
            found.append((_app_id(name, _NO_ID), _ENDED))
    return found


def _add_action(file: DataFile, partition_by: Sequence[str], now_ms: int, data_change: bool) -> Any:
    from deltalake.transaction import AddAction

    values = {"topic": file.topic, "partition": str(file.partition), "date": file.date}
    values["bucket"] = None if file.bucket is None else str(file.bucket)
    partition = {name: values[name] for name in partition_by}
    stats = json.dumps(_stats(file, partition_by))
    return AddAction(file.path, file.size, partition, now_ms, data_change, stats)


def _stats(file: DataFile, partition_by: Sequence[str]) -> dict[str, Any]:
    """What is known of a file's columns, for readers that skip files."""
    bounds = {name: found for name, found in file.bounds().items() if name not in partition_by}
    least: dict[str, Any] = {name: first for name, (first, _) in bounds.items()}
    most: dict[str, Any] = {name: last for name, (_, last) in bounds.items()}
    first, last = file.min_timestamp_us, file.max_timestamp_us
    if first is not None and last is not None and first >= _MIN_US and last <= _MAX_US:
        least["timestamp"], most["timestamp"] = _instant(first), _instant(last)
    nulls = dict.fromkeys(least, 0) | {"timestamp": file.null_timestamps}
    return {"numRecords": file.records, "minValues": least, "maxValues": most, "nullCount": nulls}


def _instant(time_us: int) -> str:
    """Delta has times in milliseconds here; so have Kafka's records."""
    at = _EPOCH + timedelta(microseconds=time_us)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
