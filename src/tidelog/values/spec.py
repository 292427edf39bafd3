"""How values or keys are encoded: a format, and where its schemas come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.values.avro import AvroVersions
from tidelog.values.existing import ExistingColumn
from tidelog.values.json_schema import JsonVersions
from tidelog.values.protobuf import ProtobufVersions
from tidelog.values.schemas import Schema, SchemaSource, open_schemas, type_name
from tidelog.values.versions import Decoded, Versions, decode_versions, error_name, invalid_name
from tidelog.values.wire import PLAIN, Framing

__all__ = ["FORMATS", "ColumnDecoder", "Values"]

FORMATS = ("avro", "protobuf", "jsonschema")


@dataclass(frozen=True, slots=True)
class ColumnDecoder:
    """Decodes a column of bytes. Picklable."""

    column: str
    framing: Framing
    versions: Versions
    wider: pa.DataType | None = None
    """The type of the column, if it is wider than that of the schemas."""

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""
        return self.versions.type if self.wider is None else self.wider

    @property
    def struct(self) -> pa.DataType | None:
        """The type of the column, if it is a struct."""
        return self.type if pa.types.is_struct(self.type) else None

    def with_struct(self, struct: pa.DataType) -> ColumnDecoder:
        """With a wider type."""
        return replace(self, wider=struct)

    @property
    def fields(self) -> list[pa.Field]:
        """The columns that it becomes."""
        return [
            pa.field(self.column, self.type),
            pa.field(invalid_name(self.column), pa.binary()),
            pa.field(error_name(self.column), pa.string()),
        ]

    def decode(self, values: pa.Array, topic: str = "") -> Decoded:
        """Binary values of a topic as these columns."""
        return decode_versions(values, self.framing, topic, self.versions, self.type)


@dataclass(frozen=True, slots=True)
class Values:
    """How to decode values, or keys.

    `format` is avro, protobuf or jsonschema. `schemas` is a directory (`tidelog.values.schemas` says which
    files it has) or the URL of a schema registry; `registry` has options of its client, such as
    `basic.auth.user.info`. `framing` is confluent (a magic byte and a schema id before each value) or plain.
    The column has the type of all versions of the topic's subject; `subject` names another than
    `<topic>-value` (`<topic>-key` for keys).
    """

    format: str
    schemas: str | Path
    framing: str = "confluent"
    subject: str | None = None
    registry: Mapping[str, str] = field(default_factory=dict)

    def decoder(
        self,
        topics: Sequence[str],
        seen: Callable[[], Iterable[int]] = tuple,
        *,
        column: str = "value",
        portable: bool = False,
        existing: ExistingColumn | None = None,
    ) -> ColumnDecoder:
        """A decoder for topics. `seen` answers schema ids of some values, if no topic has a subject.

        `portable` leaves out Arrow types that Spark and tables do not have. Values go into an `existing`
        column: those of schemas that do not fit it are invalid.
        """
        if self.format.lower() not in FORMATS:
            raise InvalidInputError(f"the format is one of {', '.join(FORMATS)}, not {self.format!r}")
        framing = Framing.parse(self.framing)
        source = open_schemas(self.schemas, self.registry)
        known: dict[str, list[Schema]] = {}
        for topic in dict.fromkeys(topics):
            versions = source.versions(self.subject or f"{topic}-{column}")
            if versions:
                known[topic] = versions
            elif framing is Framing.PLAIN:
                raise InvalidInputError(f"{self._where(topic, column)}: plain values need one")
        target = [one for versions in known.values() for one in versions]
        if not target:
            target = _by_ids(source, seen())
        if not target and existing is None:
            where = self._where(topics[0] if topics else "", column)
            raise InvalidInputError(f"{where}, nor of ids that the values have")
        plain = {topic: versions[-1] for topic, versions in known.items()}
        made: Versions
        if self.format.lower() == "avro":
            made = AvroVersions(source, target, plain, portable, existing)
        elif self.format.lower() == "protobuf":
            made = ProtobufVersions(source, target, plain, existing)
        else:
            made = JsonVersions(source, target, existing)
        for topic in plain if framing is Framing.PLAIN else ():
            found = made.version(PLAIN, topic)
            if isinstance(found, str):
                raise InvalidInputError(f"{self.schemas}: {found}")
        return ColumnDecoder(column, framing, made)

    def _where(self, topic: str, column: str) -> str:
        return f"{self.schemas} has no schema of subject {self.subject or f'{topic}-{column}'}"


def _by_ids(source: SchemaSource, ids: Iterable[int]) -> list[Schema]:
    """The schemas of ids, and other versions of their types: values further on may have these."""
    seen = (source.by_id(number) for number in sorted(set(ids)))
    found = {one.id: one for one in seen if one is not None}
    names = {type_name(one) for one in found.values()} - {None}
    for number in list(found) if names else ():
        for one in source.beside(number):
            if type_name(one) in names:
                found.setdefault(one.id, one)
    return [found[number] for number in sorted(found)]
