"""The bar of a recovery goes by what is recovered, segment by segment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tidelog
from tidelog.cli.actions.loading import LoadBar
from tidelog.cli.render.output import PlainOutput, Progress
from tidelog.testing.builders import LogBuilder


class Told(PlainOutput):
    """Notes what is shown."""

    def __init__(self) -> None:
        self.total = 0
        self.steps: list[int] = []
        self.shown = False

    @contextmanager
    def progress(self, total_bytes: int, what: str) -> Iterator[Progress]:
        self.total, self.shown = total_bytes, True
        yield self
        self.shown = False

    def advance(self, size_bytes: int) -> None:
        self.steps.append(size_bytes)


def test_every_segment_moves_the_bar(tmp_path: Path) -> None:
    for number in range(2):
        LogBuilder(tmp_path / f"t-{number}").records(20).roll().records(30).roll().records(5).crash()
    size = sum(log.stat().st_size for log in tmp_path.rglob("*.log"))
    told = Told()
    with LoadBar(told) as tell, tidelog.open(tmp_path, on_event=tell, recover=True) as store:
        assert [partition.log_end_offset for partition in store.partitions] == [55, 55]
        assert told.shown
    assert not told.shown
    assert told.total == sum(told.steps) == size
    assert len([step for step in told.steps if step]) == 6


def test_there_is_nothing_to_show_after_an_orderly_stop(tmp_path: Path) -> None:
    tidelog.open(tmp_path).close()
    told = Told()
    with LoadBar(told) as tell, tidelog.open(tmp_path, on_event=tell):
        assert not told.shown
