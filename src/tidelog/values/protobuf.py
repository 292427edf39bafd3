"""Protobuf values as a column, through ptars: wire bytes to Arrow, without a message object for each.

In Confluent's wire format the indexes of the message follow the schema's id: how many there are, then each
(zigzag varints); a single 0 stands for the first message. A message is found by its index in the file, then
by those of nested messages. Plain values are of the first message.

    1. protoc (grpcio-tools) compiles a schema with what it imports.
    2. The values of each message are decoded in one call. If it fails, halves are tried: what fails alone is
       invalid.
    3. They are brought to the column's type: the first messages of all versions, joined.

Unsigned integers become wider signed ones, uint64 a decimal; durations are nanoseconds. A message that
contains itself cannot be a column.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError, MissingLibraryError
from tidelog.values.conforming import conform
from tidelog.values.existing import ExistingColumn, join_all
from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import columns_type, join
from tidelog.values.schemas import PROTOBUF, Schema, SchemaSource, usable
from tidelog.values.versions import Int32s, Reasons, Version, settle
from tidelog.values.wire import PLAIN, Int64s, Spans

__all__ = ["ProtobufVersions", "message_indexes"]

_MOST_INDEXES = 16
_types = pa.types


class ProtobufVersions:
    """The schemas of a column. Picklable."""

    def __init__(
        self,
        source: SchemaSource,
        target: Sequence[Schema],
        plain: dict[str, Schema],
        existing: ExistingColumn | None = None,
    ) -> None:
        """`target` are the schemas that the column holds, oldest first; `plain` those of topics."""
        self._given = (source, list(target), plain, existing)
        self._files: dict[Schema, _File] = {}
        self._known: dict[tuple[int, str], Version | str] = {}
        kinds = usable(
            target, lambda one: self._file(one).message((0,)).type, may_be_none=existing is not None
        )
        _, self.type = join_all(kinds, join, columns_type, existing)

    def __reduce__(self) -> Any:
        """Made again where it is unpickled."""
        return ProtobufVersions, self._given

    def _file(self, schema: Schema) -> _File:
        if schema not in self._files:
            self._files[schema] = _File(schema)
        return self._files[schema]

    def version(self, number: int, topic: str) -> Version | str:
        """What decodes the values of a schema."""
        key = (number, topic if number == PLAIN else "")
        if key not in self._known:
            self._known[key] = self._make(number, topic)
        return self._known[key]

    def _make(self, number: int, topic: str) -> Version | str:
        source, _, plain, _ = self._given
        name = f"the schema of {topic}" if number == PLAIN else f"schema {number}"
        schema = plain.get(topic) if number == PLAIN else source.by_id(number)
        if schema is None:
            return f"{name} is unknown"
        try:
            return _ProtobufVersion(self._file(schema), self.type, framed=number != PLAIN)
        except InvalidInputError as error:
            return f"{name} cannot be used: {error}"


class _ProtobufVersion:
    def __init__(self, file: _File, kind: pa.DataType, *, framed: bool) -> None:
        self._file = file
        self._type = kind
        self._framed = framed

    def decode(self, spans: Spans, faults: Int32s, reasons: Reasons) -> pa.Array:
        """The values as the column's type."""
        rows = np.flatnonzero(faults == 0)
        starts = spans.starts.copy()
        paths = np.zeros((len(rows), 1), np.int64)
        if self._framed:
            paths, starts[rows], bad = message_indexes(spans.data, spans.starts[rows], spans.ends[rows])
            faults[rows[bad]] = reasons.number("the indexes of the message cannot be read")
            rows, paths = rows[~bad], paths[~bad]
        own = Spans(spans.data, starts, spans.ends, spans.ids)
        places = np.full(len(faults), -1, np.int64)
        parts: list[pa.Array] = []
        done = 0
        for path in np.unique(paths, axis=0):
            mine = rows[(paths == path).all(axis=1)]
            part = self._message(own, mine, tuple(path[path >= 0].tolist()), faults, reasons)
            if part is not None:
                good = mine[faults[mine] == 0]
                places[good] = np.arange(done, done + len(good))
                parts.append(part)
                done += len(part)
        if not parts:
            return pa.nulls(len(faults), self._type)
        return pa.concat_arrays(parts).take(pa.array(places, mask=places < 0))

    def _message(
        self, spans: Spans, rows: Int64s, path: tuple[int, ...], faults: Int32s, reasons: Reasons
    ) -> pa.Array | None:
        """The values of one message that decode."""
        try:
            found = self._file.message(path).decode(spans.payloads(rows))
        except (Misfit, InvalidInputError) as error:
            faults[rows] = reasons.number(f"the message does not fit: {error}")
            return None
        bad = np.concatenate([np.zeros(len(one), np.bool_) if one is not None else [True] for one in found])
        faults[rows[bad.astype(np.bool_)]] = reasons.number("not a message of the schema")
        good = [one for one in found if one is not None]
        if not good:
            return None
        own = np.zeros(sum(map(len, good)), np.int32)
        fitted = settle(pa.concat_arrays(good), self._type, own, reasons)
        faults[rows[~bad.astype(np.bool_)]] = own
        return fitted.filter(pa.array(own == 0))


