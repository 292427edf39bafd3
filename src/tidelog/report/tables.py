"""Tables of columns: mappings of names to lists, each as long as the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidelog.report.counts import Hours

__all__ = ["Table", "columns_of", "hour_table", "numbered", "rows_of", "topic_table"]

Table = dict[str, list[Any]]

_HOUR_ROWS = 30_000
_SUMS = ("size_bytes", "segments", "batches", "records", "control_records", "missing_offsets")


def columns_of(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Rows as columns."""
    listed = list(rows)
    return {name: [row[at] for row in listed] for at, name in enumerate(names)}


def rows_of(table: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns as rows."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def numbered(names: Sequence[str], found: Sequence[Mapping[str, Any]], key: str) -> Table:
    """The rows that partitions have under a key, with the number of the partition in front."""
    return columns_of(("at", *names), ([at, *row] for at, one in enumerate(found) for row in one[key]))


def hour_table(found: Sequence[Mapping[str, Any]]) -> tuple[int, Table]:
    """Records, bytes and batches of each partition by time: hours in a row's bucket, and the rows.

    All have the same width, wide enough that there are not too many rows.
    """
    width = max((one["hour_width"] for one in found), default=1)
    while True:
        rows = [[at, *row] for at, one in enumerate(found) for row in _widened(one, width)]
        if len(rows) <= max(_HOUR_ROWS, 2 * len(found)) or width > 1 << 40:
            return width, columns_of(("at", "hour", "records", "bytes", "batches"), rows)
        width *= 2


def _widened(one: Mapping[str, Any], width: int) -> list[list[int]]:
    hours = Hours.of(one["hour_width"], one["hours"])
    hours.widen(width)
    return hours.rows()


def topic_table(partitions: Mapping[str, Sequence[Any]]) -> Table:
    """Partitions added up by topic and state, as `tidelog ls --topics` does."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows_of(partitions):
        groups.setdefault((row["topic"], row["state"]), []).append(row)
    return columns_of(
        (
            "topic",
            "state",
            "partitions",
            "offsets",
            *_SUMS,
            "first_timestamp",
            "last_timestamp",
            "damaged",
            "codecs",
            "is_internal",
        ),
        (_topic(topic, state, group) for (topic, state), group in groups.items()),
    )


def _topic(topic: str, state: str, group: Sequence[Mapping[str, Any]]) -> list[Any]:
    firsts = [one["first_timestamp"] for one in group if one["first_timestamp"] is not None]
    lasts = [one["last_timestamp"] for one in group if one["last_timestamp"] is not None]
    return [
        topic,
        state,
        len(group),
        sum(one["log_end_offset"] - one["log_start_offset"] for one in group),
        *(sum(one[name] for one in group) for name in _SUMS),
        min(firsts, default=None),
        max(lasts, default=None),
        sum(bool(one["is_damaged"]) for one in group),
        " ".join(sorted({codec for one in group for codec in (one["codecs"] or "").split()})) or None,
        any(one["is_internal"] for one in group),
    ]
