"""From an Avro schema to what the kernel runs: nodes, columns, and the room that they take.

A plan is compiled once for a schema. `Column` is the tree of columns as Arrow will have them; each keeps
where its buffers are. `kernels.avro` says what nodes are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.kernels import avro as kernel
from tidelog.values.avro_schema import AvroType
from tidelog.values.avro_types import arrow_type

__all__ = ["Column", "Plan", "Slot", "compile_plan"]

_MOST_NODES = 20_000
_MOST_DEPTH = 64
WIDE, NARROW, SMALL = range(3)
_KINDS = {
    "null": (kernel.NULL, -1),
    "boolean": (kernel.BOOLEAN, SMALL),
    "int": (kernel.INT, NARROW),
    "long": (kernel.LONG, WIDE),
    "float": (kernel.FLOAT, NARROW),
    "double": (kernel.DOUBLE, WIDE),
    "bytes": (kernel.BYTES, NARROW),
    "string": (kernel.STRING, NARROW),
    "fixed": (kernel.FIXED, NARROW),
    "record": (kernel.RECORD, -1),
    "enum": (kernel.ENUM, NARROW),
    "array": (kernel.ARRAY, NARROW),
    "map": (kernel.MAP, NARROW),
}
_DATA = (kernel.BYTES, kernel.STRING, kernel.FIXED, kernel.SPAN)


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer in an arena: `width` elements for each that `counter` counts, and `extra` more."""

    arena: int
    counter: int
    width: int
    extra: int
    number: int
    """Which number of the nodes tells where it begins."""


@dataclass(slots=True)
class Column:
    """A column: its Arrow type and buffers."""

    avro: AvroType
    kind: int
    type: pa.DataType
    counter: int
    """What counts its slots."""
    node: int
    out: Slot | None = None
    valid: Slot | None = None
    data: Slot | None = None
    children: list[Column] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """A compiled schema."""

    root: Column
    slots: list[Slot]
    nodes: npt.NDArray[np.int64]
    consts: npt.NDArray[np.uint8]
    counters: int
    is_data: list[bool]
    """For each counter, whether it counts bytes (else rows or items)."""


def compile_plan(schema: AvroType, *, portable: bool = False) -> Plan:
    """The plan of a writer's schema; `portable` leaves out Arrow types that Spark and tables do not have."""
    return _Compiler(portable).compile(schema)


