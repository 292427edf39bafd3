"""Integers above 2^53, where JavaScript's numbers and floats are not exact: offsets, producer ids, times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, Tab, require_browser
from tests.report.test_page import assert_quiet, go, middle, written
from tidelog.config import LogConfig
from tidelog.records import Record
from tidelog.report.facts import gather
from tidelog.testing.builders import LogBuilder

START = (1 << 60) + 1
PRODUCER = (1 << 61) + 5
FAR_MS = (1 << 62) + 3
"""A timestamp that no calendar has."""
ANY_TIME = LogConfig(message_timestamp_after_max_ms=(1 << 63) - 1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(require_browser()) as running:
        yield running


def far_log(root: Path, start: int = START) -> Path:
    builder = LogBuilder(root / "far-0", ANY_TIME)
    builder.log.truncate_fully_and_start_at(start)
    builder.leader_epoch(3).records(300).roll()
    builder.transaction(PRODUCER, records=7, commit=False)
    builder.leader_epoch(4).transaction(PRODUCER + 2, records=9, commit=None).roll()
    builder.append([Record(b"far", key=b"k", timestamp=FAR_MS)])
    builder.append([Record(b"farther", key=b"k", timestamp=FAR_MS + 1)])
    return builder.close()


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = far_log(tmp_path_factory.mktemp("root")).parent
    found = gather(root, records=True)
    group = {"group": "g", "topic": "far", "partition": 0, "committed_offset": START, "lag": (1 << 60) + 3}
    for name, column in found["groups"].items():
        column.append(group.get(name))
    return found


@pytest.fixture
def opened(browser: Browser, facts: dict[str, Any], tmp_path: Path) -> Iterator[Tab]:
    with browser.tab() as tab:
        tab.open(written(facts, tmp_path))
        yield tab
        assert_quiet(tab)


def tables(tab: Tab) -> str:
    """The text of a page whose tables are all open."""
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tab.wait(
        "[...document.querySelectorAll('figure')].every((one) => one.querySelector('table, .none') !== null)"
    )
    text: str = tab.run("document.querySelector('main').innerText")
    return text


def test_tables_of_the_overview(opened: Tab) -> None:
    text = tables(opened)
    for value in (PRODUCER, PRODUCER + 2):
        assert str(value) in text
    for offset in (START + 300, START + 307, START + 308, START, (1 << 60) + 3):
        assert f"{offset:,}" in text
    assert str(FAR_MS // 3_600_000 * 3_600_000) in text  # the hour
    assert "NaN" not in text
    assert "Infinity" not in text


def test_tables_of_a_partition(opened: Tab, facts: dict[str, Any]) -> None:
    go(opened, "#/partition/far-0")
    text = tables(opened)
    for column in ("base_offset", "end_offset"):
        for offset in facts["segments"][column]:
            assert f"{offset:,}" in text
    for name in ("log_start_offset", "last_stable_offset", "log_end_offset"):
        assert f"{facts['partitions'][name][0]:,}" in text
    for offset in facts["epochs"]["start_offset"]:
        assert f"{offset:,}" in text
    assert str(FAR_MS) in text
    assert str(FAR_MS + 1) in text
    assert "NaN" not in text
    go(opened, "#/topic/far")
    assert f"{START:,}" in tables(opened)


def test_charts(opened: Tab) -> None:
    go(opened, "#/partition/far-0")
    script = "[...document.querySelectorAll('[data-name=\"%s\"] svg text')].map((one) => one.textContent)"
    middle(opened, "Segments by offset")
    labels = opened.run(script % "Segments by offset")
    assert f"log start {START:,}" in labels
    assert (
        len(set(labels) & {f"{START + step:,}" for step in range(50, 300, 50)}) > 0
    )  # segments have a width
    middle(opened, "Segments by time")
    assert str(FAR_MS + 1) in opened.run(
        "document.querySelector('[data-name=\"Segments by time\"]').innerText"
    )
    x, y = middle(opened, "Segments by offset", ".chart svg")
    found: set[str] = set()
    for step in range(-10, 11):
        for lane in range(-3, 4):
            opened.point(x + 40 * step, y + 28 * lane)
            found.add(opened.run("document.querySelector('.tip')?.innerText ?? ''"))
    told = "\n".join(found)
    assert f"{START:,} to {START + 299:,}" in told


def test_integers_of_json(opened: Tab) -> None:
    tricky = {
        "long": [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**64],
        "others": [1e300, 0.12345678901234567, 1.5e-300, 12345678901234567.5, "9007199254740993", "\\"],
        'a "quoted" 9007199254740993': {"\\u0000": '\\"9007199254740993\\', "\x00x": None, "__proto__": True},
    }
    opened.run(f"window.asked = {json.dumps(json.dumps(tricky))}")
    longs = opened.run("parsed(asked).long.map((one) => typeof one + ' ' + one)")
    assert longs == [f"{'number' if abs(one) < 2**53 else 'bigint'} {one}" for one in tricky["long"]]
    same = "JSON.stringify(parsed(asked, 1), (key, value) => (key === 'long' ? 0 : value))"
    assert opened.run(f"{same} === JSON.stringify(JSON.parse(asked), (k, v) => (k === 'long' ? 0 : v))")
    assert opened.run(
        "[plus(2 ** 53 - 1, 2), minus(parsed('9007199254740993'), 3), times(2 ** 52, 3)].join()"
    ) == ("9007199254740993,9007199254740990,13510798882111488")


def test_columns_of_offsets_and_of_time_are_where_they_are_near_zero(tmp_path: Path) -> None:
    near, far = (gather(far_log(tmp_path / name, start)) for name, start in (("near", 0), ("far", START)))
    for name in ("density", "entries", "missing_offsets", "gaps", "records"):
        assert near["partitions"][name] == far["partitions"][name]
    assert max(far["partitions"]["density"][0]) < 100
