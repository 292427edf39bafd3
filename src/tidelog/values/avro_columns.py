"""Avro datums as Arrow arrays: room for the kernel, and columns from what it filled."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError, MissingLibraryError
from tidelog.kernels import avro as kernel
from tidelog.values.avro_plan import NARROW, SMALL, WIDE, Column, Plan, Slot
from tidelog.values.avro_schema import AvroType, dump_plain
from tidelog.values.avro_types import DURATION

__all__ = ["REASONS", "AvroReader"]

REASONS = {
    kernel.BAD_VARINT: "a number is too long",
    kernel.ENDS_EARLY: "the value ends early",
    kernel.BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    kernel.BAD_LENGTH: "a length is impossible",
    kernel.BAD_BRANCH: "a union has no such branch",
    kernel.BAD_SYMBOL: "an enum has no such symbol",
    kernel.BAD_TEXT: "a string is not UTF-8",
    kernel.TOO_MANY: "an array has too many items",
    kernel.TOO_DEEP: "the value is nested too deeply",
    kernel.OUT_OF_RANGE: "a number is out of range",
    kernel.LEFT_OVER: "bytes are left over after the value",
}
"""What the kernel's faults mean."""

_MOST = (1 << 31) - 1
_ALIGNED = 64
_SIZES = {WIDE: 8, NARROW: 4, SMALL: 1}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

Int64s = npt.NDArray[np.int64]
Arenas = tuple[Int64s, npt.NDArray[np.int32], npt.NDArray[np.uint8]]