class _File:
    """A schema, compiled, and its messages."""

    def __init__(self, schema: Schema) -> None:
        if schema.kind != PROTOBUF:
            raise InvalidInputError(f"it is {schema.kind}, not Protobuf")
        self._pool, self._name = _compiled(schema)
        self._messages: dict[tuple[int, ...], _Message] = {}

    def message(self, path: tuple[int, ...]) -> _Message:
        """The message at indexes."""
        if path not in self._messages:
            file = self._pool.FindFileByName(self._name)
            inside = list(file.message_types_by_name.values())
            found: Any = None
            for index in path:
                if not 0 <= index < len(inside):
                    raise InvalidInputError(f"the schema has no message at {list(path)}")
                found = inside[index]
                inside = list(found.nested_types)
            self._messages[path] = _Message(found)
        return self._messages[path]


class _Message:
    def __init__(self, descriptor: Any) -> None:
        _refuse_cycles(descriptor, ())
        ptars = _library("ptars")
        config = ptars.PtarsConfig(timestamp_unit="us", enum_repr="string")
        handler = ptars.HandlerPool([descriptor.file], config=config).get_for_message(descriptor)
        self._decode = handler.array_to_record_batch
        self._raw = pa.struct(list(handler.schema()))
        self.type = _plain_type(self._raw)

    def decode(self, values: pa.Array) -> list[pa.Array | None]:
        """The values in runs; None for one that does not decode."""
        if not len(values):
            return []
        try:
            batch = self._decode(values)
            fields = list(self._raw)
            found = pa.StructArray.from_arrays(batch.columns, fields=fields) if fields else None
            if found is None:
                return [pa.array([{}] * len(values), self.type)]
            return [conform(found, self.type)]
        except (KeyboardInterrupt, SystemExit, MemoryError, Misfit):
            raise
        except BaseException:  # whatever Rust makes of bytes that are no message
            if len(values) == 1:
                return [None]
        half = len(values) // 2
        return self.decode(values.slice(0, half)) + self.decode(values.slice(half))


def message_indexes(
    data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """The message indexes at `starts` (-1 where there are no more), where they end, and which are no good."""
    counts, at, bad = _varints(data, starts, ends)
    bad = bad | (counts < 0) | (counts > _MOST_INDEXES)
    width = max(int(counts[~bad].max(initial=1)), 1)
    paths = np.full((len(starts), width), -1, np.int64)
    paths[counts == 0, 0] = 0
    for level in range(width):
        rows = np.flatnonzero(~bad & (counts > level))
        found, after, wrong = _varints(data, at[rows], ends[rows])
        paths[rows, level], at[rows] = found, after
        bad[rows[wrong | (found < 0)]] = True
    return paths, at, bad


def _varints(
    data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """A zigzag varint of up to five bytes in each row: what it is, where it ends, and where there is none."""
    raw, at = np.zeros(len(starts), np.int64), starts.copy()
    is_open = np.ones(len(starts), np.bool_)
    bad = np.zeros(len(starts), np.bool_)
    for shift in range(0, 35, 7):
        bad |= is_open & (at >= ends)
        is_open &= ~bad
        byte = data[np.minimum(at, len(data) - 1)].astype(np.int64)
        raw[is_open] |= (byte[is_open] & 0x7F) << shift
        at[is_open] += 1
        is_open &= byte >= 0x80
    return (raw >> 1) ^ -(raw & 1), at, bad | is_open


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type that Spark and tables have too, all of it nullable."""
    if _types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain_type(one.type)) for one in kind])
    if _types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if _types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if _types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if _types.is_unsigned_integer(kind) or _types.is_duration(kind) or _types.is_time(kind):
        return pa.int64()
    return kind


def _refuse_cycles(descriptor: Any, above: tuple[str, ...]) -> None:
    if descriptor.full_name in above:
        raise InvalidInputError(f"message {descriptor.full_name} contains itself and cannot be a column")
    for field in descriptor.fields:
        if field.message_type is not None:
            _refuse_cycles(field.message_type, (*above, descriptor.full_name))


def _compiled(schema: Schema) -> tuple[Any, str]:
    """The pool of a schema and what it imports, and the name of its file."""
    protoc = _library("grpc_tools.protoc")
    pools = _library("google.protobuf.descriptor_pool")
    messages = _library("google.protobuf.descriptor_pb2")
    own = Path(import_module("grpc_tools").__file__ or "").parent / "_proto"
    name = "tidelog_value.proto"
    with tempfile.TemporaryDirectory(prefix="tidelog-protobuf-") as scratch:
        root = Path(scratch)
        for path, text in (*schema.references, (name, schema.text)):
            target = (root / path).resolve()
            if not target.is_relative_to(root.resolve()):
                raise InvalidInputError(f"a schema imports {path!r}, which lies outside")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        out = root / "compiled.bin"
        options = [f"-I{root}", f"-I{own}", "--include_imports", f"--descriptor_set_out={out}", name]
        if protoc.main(["protoc", *options]) or not out.exists():
            raise InvalidInputError("protoc does not compile the schema")
        files = messages.FileDescriptorSet.FromString(out.read_bytes())
    pool = pools.DescriptorPool()
    for one in files.file:
        pool.AddSerializedFile(one.SerializeToString())
    return pool, name


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingLibraryError(
            f"Protobuf values need {error.name}: pip install 'tidelog[protobuf]'"
        ) from None
