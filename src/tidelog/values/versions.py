"""Values of several schemas in one column.

1. The schema ids before the values are read, all at once (`wire`).
2. The values of each id are decoded by their own schema, in one call.
3. They are put in the order in which they came.

What does not decode is null in the column, and whole in `<column>_invalid`, with the reason in
`<column>_error`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.values import wire
from tidelog.values.conforming import fit_values
from tidelog.values.wire import Framing, Spans, spans_of

__all__ = [
    "MISFIT",
    "Decoded",
    "Reasons",
    "Version",
    "Versions",
    "decode_versions",
    "error_name",
    "invalid_name",
    "settle",
]

IS_NULL, NOT_FRAMED = -1, 100
MISFIT = "a value does not fit the column's type"
_FIRST_OWN = 1000
_TEXTS = {NOT_FRAMED: "no magic byte and schema id before the value"}

Int32s = npt.NDArray[np.int32]


def invalid_name(column: str) -> str:
    """The column that has what did not decode."""
    return f"{column}_invalid"


def error_name(column: str) -> str:
    """The column that has the reasons."""
    return f"{column}_error"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The columns of a run of values, and how many could not be decoded."""

    columns: tuple[pa.Array, ...]
    invalid: int


class Reasons:
    """Why values did not decode: a number for each text."""

    def __init__(self) -> None:
        self._texts = dict(_TEXTS)

    def number(self, text: str) -> int:
        """The number of a reason."""
        for number, known in self._texts.items():
            if known == text:
                return number
        number = _FIRST_OWN + len(self._texts)
        self._texts[number] = text
        return number

    def texts(self, faults: Int32s) -> pa.Array:
        """The reasons of rows; null where there is none."""
        found, places = np.unique(faults, return_inverse=True)
        words = pa.array([self._texts.get(number) for number in found.tolist()], pa.string())
        return words.take(pa.array(places))


def settle(array: pa.Array, kind: pa.DataType, faults: Int32s, reasons: Reasons) -> pa.Array:
    """Values as the column's type; those that do not fit are null. Sets their faults."""
    if array.type == kind:
        return array
    fitted, misfits = fit_values(array, kind)
    for mask, why in misfits:
        faults[mask & (faults == 0)] = reasons.number(f"{MISFIT}: {why}")
    return fitted.take(pa.array(np.arange(len(faults)), mask=faults != 0)) if misfits else fitted


class Version(Protocol):
    """Decodes the values of one schema."""

    def decode(self, spans: Spans, faults: Int32s, reasons: Reasons) -> pa.Array:
        """The values where `faults` is 0; others are null. Sets faults."""


class Versions(Protocol):
    """Knows the schemas."""

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""

    def version(self, number: int, topic: str) -> Version | str:
        """What decodes the values of a schema id (`wire.PLAIN`: those of a topic), or why nothing does."""


def decode_versions(
    values: pa.Array, framing: Framing, topic: str, versions: Versions, kind: pa.DataType
) -> Decoded:
    """Binary values as a column of a type, with what is invalid and why."""
    spans, reasons = spans_of(values, framing), Reasons()
    faults = np.zeros(len(values), np.int32)
    faults[spans.ids == wire.NOT_FRAMED] = NOT_FRAMED
    faults[spans.ids == wire.NULL] = IS_NULL
    numbers = np.unique(spans.ids[spans.ids >= 0]).tolist()
    if len(numbers) == 1:
        column = _decode(versions, numbers[0], topic, spans, faults, reasons, kind)
    else:
        parts = list(_each(versions, numbers, topic, spans, faults, reasons, kind))
        column = _in_order(parts, len(values), kind)
    bad = faults > 0
    count = int(bad.sum())
    if not count:
        nothing = pa.nulls(len(values), pa.binary()), pa.nulls(len(values), pa.string())
        return Decoded((column, *nothing), 0)
    invalid = pc.if_else(pa.array(bad), values, pa.scalar(None, values.type))
    return Decoded((column, invalid, reasons.texts(np.maximum(faults, 0))), count)


def _each(
    versions: Versions,
    numbers: list[int],
    topic: str,
    spans: Spans,
    faults: Int32s,
    reasons: Reasons,
    kind: pa.DataType,
) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """The rows of each schema, and their values."""
    for number in numbers:
        rows = np.flatnonzero(spans.ids == number)
        own = Spans(spans.data, spans.starts[rows], spans.ends[rows], spans.ids[rows])
        found = np.zeros(len(rows), np.int32)
        yield rows, _decode(versions, number, topic, own, found, reasons, kind)
        faults[rows] = found


def _decode(
    versions: Versions,
    number: int,
    topic: str,
    spans: Spans,
    faults: Int32s,
    reasons: Reasons,
    kind: pa.DataType,
) -> pa.Array:
    version = versions.version(number, topic)
    if isinstance(version, str):
        faults[faults == 0] = reasons.number(version)
        return pa.nulls(len(faults), kind)
    return settle(version.decode(spans, faults, reasons), kind, faults, reasons)


def _in_order(parts: list[tuple[npt.NDArray[np.int64], pa.Array]], rows: int, kind: pa.DataType) -> pa.Array:
    if not parts:
        return pa.nulls(rows, kind)
    places = np.full(rows, -1, np.int64)
    done = 0
    for at, part in parts:
        places[at] = np.arange(done, done + len(part))
        done += len(part)
    return pa.concat_arrays([part for _, part in parts]).take(pa.array(places, mask=places < 0))
