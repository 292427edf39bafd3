"""Avro values as a column: each value by its writer's schema, brought to the type of all.

The target is the type of all versions of the topics' subjects (`avro_resolution.merge`), or of the schemas
that were found before values where no subject is known. A value with a field that the target lacks is
invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.values.avro_columns import REASONS, AvroReader
from tidelog.values.avro_plan import compile_plan
from tidelog.values.avro_resolution import Fitting, lacking, limited, merge
from tidelog.values.avro_schema import AvroType, parse_avro
from tidelog.values.avro_types import arrow_type
from tidelog.values.existing import ExistingColumn, join_all
from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import columns_type
from tidelog.values.schemas import AVRO, Schema, SchemaSource, usable
from tidelog.values.versions import MISFIT, Int32s, Reasons, Version
from tidelog.values.wire import PLAIN, Spans

__all__ = ["AvroVersions"]


class AvroVersions:
    """The writers' schemas of a column. Picklable."""

    def __init__(
        self,
        source: SchemaSource,
        target: Sequence[Schema],
        plain: dict[str, Schema],
        portable: bool,
        existing: ExistingColumn | None = None,
    ) -> None:
        """`target` are the schemas that the column holds, oldest first; `plain` those of topics."""
        self._source = source
        self._target = list(target)
        self._plain = plain
        self._portable = portable
        self._existing = existing
        versions = usable(target, _parse, may_be_none=existing is not None)
        joined = join_all(versions, merge, self._type_of, existing)
        found, self.type = joined
        self._reader = found if existing is None or found is None else limited(found, self.type)
        self._known: dict[tuple[int, str], Version | str] = {}

    def _type_of(self, avro: AvroType) -> pa.DataType:
        kind = arrow_type(avro, portable=self._portable)
        return columns_type(kind) if self._portable else kind

    def _holds_reader(self) -> bool:
        """Whether the column that is there and the type of all versions go together."""
        known = self._existing
        return known is None or self._reader is None or known.fits(self._type_of(self._reader))

    def __reduce__(self) -> Any:
        """Made again where it is unpickled: compiled plans stay."""
        return AvroVersions, (self._source, self._target, self._plain, self._portable, self._existing)

    def version(self, number: int, topic: str) -> Version | str:
        """What decodes the values of a schema."""
        key = (number, topic if number == PLAIN else "")
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(number, topic)
        return found

    def _make(self, number: int, topic: str) -> Version | str:
        name = f"the schema of {topic}" if number == PLAIN else f"schema {number}"
        schema = self._plain.get(topic) if number == PLAIN else self._source.by_id(number)
        if schema is None:
            return f"{name} is unknown"
        try:
            writer = _parse(schema)
            plan = compile_plan(writer, portable=self._portable)
        except InvalidInputError as error:
            return f"{name} cannot be used: {error}"
        if self._reader is None or lacking(writer, self._reader) is not None or not self._holds_reader():
            return _AvroVersion(AvroReader(plan), None)  # the column's type tells which values fit
        return _AvroVersion(AvroReader(plan), Fitting(writer, self._reader, self._portable))


class _AvroVersion:
    def __init__(self, reader: AvroReader, fitting: Fitting | None) -> None:
        self._reader = reader
        self._fitting = fitting

    def decode(self, spans: Spans, faults: Int32s, reasons: Reasons) -> pa.Array:
        """The values, as the type of all if there is one."""
        found = self._reader.decode(spans.data, spans.starts, spans.ends, faults)
        for number in np.unique(faults).tolist():
            if number in REASONS:
                faults[faults == number] = reasons.number(REASONS[number])
        if self._fitting is None:
            return found
        try:
            fitted, bad = self._fitting.fit(found)
        except Misfit as error:
            faults[faults == 0] = reasons.number(f"the writer's schema does not fit: {error}")
            return pa.nulls(len(faults), self._fitting.type)
        if bad is not None and bad.any():
            faults[bad & (faults == 0)] = reasons.number(MISFIT)
            fitted = fitted.take(pa.array(np.arange(len(bad)), mask=bad))
        return fitted


def _parse(schema: Schema) -> AvroType:
    if schema.kind != AVRO:
        raise InvalidInputError(f"it is {schema.kind}, not Avro")
    return parse_avro(schema.text, dict(schema.references).get)
