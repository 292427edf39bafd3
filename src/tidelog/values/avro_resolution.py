"""Schemas of several writers: the type that holds all of them, and values of one brought to it.

`merge` follows the rules of tables: fields are added and stay, types widen (int -> long -> float -> double,
a decimal gets more digits), a union gets branches. `fit` follows Avro's schema resolution as far as it has a
meaning for columns: fields by name or alias, defaults for fields that a writer did not have, promotions. All
columns may be null, so a field without a default is null. An enum is text, so no symbol is unknown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.values.avro_defaults import default_scalar
from tidelog.values.avro_schema import AvroField, AvroType
from tidelog.values.avro_types import arrow_type
from tidelog.values.conforming import Bools, any_within, fit_numbers, there, validity
from tidelog.values.json_reading import Misfit

__all__ = ["Fitting", "lacking", "limited", "merge"]

_NUMBERS = ("int", "long", "float", "double")
_WIDTHS = {pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double"}
_TEXTS = ("string", "bytes", "enum", "fixed")
_SAME = {"timestamp-millis": "timestamp-micros", "local-timestamp-millis": "local-timestamp-micros"}


# ---- one type for several


def merge(old: AvroType, new: AvroType, where: str = "value") -> AvroType:
    """The type that holds what two types hold; Misfit where there is none."""
    if old is new:
        return new
    olds, news = old.members, new.members
    has_null = len(olds) < len(old.branches) or len(news) < len(new.branches) or not olds or not news
    if len(olds) <= 1 and len(news) <= 1:
        if not olds or not news:
            members = olds or news
        elif _can_join(olds[0], news[0]):
            members = [_join(olds[0], news[0], where)]
        else:
            members = _branches(olds, news, where)
    else:
        members = _branches(olds, news, where)
    if len(members) == 1 and not has_null:
        return members[0]
    branches = [AvroType("null"), *members] if has_null else members
    return AvroType("union", branches=branches)


def _branches(olds: list[AvroType], news: list[AvroType], where: str) -> list[AvroType]:
    """The branches of a union: those of both, by name."""
    found = {_branch_name(one): one for one in olds}
    for one in news:
        name = _branch_name(one)
        found[name] = _join(found[name], one, where) if name in found else one
    return list(found.values())


def _branch_name(one: AvroType) -> str:
    return one.name or one.kind


def _can_join(old: AvroType, new: AvroType) -> bool:
    if old.kind in _NUMBERS and new.kind in _NUMBERS:
        return True
    if old.kind in _TEXTS and new.kind in _TEXTS:
        return True
    return old.kind == new.kind


def _join(old: AvroType, new: AvroType, where: str) -> AvroType:
    """Two types that are no unions."""
    if old.is_recursive or new.is_recursive:
        if old.is_recursive and new.is_recursive:
            return new
        raise Misfit(f"{where} is a recursive type in one schema only")
    if _SAME.get(old.logical, old.logical) != _SAME.get(new.logical, new.logical):
        raise Misfit(
            f"{where} is {old.logical or old.kind} in one schema, {new.logical or new.kind} in another"
        )
    if old.logical == "decimal":
        return _wider_decimal(old, new, where)
    if old.kind in _NUMBERS and new.kind in _NUMBERS:
        return max(old, new, key=lambda one: _NUMBERS.index(one.kind))
    if old.kind == new.kind == "record":
        return _join_records(old, new, where)
    if old.kind in ("array", "map") and old.kind == new.kind:
        assert old.items is not None
        assert new.items is not None
        return AvroType(new.kind, items=merge(old.items, new.items, f"{where}[]"))
    if not _can_join(old, new):
        raise Misfit(f"{where} is {old.kind} in one schema, {new.kind} in another")
    if new.kind == "enum" and old.kind == "string":
        return old
    return new


def _wider_decimal(old: AvroType, new: AvroType, where: str) -> AvroType:
    scale = max(old.scale, new.scale)
    precision = max(old.precision - old.scale, new.precision - new.scale) + scale
    if precision > max(38, old.precision, new.precision):
        raise Misfit(f"{where} is a decimal of more than {precision - 1} digits")
    # The name stays: it tells which branch of a union this is.
    return replace(new, precision=precision, scale=scale)


def _join_records(old: AvroType, new: AvroType, where: str) -> AvroType:
    """Fields of both: the old ones first, under their new names."""
    joined = AvroType("record", new.name, new.aliases)
    rest = {one.name: one for one in new.fields}
    for one in old.fields:
        match = rest.pop(one.name, None) or _pop_alias(rest, one.name)
        if match is None:
            joined.fields.append(one)
            continue
        kind = merge(one.type, match.type, f"{where}.{match.name}")
        aliases = tuple(dict.fromkeys((*match.aliases, *one.aliases)))
        joined.fields.append(AvroField(match.name, kind, aliases, match.default, match.has_default))
    joined.fields += rest.values()
    return joined


def _pop_alias(fields: dict[str, AvroField], name: str) -> AvroField | None:
    for key, one in fields.items():
        if name in one.aliases:
            return fields.pop(key)
    return None


def limited(avro: AvroType, kind: pa.DataType) -> AvroType:
    """A type with numbers as narrow as those of a column, so that none is made wider and narrow again."""
    if avro.is_recursive or len(avro.members) > 1 or avro.logical:
        return avro
    if avro.kind == "union":
        return replace(
            avro, branches=[one if one.kind == "null" else limited(one, kind) for one in avro.branches]
        )
    if avro.kind in _NUMBERS and kind in _WIDTHS:
        return AvroType(_WIDTHS[kind])
    if avro.kind == "record" and pa.types.is_struct(kind):
        kinds = {one.name: one.type for one in kind}
        fields = [
            replace(one, type=limited(one.type, kinds[one.name])) if one.name in kinds else one
            for one in avro.fields
        ]
        return replace(avro, fields=fields)
    if avro.kind == "array" and pa.types.is_list(kind) and avro.items is not None:
        return replace(avro, items=limited(avro.items, kind.value_type))
    if avro.kind == "map" and pa.types.is_map(kind) and avro.items is not None:
        return replace(avro, items=limited(avro.items, kind.item_type))
    return avro


def lacking(writer: AvroType, reader: AvroType, where: str = "value") -> str | None:
    """A field of the writer's that the reader does not have; it would be lost."""
    if writer.is_recursive or reader.is_recursive:
        return None
    for one in writer.members:
        at = _matching(one, reader.members) if len(reader.members) > 1 or len(writer.members) > 1 else 0
        if at is None or not reader.members:
            continue
        found = _lacking_in(one, reader.members[at], where)
        if found is not None:
            return found
    return None