class _Compiler:
    def __init__(self, portable: bool) -> None:
        self._portable = portable
        self._rows: list[list[int]] = []
        self._slots: list[Slot] = []
        self._is_data = [False]
        self._consts = bytearray(b"\0")
        self._skips: dict[int, int] = {}
        self._waiting: deque[tuple[Column, int]] = deque()

    def compile(self, schema: AvroType) -> Plan:
        root = self._column(schema, 0, self._reserve(1), nullable=True)
        self._waiting.append((root, 0))
        while self._waiting:
            self._expand(*self._waiting.popleft())
        nodes = np.array(self._rows, np.int64).ravel()
        consts = np.frombuffer(bytes(self._consts), np.uint8)
        return Plan(root, self._slots, nodes, consts, len(self._is_data), self._is_data)

    # ---- nodes and slots

    def _reserve(self, count: int) -> int:
        first = len(self._rows)
        if first + count > _MOST_NODES:
            raise InvalidInputError(f"an Avro schema that unfolds to more than {_MOST_NODES} columns")
        self._rows += [[0, 0, 0, -1, -1, 0, 0, 0] for _ in range(count)]
        return first

    def _slot(self, node: int, place: int, arena: int, counter: int, width: int = 1, extra: int = 0) -> Slot:
        slot = Slot(arena, counter, width, extra, kernel.WIDTH * node + place)
        self._slots.append(slot)
        return slot

    def _counter(self, is_data: bool) -> int:
        self._is_data.append(is_data)
        return len(self._is_data) - 1

    # ---- columns

    def _column(self, avro: AvroType, counter: int, node: int, *, nullable: bool) -> Column:
        """The column of a node, without its children."""
        row = self._rows[node]
        kind, arena = _KINDS.get(avro.kind, (kernel.UNION, -1))
        found = arrow_type(avro, portable=self._portable)
        width = 1
        if avro.is_recursive:
            kind, arena = kernel.SPAN, NARROW
        elif avro.logical == "decimal" and pa.types.is_decimal(found):
            kind, arena, width = kernel.DECIMAL, SMALL, 16 if avro.precision <= 38 else 32
            row[2], row[7] = width, avro.size if avro.kind == "fixed" else -1
            row[6] = len(self._consts)
            self._consts += (10**avro.precision - 1).to_bytes(width, "little")
        elif avro.logical in ("timestamp-millis", "local-timestamp-millis"):
            kind, row[6] = kernel.SCALED, 1000
        elif kind == kernel.FIXED:
            row[2] = avro.size
        elif kind == kernel.UNION and len(avro.members) < 2:
            kind = kernel.OPTION
        column = Column(avro, kind, found, counter, node)
        row[0] = kind
        if kind == kernel.ENUM:
            row[2] = len(avro.symbols)
        if arena >= 0:
            extra = 1 if kind in (*_DATA, kernel.ARRAY, kernel.MAP) else 0
            column.out = self._slot(node, 3, arena, counter, width, extra)
        if kind in _DATA:
            row[5] = self._counter(is_data=True)
            column.data = self._slot(node, 6, SMALL, row[5])
        if kind == kernel.UNION and len(avro.members) < len(avro.branches):
            nullable = True
        if nullable and kind not in (kernel.OPTION, kernel.NULL):
            column.valid = self._slot(node, 4, SMALL, counter)
        return column

    def _expand(self, column: Column, depth: int) -> None:
        """Give a column its children."""
        avro, row, kind = column.avro, self._rows[column.node], column.kind
        if depth > _MOST_DEPTH:
            raise InvalidInputError(f"an Avro schema of more than {_MOST_DEPTH} levels")
        inner, nullable = column.counter, False
        if kind == kernel.SPAN:
            row[1], row[2] = self._skip(avro), 1
            return
        if kind == kernel.RECORD:
            kinds = [one.type for one in avro.fields]
            row[2] = len(kinds)
        elif kind in (kernel.ARRAY, kernel.MAP):
            assert avro.items is not None
            kinds = [avro.items] if kind == kernel.ARRAY else [AvroType("string"), avro.items]
            inner = row[5] = self._counter(is_data=False)
            row[2], row[7] = len(kinds), sum(_least(one, set()) for one in kinds)
        elif kind in (kernel.OPTION, kernel.UNION):
            kinds, nullable = avro.members, True
            row[2] = len(avro.branches)
            row[7] = next((n for n, one in enumerate(avro.branches) if one.kind == "null"), -1)
        else:
            return
        row[1] = self._reserve(len(kinds))
        column.children = [
            self._column(one, inner, row[1] + n, nullable=nullable) for n, one in enumerate(kinds)
        ]
        self._waiting += ((child, depth + 1) for child in column.children)

    # ---- what is passed over

    def _skip(self, avro: AvroType) -> int:
        """The node that passes over a value and keeps nothing; there is one for each type."""
        if id(avro) in self._skips:
            return self._skips[id(avro)]
        node = self._reserve(1)
        self._skips[id(avro)] = node
        self._fill_skips([(avro, node)])
        return node

    def _fill_skips(self, waiting: list[tuple[AvroType, int]]) -> None:
        while waiting:
            avro, node = waiting.pop()
            row = self._rows[node]
            row[0] = _KINDS.get(avro.kind, (kernel.UNION, -1))[0]
            kinds: list[AvroType] = []
            if avro.kind == "record":
                kinds, row[6] = [one.type for one in avro.fields], -1
                row[2] = len(kinds)
            elif avro.kind in ("array", "map"):
                assert avro.items is not None
                kinds = [avro.items] if avro.kind == "array" else [AvroType("string"), avro.items]
                row[2], row[7] = len(kinds), sum(_least(one, set()) for one in kinds)
            elif avro.kind == "union":
                kinds, row[2], row[6], row[7] = avro.members, len(avro.branches), -1, -1
                row[7] = next((n for n, one in enumerate(avro.branches) if one.kind == "null"), -1)
            elif avro.kind == "fixed":
                row[2] = avro.size
            elif avro.kind == "enum":
                row[2] = len(avro.symbols)
            first = row[1] = self._reserve(len(kinds)) if kinds else 0
            for n, one in enumerate(kinds):
                if one.is_recursive:  # a SPAN that keeps nothing leads to the one node of its type
                    target = self._skips.get(id(one))
                    if target is None:
                        target = self._skips[id(one)] = self._reserve(1)
                        waiting.append((one, target))
                    self._rows[first + n][:3] = [kernel.SPAN, target, 1]
                else:
                    waiting.append((one, first + n))


def _least(avro: AvroType, seen: set[int]) -> int:
    """The bytes that a value takes at least."""
    if id(avro) in seen:
        return 0
    if avro.kind == "record":
        return sum(_least(one.type, seen | {id(avro)}) for one in avro.fields)
    return {"null": 0, "float": 4, "double": 8, "fixed": avro.size}.get(avro.kind, 1)
