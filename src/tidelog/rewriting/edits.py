"""What a rewrite does to records and batches: a value that can be shipped to tasks.

| what | to which | how |
|---|---|---|
| erase | records that meet the conditions | the record goes; its offset becomes a gap, as after compaction |
| redact | records that meet the conditions | key or value become null or given bytes; headers go |
| compression | batches of data with another codec, or all if a level is given | compressed anew |
| upgrade | messages of magic 0 and 1 | become batches of magic 2; neighbours share one |
| clamp | records with a time outside [earliest, latest] | the time becomes the nearer bound |

Control records are never edited.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.columns import numbers
from tidelog.records.compression import compress
from tidelog.scanning.filters import RecordFilter
from tidelog.types import Codec

__all__ = ["REDACTABLE", "Edits", "Span"]

REDACTABLE = ("key", "value", "headers")
"""The parts of a record that can be redacted."""

_ANY_TIME = (1 << 63) - 1
_LEAST_TIME = -(1 << 63)
_KEY, _NO_KEY, _VALUE, _NO_VALUE, _HEADERS = 1, 2, 4, 8, 16  # of kernels/editing.py

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets and times (ms) that records lie in; ends are not included, None is no bound."""

    start_offset: int | None = None
    end_offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no bound."""
        return self == Span()

    def mask(self, offsets: npt.NDArray[np.int64], times_ms: npt.NDArray[np.int64]) -> Flags:
        """Which records lie in it."""
        found = np.ones(len(offsets), np.bool_)
        for values, start, end in (
            (offsets, self.start_offset, self.end_offset),
            (times_ms, self.start_ms, self.end_ms),
        ):
            if start is not None:
                found &= values >= start
            if end is not None:
                found &= values < end
        return found


@dataclass(frozen=True, slots=True)
class Edits:
    """What is to be done. InvalidInputError for what does not go together."""

    wanted: RecordFilter = field(default_factory=RecordFilter)
    """Conditions on records, for `erase` and `redact`."""
    span: Span = Span()
    """Where these records lie."""
    erase: bool = False
    redact: tuple[str, ...] = ()
    """Parts of records: key, value, headers."""
    replacement: bytes | None = None
    """What a redacted key or value becomes; None is null."""
    codec: Codec | None = None
    level: int | None = None
    upgrade: bool = False
    earliest_ms: int | None = None
    """Records that are older, or without a time, get this time."""
    latest_ms: int | None = None
    """Records that are younger get this time."""

    def __post_init__(self) -> None:
        """Check it before anything is read."""
        unknown = set(self.redact) - set(REDACTABLE)
        if unknown:
            raise InvalidInputError(f"cannot redact {min(unknown)!r}: choose from {', '.join(REDACTABLE)}")
        if self.erase and self.redact:
            raise InvalidInputError("records are erased or redacted, not both: choose one")
        if self.replacement is not None and not {"key", "value"} & set(self.redact):
            raise InvalidInputError("a replacement is for a redacted key or value")
        if self.picks_records == self.has_no_conditions:
            raise InvalidInputError(
                "to erase or redact records, say which: give a condition such as a key"
                if self.has_no_conditions
                else "conditions choose the records to erase or redact: say which of both"
            )
        if not (self.picks_records or self.codec is not None or self.upgrade or self.clamps):
            raise InvalidInputError(
                "nothing to do: erase, redact, compress, upgrade or clamp the timestamps of something"
            )
        if self.level is not None and self.codec is None:
            raise InvalidInputError("a compression level needs a codec")
        if self.codec is not None:
            compress(self.codec, b"tidelog", level=self.level)  # refuses a level that there is not
        earliest, latest = self.times
        if not (self.earliest_ms or 0) >= 0 <= (self.latest_ms or 0) or earliest > latest:
            raise InvalidInputError("timestamps are clamped between two times of which the first is earlier")

    @property
    def picks_records(self) -> bool:
        """Whether records are erased or redacted."""
        return self.erase or bool(self.redact)

    @property
    def has_no_conditions(self) -> bool:
        """Whether nothing says which records."""
        return self.wanted.is_empty and self.span.is_empty

    @property
    def clamps(self) -> bool:
        """Whether timestamps have bounds."""
        return self.earliest_ms is not None or self.latest_ms is not None

    @property
    def times(self) -> tuple[int, int]:
        """The bounds of timestamps."""
        return (
            _LEAST_TIME if self.earliest_ms is None else self.earliest_ms,
            _ANY_TIME if self.latest_ms is None else self.latest_ms,
        )

    @property
    def redaction(self) -> int:
        """What is redacted, in the kernel's bits."""
        null = self.replacement is None
        bits = {"key": _NO_KEY if null else _KEY, "value": _NO_VALUE if null else _VALUE, "headers": _HEADERS}
        return sum(bits[name] for name in set(self.redact))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that deciding takes; none if no record has to be looked at."""
        if not (self.picks_records or self.clamps):
            return ()
        asked = () if self.wanted.is_empty else self.wanted.columns
        return (*asked, "position", "offset", "timestamp_ms")

    def picked(self, batch: pa.RecordBatch) -> Flags:
        """Which records of a batch with these columns are to be erased or redacted."""
        rows = batch.num_rows
        if not self.picks_records:
            return np.zeros(rows, np.bool_)
        found = self.span.mask(numbers(batch.column("offset")), numbers(batch.column("timestamp_ms")))
        if not self.wanted.is_empty:
            found &= numbers(self.wanted.mask(batch).fill_null(False).cast(pa.int8())) != 0
        return found

    def mistimed(self, batch: pa.RecordBatch) -> Flags:
        """Which records have a time that is out of bounds."""
        earliest, latest = self.times
        times = numbers(batch.column("timestamp_ms"))
        outside: Flags = (times < earliest) | (times > latest)
        return outside

    def told(self) -> dict[str, object]:
        """What is done, for a manifest: kinds of conditions, never keys, values or what they contain."""
        conditions = ("key_match", "value_contains", "value_match", "header")
        given = [name for name in conditions if getattr(self.wanted, name) is not None]
        keys = 0 if self.wanted.keys is None else len(self.wanted.keys)
        return {
            "erase": self.erase,
            "redact": sorted(set(self.redact)),
            "replaced_by": None if not self.redact else "null" if self.replacement is None else "bytes",
            "keys": keys + (self.wanted.key is not None),
            "conditions": given + (["tombstones"] if self.wanted.tombstones else []),
            "start_offset": self.span.start_offset,
            "end_offset": self.span.end_offset,
            "start_ms": self.span.start_ms,
            "end_ms": self.span.end_ms,
            "compression": None if self.codec is None else self.codec.label,
            "level": self.level,
            "upgrade": self.upgrade,
            "earliest_ms": self.earliest_ms,
            "latest_ms": self.latest_ms,
        }
