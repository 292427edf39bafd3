"""Following a log that another process writes: what comes, moves, is cut or goes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tests.cli.logs import never, written
from tidelog.cli.actions.reading import select
from tidelog.cli.actions.tail import follow
from tidelog.cli.render.output import PlainOutput
from tidelog.log import Log
from tidelog.records import Record, encode_records


def test_following_goes_on_where_offsets_are_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "orders-0"
    out = PlainOutput()

    def append(log: Log, count: int) -> None:
        for _ in range(count):
            log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))

    def seen(following: Iterator[pa.RecordBatch | None]) -> list[int]:
        offsets: list[int] = []
        while (batch := next(following)) is not None:
            offsets += batch.column("offset").to_pylist()
        return offsets

    with Log.open(directory) as log:
        append(log, 3)
        following = follow(select([str(directory)]), ("offset", "key", "value"), out, never)
        assert seen(following) == []
        append(log, 2)
        assert seen(following) == [3, 4]
        log.truncate_to(2)
        assert seen(following) == []
        assert "the log was cut back from 5 to 2" in capfd.readouterr().err
        append(log, 1)
        assert seen(following) == [2]
        log.truncate_fully_and_start_at(100)
        append(log, 1)
        assert seen(following) == [100]
        assert "offsets 3 to 99 are gone" in capfd.readouterr().err


def test_following_goes_on_where_files_go_while_they_are_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As with a slow terminal, and retention."""
    directory = tmp_path / "orders-0"
    with Log.open(directory) as log:
        following = follow(select([str(directory)]), ("offset", "value"), PlainOutput(), never)
        assert next(following) is None
        for _ in range(3):
            log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
            log.roll()
        first = next(following)
        assert first is not None
        assert first.column("offset").to_pylist() == [0]
        log.truncate_fully_and_start_at(100)
        log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
        assert next(following) is None
        again = next(following)
        assert again is not None
        assert again.column("offset").to_pylist() == [100]
        assert "offsets 1 to 99 are gone" in capfd.readouterr().err


def test_partitions_that_come_or_move_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tidelog.cli.actions.tail._FIND_S", 0)
    roots = [tmp_path / "a", tmp_path / "b"]

    def seen() -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        while (batch := next(following)) is not None:
            found += zip(batch.column("topic").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        return sorted(found)

    def append(topic: str, count: int) -> None:
        store.partition(topic).append([Record(b"x", timestamp=1)] * count, sync=True)

    with tidelog.open(roots, background=False) as store:
        store.create_topic("old", 1)
        append("old", 3)
        selection = select([str(root) for root in roots])
        following = follow(selection, ("topic", "offset", "key", "value"), PlainOutput(), never)
        assert seen() == []
        store.create_topic("new", 1)
        append("new", 2)
        assert seen() == [("new", 0), ("new", 1)], "from its start"
        append("old", 1)
        root = store.partition("old").root
        assert root is not None
        store.move_partition("old", 0, roots[0] if root.path == str(roots[1]) else roots[1])
        append("old", 1)
        assert seen() == [("old", 3), ("old", 4)], "where it was left"
        assert capfd.readouterr().err == ""
        store.delete_topic("old")
        assert seen() == seen() == []
        assert capfd.readouterr().err.count("is gone") == 1
        append("new", 1)
        assert seen() == [("new", 2)]


def test_following_begins_although_a_partition_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = written(tmp_path, [Record(b"a", timestamp=1)])
    selection = select([str(tmp_path)])
    assert [one.partition.url for one in selection.ranges] == [str(directory)]
    shutil.rmtree(directory)
    following = follow(selection, ("offset", "key", "value"), PlainOutput(), never)
    assert next(following) is None
    assert next(following) is None
    assert capfd.readouterr().err.count(f"{directory} is gone") == 1
