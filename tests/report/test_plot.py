"""`tidelog.plot`: the charts of the report as objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tidelog
from tests.browser import Browser, require_browser
from tests.golden import GOLDEN
from tidelog import plot
from tidelog.errors import InvalidInputError
from tidelog.testing.builders import LogBuilder

CLEAN = GOLDEN / "clean"
NONE = CLEAN / "golden-none-0"


def test_figures_are_the_rows_that_a_chart_is_drawn_from() -> None:
    rows = plot.topics(CLEAN).figures
    assert {row["topic"]: row["records"] for row in rows}["golden-none"] == 1560
    hours = plot.activity([NONE]).figures
    assert sum(row["records"] for row in hours) == 1560
    assert {(row["topic"], row["partition"]) for row in hours} == {("golden-none", 0)}
    assert [row["base_offset"] for row in plot.segments(NONE).figures][:1] == [0]
    assert sum(row["count"] for row in plot.batch_sizes(NONE).figures) == 39
    assert sum(row["count"] for row in plot.record_sizes(NONE).figures) == 1560
    assert {row["group"] for row in plot.lag(CLEAN).figures} == {"golden-group"}


def test_stores_topics_and_partitions_have_charts(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("orders", partitions=2)
        store["orders"][1].append([tidelog.Record(b"x")])
        (row,) = plot.topics(store).figures
        assert (row["topic"], row["partitions"], row["records"]) == ("orders", 2, 1)
        assert plot.partitions(store["orders"]).view == "#/topic/orders"
        assert plot.segments(store["orders"][1]).view == "#/partition/orders-1"
        assert plot.activity(store["orders"][1]).name == "Activity by partition"
    store = tidelog.open(tmp_path, mode="r")
    assert plot.timeline(store, topic="orders").view == "#/topic/orders"
    assert len(plot.codecs(store["orders"]).figures) == 1
    assert len(plot.index_density(store["orders"][0]).figures) == 1


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="one partition"):
        plot.segments(CLEAN)
    with pytest.raises(InvalidInputError, match="topic="):
        plot.partitions(CLEAN)
    with pytest.raises(InvalidInputError, match="no topic none"):
        plot.timeline(CLEAN, topic="none")


def test_charts_are_drawn_in_frames_of_their_own(tmp_path: Path) -> None:
    """Every chart, as a notebook shows it and as a file."""
    hostile = tmp_path / "<img src=x onerror='window.harmed=1'>" / "orders-0"
    LogBuilder(hostile).records(30).close()
    makers: list[Callable[..., plot.Chart]] = [
        plot.activity,
        plot.codecs,
        plot.batch_sizes,
        plot.record_sizes,
        plot.partitions,
        plot.timeline,
        plot.segments,
        plot.index_density,
        plot.topics,
    ]
    drawn = [make(NONE) for make in makers] + [plot.segments(hostile), plot.lag(CLEAN)]
    notebook = tmp_path / "notebook.html"
    shown = "".join(one._repr_html_() for one in drawn)
    assert shown.count(' sandbox="allow-scripts" ') == len(drawn)
    # A frame in a sandbox is a process of its own, which this browser cannot be asked of.
    notebook.write_text("<!doctype html>" + shown.replace(" sandbox=", " data-sandbox="), encoding="utf-8")
    with Browser(require_browser()) as browser, browser.tab(height=6000) as tab:
        for number, chart in enumerate((*drawn[-2:], drawn[4])):
            chart.save(tmp_path / f"{number}.html")
            tab.open(tmp_path / f"{number}.html")
            assert tab.run("document.querySelectorAll('figure').length") == 1
            name = tab.run("document.querySelector('figure').dataset.name")
            assert name == chart.name
            tab.wait("!!document.querySelector('figure svg')")
            assert tab.run("window.harmed") is None
            assert tab.run("getComputedStyle(document.querySelector('header')).display") == "none"
        tab.open(notebook)
        frames = "[...document.querySelectorAll('iframe')]"
        found = "(frame) => frame.contentDocument.querySelector('figure')"
        tab.wait(f"{frames}.every((frame) => ({found})(frame)?.querySelector('svg'))")
        assert tab.run(f"{frames}.map((frame) => ({found})(frame).dataset.name)") == [
            chart.name for chart in drawn
        ]
        assert tab.complaints() == []
        assert [url for url in tab.requests() if not url.startswith(("file:", "about:"))] == []
