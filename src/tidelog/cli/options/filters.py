"""Which records are wanted: conditions on keys and values, checked over whole columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.cli.errors import UsageError
from tidelog.records.columns import constant_string, text_scalar

__all__ = ["RecordFilter"]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions that all have to hold; None is no condition. A null key or value meets none."""

    key: str | None = None
    key_match: str | None = None
    value_contains: str | None = None
    value_match: str | None = None

    def __post_init__(self) -> None:
        """Regular expressions are tried out, so that a slip is told before anything is read."""
        for pattern in (self.key_match, self.value_match):
            if pattern is not None:
                try:
                    pc.match_substring_regex(constant_string("", 1), pattern)
                except pa.ArrowInvalid as error:
                    raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None

    @property
    def is_empty(self) -> bool:
        """Whether everything is wanted."""
        return self == RecordFilter()

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted; the batch has columns key and value as far as they are asked about."""
        if self.is_empty:
            return batch
        masks = []
        if self.key is not None:
            masks.append(pc.equal(batch.column("key"), text_scalar(self.key, pa.binary())))
        if self.key_match is not None:
            masks.append(pc.match_substring_regex(batch.column("key"), self.key_match))
        if self.value_contains is not None:
            masks.append(pc.match_substring(batch.column("value"), self.value_contains))
        if self.value_match is not None:
            masks.append(pc.match_substring_regex(batch.column("value"), self.value_match))
        mask = masks[0]
        for more in masks[1:]:
            mask = pc.and_(mask, more)
        return batch.filter(mask)