def _lacking_in(writer: AvroType, reader: AvroType, where: str) -> str | None:
    if writer.items is not None and reader.items is not None:
        return lacking(writer.items, reader.items, f"{where}[]")
    if not (writer.kind == reader.kind == "record"):
        return None
    places = {one.name: one for one in writer.fields}
    for one in reader.fields:
        name = _name_at_writer(one, places)
        found = None if name is None else lacking(places.pop(name).type, one.type, f"{where}.{one.name}")
        if found is not None:
            return found
    return f"{where}.{next(iter(places))}" if places else None


def _name_at_writer(one: AvroField, places: Collection[str]) -> str | None:
    """What a reader's field is called by the writer."""
    return next((each for each in (one.name, *one.aliases) if each in places), None)


# ---- values of one type as another


@dataclass(frozen=True, slots=True)
class Fitting:
    """Brings values of a writer's type to the reader's."""

    writer: AvroType
    reader: AvroType
    portable: bool = False

    @property
    def type(self) -> pa.DataType:
        """The reader's type."""
        return arrow_type(self.reader, portable=self.portable)

    def fit(self, array: pa.Array) -> tuple[pa.Array, Bools | None]:
        """The values as the reader's type, and which of them do not fit."""
        if array.type == self.type and not (self.portable and _has_raw_decimals(self.reader)):
            return array, None
        return _Fitter(self.portable).fit(array, self.writer, self.reader)