@dataclass(slots=True)
class AvroReader:
    """Decodes values of one writer's schema."""

    plan: Plan
    _per_row: dict[int, float] = field(default_factory=dict)
    """What each counter counted in a row of the last call."""

    def decode(
        self,
        data: npt.NDArray[np.uint8],
        starts: Int64s,
        ends: Int64s,
        faults: npt.NDArray[np.int32],
    ) -> pa.Array:
        """Decode data[starts[i]:ends[i]] where faults[i] is 0; sets faults. Other rows are null."""
        plan, rows = self.plan, len(faults)
        counters = np.zeros(plan.counters, np.int64)
        room = self._first_room(rows, int((ends - starts)[faults == 0].sum()))
        nodes = plan.nodes.copy()
        arenas = _make_room(plan, nodes, room, None, counters)
        if not len(data):
            data = np.zeros(1, np.uint8)
        row = 0
        while True:
            row, full, need = kernel.decode(
                data, starts, ends, faults, nodes, plan.consts, arenas, counters, room, row
            )
            if full < 0:
                break
            if need > _MOST:
                raise InvalidInputError(
                    "arrays with more than 2^31 items in a batch: read fewer records at once"
                )
            room[full] = min(max(2 * int(room[full]), need + need // 4), _MOST)
            arenas = _make_room(plan, nodes, room, arenas, counters)
        for number in range(1, plan.counters):
            self._per_row[number] = counters[number] / max(rows, 1)
        counters[0] = rows
        return _Assembly(arenas, nodes, counters).array(plan.root)

    def _first_room(self, rows: int, size: int) -> Int64s:
        """A guess; the last call tells better."""
        room = np.empty(self.plan.counters, np.int64)
        room[0] = rows
        for number, is_data in enumerate(self.plan.is_data[1:], 1):
            guess = self._per_row.get(number, 8.0 if is_data else 2.0)
            room[number] = min(int(guess * rows * 1.1) + 64, size + 64, _MOST)
        return room


def _make_room(plan: Plan, nodes: Int64s, room: Int64s, old: Arenas | None, counters: Int64s) -> Arenas:
    """Arenas with room for so much; what is in the old ones is copied, and the nodes are told."""
    ends = [0, 0, 0]
    places: list[tuple[Slot, int]] = []
    for slot in plan.slots:
        places.append((slot, ends[slot.arena]))
        step = _ALIGNED // _SIZES[slot.arena]
        size = int(room[slot.counter]) * slot.width + slot.extra
        ends[slot.arena] += -(-size // step) * step
    arenas = (
        np.empty(ends[WIDE] + 1, np.int64),
        np.empty(ends[NARROW] + 1, np.int32),
        np.empty(ends[SMALL] + 1, np.uint8),
    )
    for slot, base in places:
        arena: Any = arenas[slot.arena]
        if old is None:
            arena[base : base + slot.extra] = 0
        else:
            used = int(room[0] if slot.counter == 0 else counters[slot.counter]) * slot.width + slot.extra
            before = nodes[slot.number]
            arena[base : base + used] = old[slot.arena][before : before + used]
        nodes[slot.number] = base
    return arenas


class _Assembly:
    """Arrow arrays over what the kernel filled."""

    def __init__(self, arenas: Arenas, nodes: Int64s, counters: Int64s) -> None:
        self._arenas = arenas
        self._nodes = nodes
        self._counters = counters

    def array(self, column: Column) -> pa.Array:
        """The array of a column."""
        kind, rows = column.kind, int(self._counters[column.counter])
        if kind == kernel.NULL:
            return pa.nulls(rows)
        if kind == kernel.OPTION:
            return self.array(column.children[0]) if column.children else pa.nulls(rows)
        valid = self._bits(column.valid, rows)
        if kind in (kernel.RECORD, kernel.UNION):
            children = [self.array(one) for one in column.children]
            return pa.Array.from_buffers(column.type, rows, [valid], children=children)
        if kind == kernel.ARRAY:
            items = self.array(column.children[0])
            return pa.Array.from_buffers(
                column.type, rows, [valid, self._buffer(column.out, rows)], children=[items]
            )
        if kind == kernel.MAP:
            inner = [self.array(one) for one in column.children]
            entries = pa.StructArray.from_arrays(
                inner, fields=[column.type.key_field, column.type.item_field]
            )
            return pa.Array.from_buffers(
                column.type, rows, [valid, self._buffer(column.out, rows)], children=[entries]
            )
        return self._leaf(column, rows, valid)

    def _leaf(self, column: Column, rows: int, valid: pa.Buffer | None) -> pa.Array:
        kind, out = column.kind, column.out
        if kind == kernel.BOOLEAN:
            return pa.Array.from_buffers(pa.bool_(), rows, [valid, self._bits(out, rows, always=True)])
        if kind == kernel.ENUM:
            numbers = pa.Array.from_buffers(pa.int32(), rows, [valid, self._buffer(out, rows)])
            return pa.array(column.avro.symbols, pa.string()).take(numbers)
        if column.data is None:
            return pa.Array.from_buffers(column.type, rows, [valid, self._buffer(out, rows)])
        data = self._buffer(column.data, int(self._counters[column.data.counter]))
        buffers = [valid, self._buffer(out, rows), data]
        if kind == kernel.STRING:
            return pa.Array.from_buffers(pa.string(), rows, buffers)
        raw = pa.Array.from_buffers(pa.binary(), rows, buffers)
        if kind == kernel.SPAN:
            return _json_texts(raw, column.avro)
        if pa.types.is_binary(column.type):
            return raw
        bytes_ = np.frombuffer(data, np.uint8) if data.size else np.zeros(0, np.uint8)
        return (_durations if column.type == DURATION else _uuids)(raw, bytes_.reshape(-1, column.avro.size))

    def _buffer(self, slot: Slot | None, rows: int) -> pa.Buffer:
        assert slot is not None
        arena: Any = self._arenas[slot.arena]
        base = int(self._nodes[slot.number])
        return pa.py_buffer(arena[base : base + rows * slot.width + slot.extra])

    def _bits(self, slot: Slot | None, rows: int, *, always: bool = False) -> pa.Buffer | None:
        """A byte for each row as a bit; None where all are 1 and that need not be said."""
        if slot is None:
            return None
        base = int(self._nodes[slot.number])
        found = self._arenas[SMALL][base : base + rows]
        if not always and found.all():
            return None
        return pa.py_buffer(np.packbits(found, bitorder="little"))


def _spread(raw: pa.Array, dense: npt.NDArray[np.uint8], make: Callable[[Any], pa.Array]) -> pa.Array:
    """What is made of the values that are there; null where there is none, and in records that are null."""
    made = make(dense)
    if len(dense) == len(raw):
        return made
    there = np.diff(np.frombuffer(raw.buffers()[1], np.int32, len(raw) + 1)) > 0
    places = np.cumsum(there) - 1
    return made.take(pa.array(places, mask=~there))


def _durations(raw: pa.Array, rows: npt.NDArray[np.uint8]) -> pa.Array:
    def make(found: Any) -> pa.Array:
        parts = np.ascontiguousarray(found).view("<u4").reshape(-1, 3).astype(np.int64)
        return pa.StructArray.from_arrays([pa.array(parts[:, n]) for n in range(3)], fields=list(DURATION))

    return _spread(raw, rows, make)


def _uuids(raw: pa.Array, rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Sixteen bytes as 8-4-4-4-12 hexadecimal digits."""

    def make(found: Any) -> pa.Array:
        text = np.full((len(found), 36), ord("-"), np.uint8)
        places = [n for n in range(36) if n not in (8, 13, 18, 23)]
        text[:, places[0::2]] = _HEX[found >> 4]
        text[:, places[1::2]] = _HEX[found & 15]
        ends = np.arange(len(found) + 1, dtype=np.int32) * 36
        return pa.Array.from_buffers(
            pa.string(), len(found), [None, pa.py_buffer(ends), pa.py_buffer(text.ravel())]
        )

    return _spread(raw, rows, make)


def _json_texts(raw: pa.Array, avro: AvroType) -> pa.Array:
    """Values of a recursive type as JSON text, one by one, through fastavro."""
    try:
        fastavro: Any = import_module("fastavro")
    except ImportError:
        raise MissingLibraryError(
            f"the Avro type {avro.name} is recursive: install fastavro, pip install 'tidelog[avro]'"
        ) from None
    schema = fastavro.parse_schema(dump_plain(avro))

    def text(value: bytes | None) -> str | None:
        if not value:  # null, or in a record that is
            return None
        found = fastavro.schemaless_reader(io.BytesIO(value), schema, None)
        return json.dumps(_plain(found), ensure_ascii=False, separators=(",", ":"))

    return pa.array([text(one) for one in raw.to_pylist()], pa.string())


def _plain(value: Any) -> Any:
    """As JSON has it: bytes are text of one character each, and what is no number is text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
