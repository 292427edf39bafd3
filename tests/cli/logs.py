"""Small logs to read and follow."""

from __future__ import annotations

from pathlib import Path

from tidelog.log import Log
from tidelog.records import Record, encode_records

__all__ = ["never", "written"]


def never() -> None:
    """Nobody presses Ctrl-C."""


def written(tmp_path: Path, records: list[Record], name: str = "orders-0") -> Path:
    """A partition's directory with these records in one batch."""
    directory = tmp_path / name
    with Log.open(directory) as log:
        log.append_as_leader(encode_records(records))
    return directory