class _Fitter:
    def __init__(self, portable: bool) -> None:
        self._portable = portable

    def _type(self, avro: AvroType) -> pa.DataType:
        return arrow_type(avro, portable=self._portable)

    def fit(self, array: pa.Array, writer: AvroType, reader: AvroType) -> tuple[pa.Array, Bools | None]:
        writers, readers = writer.members, reader.members
        bad: Bools | None = None
        if not writers or not readers:
            bad = None if not writers else there(array)
            return pa.nulls(len(array), self._type(reader)), bad
        if len(writers) == 1 and len(readers) == 1:
            return self._single(array, writers[0], readers[0])
        parts: list[pa.Array | None] = [None] * len(readers)
        for number, one in enumerate(writers):
            given = array.field(number) if len(writers) > 1 else array
            if len(writers) > 1 and array.null_count:
                given = pc.if_else(array.is_valid(), given, pa.scalar(None, given.type))
            at = _matching(one, readers)
            if at is None:
                bad = _either(bad, there(given))
                continue
            fitted, wrong = self._single(given, one, readers[at])
            bad = _either(bad, wrong)
            before = parts[at]
            parts[at] = fitted if before is None else pc.coalesce(before, fitted)
        filled = [
            pa.nulls(len(array), self._type(kind)) if part is None else part
            for part, kind in zip(parts, readers, strict=True)
        ]
        if len(readers) == 1:
            return filled[0], bad
        valid = array.is_valid() if array.null_count else None
        struct = pa.StructArray.from_arrays(
            filled, fields=list(self._type(reader)), mask=None if valid is None else pc.invert(valid)
        )
        return struct, bad

    def _single(self, array: pa.Array, writer: AvroType, reader: AvroType) -> tuple[pa.Array, Bools | None]:
        wanted = self._type(reader)
        if writer.logical == reader.logical == "decimal" and pa.types.is_binary(wanted):
            return _raw_decimals(array, writer, reader), None
        if array.type == wanted and not (writer.kind == "record" and not reader.is_recursive):
            return array, None
        if reader.is_recursive or writer.is_recursive:
            raise Misfit(f"{reader.name or reader.kind} is a recursive type in one schema only")
        if writer.kind == reader.kind == "record":
            return self._record(array, writer, reader)
        if writer.kind in ("array", "map") and writer.kind == reader.kind:
            return self._items(array, writer, reader)
        if not _can_join(writer, reader) or not _same_logical(writer, reader):
            raise Misfit(f"{writer.logical or writer.kind} does not fit {reader.logical or reader.kind}")
        return fit_numbers(array, wanted) if _is_narrower(writer, reader) else _cast(array, wanted)

    def _record(self, array: pa.Array, writer: AvroType, reader: AvroType) -> tuple[pa.Array, Bools | None]:
        places = {one.name: number for number, one in enumerate(writer.fields)}
        bad: Bools | None = None
        columns = []
        for one in reader.fields:
            name = _name_at_writer(one, places)
            if name is None:
                columns.append(self._default(one, len(array)))
                continue
            fitted, wrong = self.fit(array.field(places[name]), writer.fields[places[name]].type, one.type)
            bad = _either(bad, wrong)
            columns.append(fitted)
        valid = array.is_valid()
        if bad is not None:
            bad &= valid.to_numpy(zero_copy_only=False)
        mask = pc.invert(valid) if array.null_count else None
        fields = list(self._type(reader))
        if not columns:
            return pa.array([{}] * len(array), self._type(reader), mask=mask), bad
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask), bad

    def _default(self, one: AvroField, rows: int) -> pa.Array:
        kind = self._type(one.type)
        if not one.has_default or one.default is None:
            return pa.nulls(rows, kind)
        return pa.repeat(default_scalar(one, portable=self._portable), rows)

    def _items(self, array: pa.Array, writer: AvroType, reader: AvroType) -> tuple[pa.Array, Bools | None]:
        assert writer.items is not None
        assert reader.items is not None
        ends = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
        if writer.kind == "array":
            inner, bad = self.fit(array.values, writer.items, reader.items)
        else:
            values, bad = self.fit(array.items, writer.items, reader.items)
            kind = self._type(reader)
            inner = pa.StructArray.from_arrays([array.keys, values], fields=[kind.key_field, kind.item_field])
        if bad is not None:
            bad = any_within(bad, ends)
        buffers = [validity(array), pa.py_buffer(np.ascontiguousarray(ends))]
        return pa.Array.from_buffers(self._type(reader), len(array), buffers, children=[inner]), bad


def _matching(writer: AvroType, readers: list[AvroType]) -> int | None:
    """The first branch of its own name, else the first that it can be promoted to."""
    for number, one in enumerate(readers):
        if _branch_name(one) == _branch_name(writer):
            return number
    for number, one in enumerate(readers):
        if _can_join(writer, one) and not _is_narrower(writer, one) and writer.logical == one.logical:
            return number
    return None


def _is_narrower(writer: AvroType, reader: AvroType) -> bool:
    """Whether not all numbers of the writer's are the reader's."""
    if writer.kind not in _NUMBERS or reader.kind not in _NUMBERS:
        return False
    return _NUMBERS.index(reader.kind) < _NUMBERS.index(writer.kind)


def _same_logical(one: AvroType, other: AvroType) -> bool:
    return _SAME.get(one.logical, one.logical) == _SAME.get(other.logical, other.logical)


def _has_raw_decimals(avro: AvroType) -> bool:
    """Whether some decimals have no Arrow type that is portable: their bytes do not tell the scale."""
    if avro.is_recursive:
        return False
    is_raw = avro.logical == "decimal" and pa.types.is_binary(arrow_type(avro, portable=True))
    return is_raw or any(map(_has_raw_decimals, avro.children()))


def _raw_decimals(array: pa.Array, writer: AvroType, reader: AvroType) -> pa.Array:
    """Decimals as the bytes of a number, with the reader's scale."""
    if writer.scale > reader.scale:
        raise Misfit(f"a decimal with scale {writer.scale} does not fit scale {reader.scale}")
    if writer.scale == reader.scale and pa.types.is_binary(array.type):
        return array
    found: list[bytes | None] = []
    for one in array.to_pylist():
        if isinstance(one, bytes):
            number = int.from_bytes(one, "big", signed=True)
        elif one is not None:
            sign, digits, _ = one.as_tuple()  # Arrow's have the scale of the type
            number = int("".join(map(str, digits))) * (-1 if sign else 1)
        else:
            found.append(None)
            continue
        number *= 10 ** (reader.scale - writer.scale)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        found.append(number.to_bytes(size, "big", signed=True))
    return pa.array(found, pa.binary())


def _cast(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Bools | None]:
    try:
        return array.cast(wanted, safe=not pa.types.is_floating(wanted)), None
    except pa.ArrowInvalid:
        if not pa.types.is_string(wanted):
            raise Misfit(f"{array.type} does not fit {wanted}") from None
    texts = [_text(one) for one in array.to_pylist()]
    fitted = pa.array(texts, wanted)
    return fitted, there(array) & ~there(fitted)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _either(one: Bools | None, other: Bools | None) -> Bools | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other
