"""Stores, topics and partitions as notebooks show them."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import tidelog
from tests.golden import GOLDEN, golden_partition
from tidelog import Record
from tidelog.manager.store.store import Store

CLEAN = GOLDEN / "clean"


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class _Shown(Protocol):
    def _repr_html_(self) -> str: ...


def shown(one: _Shown) -> _Tags:
    found = _Tags(one._repr_html_())
    assert set(found.tags) <= {"p", "b", "table", "tr", "th", "td", "svg", "rect", "title"}
    return found


def test_a_partition_that_is_only_read() -> None:
    golden = golden_partition("golden-multi-0")
    found = shown(tidelog.open(CLEAN, mode="r")["golden-multi"][0])
    logs = golden.logs()
    assert found.tags.count("rect") == len(logs) > 1
    size = sum(log.stat().st_size for log in logs)
    assert f"{size:,} bytes in {len(logs)} segments" in found.words
    end = golden.lookups()[0]["log_end_offset"]
    assert f"0 to {end}" in found.words
    assert "ok" in found.words
    bars = [re.fullmatch(r"offsets (\d+) to (\d+): .*", word) for word in found.words]
    spans = [(int(bar[1]), int(bar[2])) for bar in bars if bar]
    assert spans[0][0] == 0
    assert spans[-1][1] == end
    assert all(one[1] == other[0] for one, other in pairwise(spans))


def test_topics_and_stores() -> None:
    store = tidelog.open(CLEAN, mode="r")
    found = shown(store)
    assert found.tags.count("tr") == 1 + len(store)
    assert set(store) <= set(found.words)
    assert shown(store["golden-multi"]).tags.count("tr") == 1 + len(store["golden-multi"])


def test_sizes_are_bars(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders", partitions=2)
        store.create_topic("payments")
        store["orders"][1].append([Record(bytes(1000))])
        store["payments"][0].append([Record(bytes(1000))] * 2)
        widths = [
            [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', one._repr_html_())]
            for one in (store["orders"], store)
        ]
    assert widths[0] == [0.0, 240.0]
    assert 0 < widths[1][0] < widths[1][1] == 240.0


def test_a_store_that_is_written(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        assert isinstance(store, Store)
        store.create_topic("orders", partitions=60)
        store["orders"][0].append([Record(b"a"), Record(b"b")])
        assert "0 to 2" in shown(store["orders"][0]).words
        assert store["orders"][0].path == str(tmp_path / "data" / "orders-0")
        found = shown(store["orders"])
        assert found.tags.count("tr") == 51
        assert "and 10 more" in found.words
        assert {"orders", "60"} <= set(shown(store).words)
        partition = store["orders"][0]
    assert "closed" in " ".join(shown(partition).words)
    assert shown(store).words


def test_names_that_mean_harm_and_damage(tmp_path: Path) -> None:
    name = "<script>alert(1)<!--\u202e"
    shutil.copytree(CLEAN / "golden-none-0", tmp_path / f"{name}-0")
    store = tidelog.open(tmp_path, mode="r")
    for one in (store, store[name], store[name][0]):
        found = shown(one)
        assert "\u202e" not in "".join(found.words)
    partition = store[name][0]
    max((tmp_path / f"{name}-0").glob("*.index")).unlink()
    assert "1 segments have no offset index" in shown(partition).words
    shutil.rmtree(tmp_path / f"{name}-0")
    gone = shown(partition)
    assert "rect" not in gone.tags
    assert "was removed" in " ".join(gone.words)
