"""The page in a real browser: records, search, one record, following; names and values that mean harm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, Tab, require_browser
from tests.cli.logs import written
from tests.golden import GOLDEN
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records import Header, Record, encode_records
from tidelog.testing.builders import LogBuilder
from tidelog.ui.server import UiServer
from tidelog.ui.site import Site

pytestmark = pytest.mark.slow

HOSTILE = (
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 2'>",
    "\u202edlrow\u202c \u200f{b} \x1b[31mred \u0000",
    '{"<b>": "</pre><script>window.harmed = 3</script>"}',
    "javascript:window.harmed=4",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(require_browser()) as running:
        yield running


def serve(root: Path) -> UiServer:
    return UiServer(lambda guard: Site([str(root)], guard))


def choose(tab: Tab, topic: str, partition: int = 0) -> None:
    tab.wait("document.querySelector('#records-form select').options.length > 0")
    tab.run(
        "(() => { const f = document.getElementById('records-form').elements;"
        f"f.topic.value = {json.dumps(topic)};"
        "f.topic.dispatchEvent(new Event('change'));"
        f"f.partition.value = '{partition}' }})()"
    )


def put(tab: Tab, **fields: str) -> None:
    for name, value in fields.items():
        tab.run(
            "(() => { const e = document.getElementById('records-form').elements;"
            f"e[{name!r}].value = {json.dumps(value)}; e[{name!r}].dispatchEvent(new Event('change')); }})()"
        )


def submit(tab: Tab) -> None:
    tab.run("document.getElementById('records-state').textContent = ''")
    tab.run("document.getElementById('records-form').requestSubmit()")
    tab.wait("/record|offset|not/.test(document.getElementById('records-state').textContent)")


def offsets(tab: Tab) -> list[int]:
    told = tab.run(
        "[...document.querySelectorAll('#records-table tbody tr')].map((row) => row.dataset.offset)"
    )
    return [int(one) for one in told]


def settled(tab: Tab, server: UiServer) -> None:
    """Nothing failed, and nobody else was asked."""
    assert tab.complaints() == []
    assert tab.run("window.harmed === undefined")
    start = server.url.rpartition("/")[0].rpartition("/")[0]
    assert {url for url in tab.requests() if not url.startswith((start, "data:", "about:"))} == set()


def test_records_are_searched_and_shown(browser: Browser) -> None:
    with serve(GOLDEN / "clean") as server, browser.tab() as tab:
        tab.open(server.url)
        choose(tab, "golden-zstd")
        submit(tab)
        assert offsets(tab) == list(range(1450, 1500))
        tab.run("document.getElementById('records-older').click()")
        tab.wait("document.querySelectorAll('#records-table tbody tr').length === 100")
        assert offsets(tab) == list(range(1400, 1500))
        put(tab, **{"from": "offset", "where": "3", "limit": "2"})
        submit(tab)
        assert offsets(tab) == [3, 4]
        tab.run("document.getElementById('records-newer').click()")
        tab.wait("document.querySelectorAll('#records-table tbody tr').length === 4")
        assert offsets(tab) == [3, 4, 5, 6]
        put(tab, **{"from": "first", "limit": "50", "key": "k00164"})
        submit(tab)
        assert offsets(tab)[0] == 3
        assert "--key k00164" in tab.run("document.querySelector('#records-commands pre').textContent")
        put(tab, **{"from": "since", "where": "2023-11-14T22:30", "key": ""})
        submit(tab)
        assert len(offsets(tab)) == 50
        put(tab, **{"from": "offset", "where": "99999"})
        submit(tab)
        assert "not in golden-zstd-0" in tab.run("document.getElementById('records-state').textContent")
        refused = [one for one in tab.complaints() if "400" not in one]
        assert refused == []


def test_one_record_has_an_address(browser: Browser) -> None:
    with serve(GOLDEN / "clean") as server, browser.tab() as tab:
        tab.open(server.url + "?topic=golden-zstd&partition=0&offset=1499")
        tab.wait("!document.getElementById('record').hidden")
        assert tab.run("document.getElementById('record-key').textContent") == "k00035"
        assert "w16a5" in tab.run("document.getElementById('record-headers').textContent")
        tab.run("document.querySelector('#record-forms button:last-child').click()")
        assert "6b 30 30 30 33 35" in tab.run("document.getElementById('record-key').textContent")
        commands = tab.run("[...document.querySelectorAll('#record-commands pre')].map((e) => e.textContent)")
        assert any(one.startswith("tidelog cat ") and "--offset 1499" in one for one in commands)
        settled(tab, server)


def test_records_are_followed_as_they_come(browser: Browser, tmp_path: Path) -> None:
    directory = written(tmp_path, [Record(b"one")])
    with serve(tmp_path) as server, browser.tab() as tab, Log.open(directory) as log:
        tab.open(server.url)
        choose(tab, "orders")
        submit(tab)
        tab.run("document.getElementById('records-follow').click()")
        for count in (2, 3):
            log.append_as_leader(encode_records([Record(b"more")]))
            tab.wait(f"document.querySelectorAll('#records-table tbody tr').length === {count}")
        assert offsets(tab) == [0, 1, 2]
        tab.wait("/\\b3 records\\b/.test(document.getElementById('records-state').textContent)")
        settled(tab, server)


def test_integers_above_2_to_the_53_are_exact(browser: Browser, tmp_path: Path) -> None:
    start, producer, far = (1 << 60) + 1, (1 << 61) + 5, (1 << 62) + 3
    builder = LogBuilder(tmp_path / "far-0", LogConfig(message_timestamp_after_max_ms=(1 << 63) - 1))
    builder.log.truncate_fully_and_start_at(start)
    builder.records(3).transaction(producer, records=1)
    builder.append([Record(b'{"id":9007199254740993}', key=b"9007199254740993", timestamp=far)]).close()
    with serve(tmp_path) as server, browser.tab() as tab:
        tab.open(server.url)
        choose(tab, "far")
        put(tab, **{"from": "offset", "where": str(start + 2)})
        submit(tab)
        assert offsets(tab) == [start + 2, start + 3, start + 5]
        tab.run("document.getElementById('records-older').click()")
        tab.wait("document.querySelectorAll('#records-table tbody tr').length === 5")
        assert str(far) in tab.run("document.getElementById('records-table').innerText")
        for where, key in ((str(start + 3), ""), (str(start), "9007199254740993")):
            put(tab, **{"from": "offset", "where": where, "key": key})
            submit(tab)
        assert offsets(tab) == [start + 5]
        put(tab, **{"from": "since", "where": str(far), "key": ""})
        submit(tab)
        assert offsets(tab) == [start + 5]
        for offset, told in ((start + 3, str(producer)), (start + 5, '"id": 9007199254740993')):
            tab.open(server.url + f"?topic=far&partition=0&offset={offset}")
            tab.wait("!document.getElementById('record').hidden")
            text = tab.run("document.getElementById('record').innerText")
            assert told in text
            assert f"--offset {offset} --to-offset {offset + 1}" in text
            assert f"Record {offset} of far" in text
        settled(tab, server)


def test_the_report_refreshes_and_leads_to_records(browser: Browser, tmp_path: Path) -> None:
    directory = written(tmp_path, [Record(b"one")])
    written(tmp_path, [Record(b"other")], "other-0")
    with serve(tmp_path) as server, browser.tab() as tab:
        tab.open(server.url + "#/partition/orders-0")
        tab.wait("document.querySelectorAll('#records-table tbody tr').length === 1")
        assert "orders" in tab.run("document.querySelector('main h1').textContent")
        with Log.open(directory) as log:
            log.append_as_leader(encode_records([Record(b"x") for _ in range(41)]))
        tab.wait("[...document.querySelectorAll('main .tile b')].some((one) => one.textContent === '42')")
        settled(tab, server)


def test_what_means_harm_does_nothing(browser: Browser, tmp_path: Path) -> None:
    topic = "<script>window.harmed=5<!--\u200f"
    records = [Record(one.encode(), key=one.encode(), headers=[Header(one, one.encode())]) for one in HOSTILE]
    written(tmp_path, records, f"{topic}-0")
    written(tmp_path, records, "\u202eevil-0")
    with serve(tmp_path) as server, browser.tab() as tab:
        tab.open(server.url)
        for name in (topic, "\u202eevil"):
            choose(tab, name)
            submit(tab)
            assert offsets(tab) == list(range(len(HOSTILE)))
            for offset in range(len(HOSTILE)):
                tab.run(f"document.querySelectorAll('#records-table td button')[{offset}].click()")
                tab.wait(
                    f"document.getElementById('record-title').textContent.startsWith('Record {offset} of')"
                )
                for at in range(tab.run("document.querySelectorAll('#record-forms button').length")):
                    tab.run(f"document.querySelectorAll('#record-forms button')[{at}].click()")
        seen = tab.run("document.getElementById('records').textContent")
        assert not set("\u202e\u202c\u200f\x1b\x00") & set(seen)
        assert "U+202E" in seen
        settled(tab, server)


def test_sizes_and_colours(browser: Browser, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(GOLDEN / "clean", root)
    with serve(root) as server:
        for width, dark in ((1280, False), (390, True)):
            with browser.tab(width=width, dark=dark) as tab:
                tab.open(server.url + "?topic=golden-zstd&partition=0&offset=7")
                tab.wait("!document.getElementById('record').hidden")
                assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")
                tab.run("document.getElementById('records').scrollIntoView()")
                tab.screenshot(tmp_path / f"{width}.png")
                settled(tab, server)


def test_wide_headers_fit_a_narrow_window(browser: Browser, tmp_path: Path) -> None:
    headers = [Header("n" * 80, bytes(range(64))), Header("long", b"x" * 300)]
    written(tmp_path, [Record(b"v", headers=headers)])
    with serve(tmp_path) as server, browser.tab(width=390) as tab:
        tab.open(server.url + "?topic=orders&partition=0&offset=0")
        tab.wait("!document.getElementById('record').hidden")
        assert tab.run("document.documentElement.scrollWidth") <= 390
        for chosen, shows in (("last", False), ("offset", True)):
            put(tab, **{"from": chosen})
            assert tab.run("document.getElementById('records-where').offsetHeight > 0") is shows
        settled(tab, server)
