"""Columns of a scan whose bytes are decoded: `values` and `keys`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.errors import CorruptRecordError, DataLossError
from tidelog.records.schema import Projection
from tidelog.scanning.tasks import ScanTask, run_task
from tidelog.values.existing import ExistingColumn
from tidelog.values.spec import ColumnDecoder, Values
from tidelog.values.wire import Framing, spans_of

__all__ = ["TypedColumns", "decoder_of", "seen_ids", "typed_columns"]

_SAMPLE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """The decoders of a scan's columns."""

    decoders: tuple[ColumnDecoder, ...] = ()

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what is decoded."""
        fields = {one.column: one.fields for one in self.decoders}
        return pa.schema([new for old in schema for new in fields.get(old.name, [old])])

    def decode(self, batch: pa.RecordBatch, topic: str) -> pa.RecordBatch:
        """Records of a topic, decoded."""
        if not self.decoders:
            return batch
        made = {one.column: one.decode(batch.column(one.column), topic).columns for one in self.decoders}
        columns = [new for name in batch.schema.names for new in made.get(name, (batch.column(name),))]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch.schema))


def typed_columns(
    projection: Projection, tasks: Sequence[ScanTask], values: Values | None, keys: Values | None
) -> TypedColumns:
    """The decoders for the columns that are read."""
    wanted = {"value": values, "key": keys}
    return TypedColumns(
        tuple(
            decoder_of(spec, name, tasks)
            for name, spec in wanted.items()
            if spec is not None and name in projection.columns
        )
    )


def decoder_of(
    spec: Values,
    column: str,
    tasks: Sequence[ScanTask],
    *,
    portable: bool = False,
    existing: ExistingColumn | None = None,
) -> ColumnDecoder:
    """The decoder of a column for the topics that tasks read."""
    topics = list(dict.fromkeys(task.topic for task in tasks))
    return spec.decoder(
        topics, lambda: seen_ids(column, tasks), column=column, portable=portable, existing=existing
    )


def seen_ids(column: str, tasks: Iterable[ScanTask]) -> Iterator[int]:
    """Schema ids of the first values of each partition."""
    looked_at = set()
    for task in tasks:
        if (task.topic, task.partition) in looked_at:
            continue
        try:
            batch = next(run_task(task, Projection((column,)), max_rows=_SAMPLE_ROWS), None)
        except (CorruptRecordError, DataLossError):  # reading will tell, or pass over it
            continue
        if batch is not None:
            looked_at.add((task.topic, task.partition))
            ids = np.unique(spans_of(batch.column(column), Framing.CONFLUENT).ids)
            yield from ids[ids >= 0].tolist()
