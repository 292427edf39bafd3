"""SQLite as a log of records, from Python: a table with the offset as its primary key, WAL mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import tidelog

__all__ = ["copy_log", "name", "opened", "read_by_offset"]

_POINT_READ = "SELECT offset, timestamp, key, value FROM records WHERE offset = ?"


def name() -> str:
    """The peer's name and version."""
    return f"sqlite {sqlite3.sqlite_version}"


def copy_log(partition: Path, database: Path) -> None:
    """The records of a partition as rows."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE records (offset INTEGER PRIMARY KEY, timestamp INTEGER, key BLOB, value BLOB)"
        )
        for batch in tidelog.scan(partition, columns=["offset", "timestamp_ms", "key", "value"]):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)


@contextmanager
def opened(database: Path) -> Iterator[sqlite3.Connection]:
    """A connection with SQLite's own settings."""
    with closing(sqlite3.connect(database)) as connection:
        yield connection


def read_by_offset(connection: sqlite3.Connection, offsets: Sequence[int]) -> Callable[[], None]:
    """Reads a row for each offset."""
    cursor = connection.cursor()

    def work() -> None:
        for offset in offsets:
            cursor.execute(_POINT_READ, (offset,)).fetchone()

    return work
