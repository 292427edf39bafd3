"""The page, opened in a real browser."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, Tab, require_browser
from tests.golden import GOLDEN
from tests.report.roots import HOSTILE, make_many
from tidelog.report.facts import gather
from tidelog.report.page import MARK, facts_json, page
from tidelog.testing.builders import LogBuilder, cut_off, flip_bit

SECTIONS = ["topics", "activity", "batches", "skew", "producers"]
SECTIONS += ["transactions", "retention", "groups", "findings"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(require_browser()) as running:
        yield running


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return gather(GOLDEN / "clean", examine=True, records=True)


@pytest.fixture
def opened(browser: Browser, golden: dict[str, Any], tmp_path: Path) -> Iterator[Tab]:
    with browser.tab() as tab:
        tab.open(written(golden, tmp_path))
        yield tab
        assert_quiet(tab)


def written(facts: dict[str, Any], directory: Path) -> Path:
    target = directory / "report.html"
    target.write_text(page(facts), encoding="utf-8")
    return target


def assert_quiet(tab: Tab) -> None:
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith("file://")] == []
    assert len(tab.requests()) == 1


def sections(tab: Tab) -> list[str]:
    found: list[str] = tab.run("[...document.querySelectorAll('main section')].map((one) => one.id)")
    return found


def go(tab: Tab, fragment: str) -> None:
    before = tab.run("document.querySelector('main').firstChild.page ??= Math.random()")
    tab.run(f"location.hash = {json.dumps(fragment)}")
    tab.wait(f"document.querySelector('main').firstChild.page !== {before}")


def middle(tab: Tab, figure: str, part: str = ".chart svg text") -> tuple[float, float]:
    """The middle of a part of a chart, once it is drawn, scrolled to where it is seen."""
    script = f"document.querySelector('[data-name={json.dumps(figure)}] {part}')"
    tab.run(f"document.querySelector('[data-name={json.dumps(figure)}]').scrollIntoView()")
    tab.wait(f"!!{script}")
    x, y = tab.run(
        f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({script}.getBoundingClientRect())"
    )
    return x, y


def test_the_golden_root_has_every_section(opened: Tab, golden: dict[str, Any]) -> None:
    assert set(sections(opened)) == {"roots", *SECTIONS}
    assert json.loads(opened.run("document.getElementById('facts').textContent")) == golden
    text = opened.run("document.querySelector('main').innerText")
    assert "8,947" in text  # records
    assert "golden-unicode.topic_name-with-dash" in text
    assert "golden-group" in text
    for name in golden["partitions"]["path"]:
        go(opened, f"#/partition/{Path(name).name}")
        assert {"segments", "epochs", "activity", "keys", "retention", "findings"} <= set(sections(opened))
        assert opened.run("document.querySelector('h1 bdi').textContent") == Path(name).name
    go(opened, "#/topic/golden-txn")
    assert "partitions" in sections(opened)
    go(opened, "#/partition/none-7")
    assert "no partition" in opened.run("document.querySelector('main').innerText")


def test_compression_and_keys(opened: Tab, browser: Browser, tmp_path: Path) -> None:
    go(opened, "#/partition/golden-zstd-0")
    opened.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.wait("document.querySelector('#batches').textContent.includes('compression ratio')")
    assert "Most frequent keys" in opened.run("document.querySelector('#keys').textContent")
    with browser.tab() as tab:
        tab.open(written(gather(GOLDEN / "clean"), tmp_path))
        assert "with --records" in tab.run("document.querySelector('#skew').textContent")
        assert_quiet(tab)


def test_every_figure_has_a_table(opened: Tab) -> None:
    go(opened, "#/partition/golden-txn-0")
    opened.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.wait(
        "[...document.querySelectorAll('figure')].every((one) => one.querySelector('table tbody tr'))"
    )
    rows = opened.run("document.querySelectorAll('[data-name=\"Segments by offset\"] tbody tr').length")
    assert rows == 9


def test_pointing_and_clicking(opened: Tab) -> None:
    x, y = middle(opened, "Bytes by topic")
    opened.point(x, y)
    opened.wait("document.querySelector('.tip')?.innerText.includes('records')")
    opened.point(x, y, click=True)
    opened.wait("location.hash.startsWith('#/partition/')")
    opened.wait("!!document.querySelector('[data-name=\"Segments by offset\"]')")
    opened.run("document.querySelector('nav a').click()")
    opened.wait("document.querySelector('h1').textContent === 'Overview'")
    opened.run("document.querySelector('#topics th:nth-child(3) button').click()")
    assert opened.run("document.querySelector('#topics tbody tr a').textContent") == "golden-none"


def test_searching(opened: Tab) -> None:
    opened.run("document.getElementById('search').focus()")
    opened.type("TRIMMED")
    opened.wait("!document.getElementById('found').hidden")
    found = opened.run("[...document.querySelectorAll('#found a')].map((one) => one.textContent)")
    assert found == ["golden-trimmed topic", "golden-trimmed-0 partition"]
    opened.run("document.querySelectorAll('#found a')[1].click()")
    opened.wait("document.querySelector('h1 bdi')?.textContent === 'golden-trimmed-0'")
    assert opened.run("location.hash") == "#/partition/golden-trimmed-0"


@pytest.mark.parametrize("dark", [False, True])
def test_narrow_windows_light_and_dark(
    browser: Browser, golden: dict[str, Any], tmp_path: Path, dark: bool
) -> None:
    with browser.tab(width=390, height=800, dark=dark) as tab:
        tab.open(written(golden, tmp_path))
        for fragment in ("#/groups", "#/topic/golden-none", "#/partition/golden-none-0"):
            go(tab, fragment)
            assert tab.run("document.documentElement.scrollWidth") <= 390
        ground = tab.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(18, 22, 28)" if dark else "rgb(246, 247, 249)")
        assert_quiet(tab)


def test_it_prints(opened: Tab) -> None:
    assert opened.pdf().startswith(b"%PDF")
    opened.ask("Emulation.setEmulatedMedia", media="print")
    heads = "document.querySelector('#topics > div th button')"
    assert opened.run(f"{heads}.getBoundingClientRect().height") > 0
    assert opened.run("getComputedStyle(document.querySelector('.scroll')).maxHeight") == "none"
    opened.wait("document.querySelector('.tiles').getBoundingClientRect().width > 0")


def test_bars_of_one_time_stand_on_each_other(opened: Tab, golden: dict[str, Any]) -> None:
    tops = opened.run(
        """(() => {
          const chart = document.querySelector('[data-name="Activity by topic"] .chart').chart;
          const tops = {};
          draw(chart);
          chart.drawn.getModel().eachSeries((series) => {
            const data = series.getData();
            const top = data.getCalculationInfo('stackResultDimension');
            for (let at = 0; at < data.count(); at += 1) {
              const when = data.get(data.mapDimension('x'), at);
              tops[when] = Math.max(tops[when] ?? 0, data.get(top, at));
            }
          });
          return Object.values(tops);
        })()"""
    )
    assert sum(tops) == sum(golden["hours"]["bytes"])


def test_times_are_utc_wherever_the_reader_is(opened: Tab) -> None:
    opened.ask("Emulation.setTimezoneOverride", timezoneId="Asia/Kathmandu")
    go(opened, "#/partition/golden-none-0")
    middle(opened, "Segments by time")
    labels = "document.querySelectorAll('[data-name=\"Segments by time\"] svg text')"
    assert "22:20" in opened.run(f"[...{labels}].map((one) => one.textContent)")
    assert "2023-11-15 01:00:23" in opened.run("document.querySelector('#segments').innerText")


def test_a_topic_is_as_well_as_its_partitions(opened: Tab) -> None:
    told = "(row) => row.innerText.split(/\\s+/).slice(0, 2)"
    rows = opened.run(f"[...document.querySelectorAll('#topics > div tr')].map({told})")
    assert ["golden-txn", "warning"] in rows  # a transaction is open
    assert ["golden-none", "ok"] in rows


def test_a_damaged_root(browser: Browser, tmp_path: Path) -> None:
    root = tmp_path / "data"
    LogBuilder(root / "flipped-0").records(100).roll().records(100).close()
    LogBuilder(root / "torn-0").records(100).roll().records(100).close()
    flip_bit(root / "flipped-0" / f"{0:020d}.log", 700)
    cut_off(root / "torn-0" / f"{100:020d}.log", 30)
    (root / "lost-0").mkdir()
    shutil.copy(root / "torn-0" / f"{0:020d}.index", root / "lost-0")
    with browser.tab() as tab:
        tab.open(written(gather(root, examine=True), tmp_path))
        assert set(sections(tab)) == {"roots", *SECTIONS}
        assert tab.run("document.querySelectorAll('#findings .badge.bad').length") > 0
        for name in ("flipped-0", "torn-0", "lost-0"):
            go(tab, f"#/partition/{name}")
            assert "segments" in sections(tab)
        assert_quiet(tab)


def test_an_empty_root(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    with browser.tab() as tab:
        tab.open(written(gather(tmp_path, examine=True), tmp_path))
        assert set(sections(tab)) == {"roots", *SECTIONS}
        assert_quiet(tab)


def test_names_that_mean_harm_do_nothing(browser: Browser, golden: dict[str, Any], tmp_path: Path) -> None:
    facts = json.loads(json.dumps(golden))
    for at, name in enumerate(HOSTILE):
        old = facts["topics"]["topic"][at]
        facts["topics"]["topic"][at] = name
        for number, topic in enumerate(facts["partitions"]["topic"]):
            if topic == old:
                facts["partitions"]["topic"][number] = name
                facts["partitions"]["path"][number] = f"/data/{name}-0"
        facts["findings"]["cause"][at] = facts["findings"]["file"][at] = name
        facts["groups"]["group"][at] = facts["groups"]["member_id"][at] = name
        facts["transactions"]["transactional_id"][at] = name
        facts["paths"].append(name)
    assert "</script><script>window.harmed" not in page(facts)
    assert json.loads(facts_json(facts)) == facts
    with browser.tab() as tab:
        tab.open(written(facts, tmp_path))
        text = tab.run("document.body.innerText")
        assert HOSTILE[0] in text
        assert "\\u202edlrow\\u202c \\u200f{b}{c|d} \\u001b[31mred" in text
        for href in tab.run("[...document.querySelectorAll('#topics td a')].map((one) => one.hash)"):
            go(tab, href)
            assert "Not found" not in tab.run("document.querySelector('h1').textContent")
            tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        go(tab, "#/")
        tab.point(*middle(tab, "Bytes by topic"))
        tab.wait("!!document.querySelector('.tip')")
        tab.run("document.getElementById('search').focus()")
        tab.type("<")
        tab.wait("document.querySelectorAll('#found a').length > 0")
        assert tab.run("window.harmed") is None
        assert tab.run("document.querySelectorAll('main img, #found img, .tip img').length") == 0
        assert_quiet(tab)


def test_a_long_name_leaves_room_for_the_figures(
    browser: Browser, golden: dict[str, Any], tmp_path: Path
) -> None:
    facts = json.loads(json.dumps(golden))
    old, name = facts["topics"]["topic"][0], "x" * 249
    for table in ("topics", "partitions"):
        facts[table]["topic"] = [name if topic == old else topic for topic in facts[table]["topic"]]
    with browser.tab(width=1280) as tab:
        tab.open(written(facts, tmp_path))
        assert tab.run(f"document.querySelector('#topics td > a[title={name}]').offsetWidth") < 400
        assert_quiet(tab)


def test_live_facts_are_shown_as_they_come(browser: Browser, golden: dict[str, Any]) -> None:
    facts = json.loads(json.dumps(golden))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path == "/"
            text = (
                page(facts, live="/facts", sections="<div class=extra>more</div>")
                if is_page
                else facts_json(facts)
            )
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with browser.tab() as tab:
                tab.open(f"http://127.0.0.1:{server.server_address[1]}/")
                assert tab.run("document.querySelector('.extra').textContent") == "more"
                facts["totals"]["records"] = 123_456_789
                tab.wait("document.querySelector('main').innerText.includes('123,456,789')")
                assert [one for one in tab.complaints() if "favicon" not in one] == []
        finally:
            server.shutdown()


def test_a_page_knows_itself(golden: dict[str, Any]) -> None:
    text = page(golden)
    assert text.startswith(MARK)
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in text
    assert "connect-src 'none'" in text
    assert "connect-src 'self'" in page(golden, live="/facts")


@pytest.mark.slow
def test_a_thousand_partitions(browser: Browser, tmp_path: Path) -> None:
    root = make_many(tmp_path / "data", 1000, 9)
    target = written(gather(root), tmp_path)
    assert target.stat().st_size < 5_000_000
    with browser.tab() as tab:
        tab.open(target)
        assert set(sections(tab)) == {"roots", *SECTIONS}
        assert "1,000" in tab.run("document.querySelector('.tiles').innerText")
        print("ready after", tab.run("performance.now()"), "ms")
        go(tab, "#/partition/topic-049-19")
        assert tab.run("document.querySelectorAll('#segments > div tbody tr').length") == 10
        assert_quiet(tab)
