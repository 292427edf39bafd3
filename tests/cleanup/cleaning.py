"""Logs to be cleaned, and what is left of them in a form that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.log.logs import Clock
from tidelog.cleanup.cleaner import CleanReport, LocalPasses, clean_log, clean_round
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.rounds import Passes
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.decode import decode_batches

__all__ = ["PassesBy", "batches_of", "clean_directory", "index_files", "records_of"]

_FIELDS = (
    "base_offset",
    "last_offset",
    "leader_epoch",
    "magic",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
PassesBy = Callable[[int, float], Passes]
"""Passes by the memory and the load factor of their maps."""

_COLUMNS = ("offset", "timestamp_ms", "timestampType", "key", "value", "headers")


def clean_directory(
    path: Path,
    config: LogConfig,
    *,
    clean_at_ms: int,
    now_ms: int,
    first_dirty: int | None = None,
    map_bytes: int = 16 << 20,
    load_factor: float = 0.9,
    rounds: int | None = None,
    by: PassesBy | None = None,
    **options: Any,
) -> CleanReport:
    """Clean a partition directory as the oracle does: all of it replicated, the last segment rolled.

    `by` makes passes that do it in another way than in this process.
    """
    with Log.open(path, config, clean=True, now_ms=Clock(now_ms), **options) as log:
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        passes = LocalPasses(OffsetMap(map_bytes, load_factor)) if by is None else by(map_bytes, load_factor)
        return (clean_log if rounds is None else clean_round)(
            log,
            passes,
            first_dirty_offset=log.log_start_offset if first_dirty is None else first_dirty,
            upper_bound=log.last_stable_offset,
            now_ms=clean_at_ms,
        )


def batches_of(log: Path) -> list[dict[str, Any]]:
    """Every batch of a `.log` file: the fields of its header, and its records."""
    data = log.read_bytes()
    if not data:
        return []
    return [_batch(data, one) for one in scan_batches(data).require()]


def _batch(data: bytes, one: BatchTable) -> dict[str, Any]:
    found: dict[str, Any] = {name: int(getattr(one, name)[0]) for name in _FIELDS}
    found["records"] = decode_batches(data, one, columns=_COLUMNS).to_pylist()
    return found


def records_of(path: Path) -> list[dict[str, Any]]:
    """Every record of a partition directory, each with the fields of its batch."""
    return [
        {**batch, **record}
        for log in sorted(path.glob("*.log"))
        for batch in batches_of(log)
        for record in batch.pop("records")
    ]


def index_files(path: Path) -> dict[str, bytes]:
    """The index files of a partition directory."""
    return {file.name: file.read_bytes() for file in sorted(path.glob("*index"))}
