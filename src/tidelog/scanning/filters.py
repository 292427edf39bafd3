"""Which records are wanted: conditions on keys, values and headers, checked over whole columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.lazy import LazyModule
from tidelog.records.columns import binary_array, constant_string, from_numbers, text_scalar

__all__ = ["RecordFilter"]

pc = LazyModule("pyarrow.compute")  # takes long to import


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions that all have to hold; None is no condition. A null key or value meets none.

    `header` is the key of a header, or KEY=VALUE; one such header is enough.
    """

    key: str | None = None
    key_match: str | None = None
    value_contains: str | None = None
    value_match: str | None = None
    header: str | None = None
    tombstones: bool = False
    """Only records without a value."""
    keys: pa.Array | None = None
    """Only records with one of these keys (`keys_of`)."""

    @staticmethod
    def keys_of(keys: Iterable[bytes]) -> pa.Array:
        """Keys to look for, each once."""
        return binary_array(sorted(set(keys)))

    def __post_init__(self) -> None:
        """Regular expressions are tried out, so that a slip is told before anything is read."""
        for pattern in (self.key_match, self.value_match):
            if pattern is not None:
                try:
                    pc.match_substring_regex(constant_string("", 1), pattern)
                except pa.ArrowInvalid as error:
                    raise InvalidInputError(f"{pattern!r} is not a regular expression: {error}") from None

    @property
    def is_empty(self) -> bool:
        """Whether everything is wanted."""
        return self == RecordFilter()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the conditions are about."""
        return ("key", "value", "headers") if self.header is not None else ("key", "value")

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted; the batch has columns key and value as far as they are asked about."""
        return batch if self.is_empty else batch.filter(self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows are wanted; a row of which that is not known has null."""
        masks = [] if not self.is_empty else [from_numbers(np.ones(batch.num_rows, np.bool_))]
        if self.keys is not None:
            masks.append(pc.is_in(batch.column("key"), value_set=self.keys))
        if self.key is not None:
            masks.append(pc.equal(batch.column("key"), text_scalar(self.key, pa.binary())))
        if self.key_match is not None:
            masks.append(pc.match_substring_regex(batch.column("key"), self.key_match))
        if self.value_contains is not None:
            masks.append(pc.match_substring(batch.column("value"), self.value_contains))
        if self.value_match is not None:
            masks.append(pc.match_substring_regex(batch.column("value"), self.value_match))
        if self.tombstones:
            masks.append(pc.is_null(batch.column("value")))
        if self.header is not None:
            masks.append(_has_header(batch.column("headers"), self.header))
        mask = masks[0]
        for more in masks[1:]:
            mask = pc.and_(mask, more)
        return mask


def _has_header(headers: pa.Array, wanted: str) -> pa.Array:
    """Which rows have a header of this key, or of this KEY=VALUE."""
    key, equals, value = wanted.partition("=")
    pairs = pc.list_flatten(headers)
    matches = pc.equal(pairs.field("key"), text_scalar(key, pa.string()))
    if equals:
        matches = pc.and_(matches, pc.equal(pairs.field("value"), text_scalar(value, pa.binary())))
    rows = pc.list_parent_indices(headers).filter(matches)
    mask = np.zeros(len(headers), dtype=bool)
    mask[rows.to_numpy(zero_copy_only=False)] = True
    return pa.array(mask)
