"""The page, its facts, one record in every form; and that nothing on disk is changed."""

from __future__ import annotations

import io
import json
import os
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.cli.command import run
from tests.cli.logs import written
from tests.golden import GOLDEN
from tests.ui.asking import TOKEN, Asked, cat_rows
from tests.ui.test_records import catted_by_shell
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records import Header, Record, encode_records
from tidelog.ui.forms import hex_dump
from tidelog.ui.site import Schemas

CLEAN = GOLDEN / "clean"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


def forms_of(found: dict[str, Any]) -> dict[str, Any]:
    return {form.pop("name"): form for form in found["forms"]}


class _Page(HTMLParser):
    """What a page would load, and what it would run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data", "action", "poster") or (tag == "link" and name == "href"):
                self.loads.append(str(value))
            if name.startswith("on"):
                self.handlers.append(name)


def test_the_page_has_all_it_needs(tmp_path: Path) -> None:
    written(tmp_path, [Record(HOSTILE.encode())], "<script>alert(1)<!--\u202e-0")
    found = Asked(tmp_path).answer("")
    assert (found.status, found.content_type) == (200, "text/html; charset=utf-8")
    text = found.body.decode()
    page = _Page(text)
    assert (page.loads, page.handlers) == ([], [])
    assert page.tags.count("table") >= 3
    assert "<script>alert(1)" not in text
    assert TOKEN not in text
    policy = dict(
        one.strip().partition(" ")[::2] for one in found.headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert all(source.startswith("'sha256-") for source in policy["script-src"].split())
    assert len(policy["script-src"].split()) >= 3


def test_every_answer_has_the_headers_of_a_guarded_one() -> None:
    asked = Asked(CLEAN)
    for path in ("", "facts", "api/partitions", "api/records", "nowhere"):
        headers = asked.answer(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers
    assert asked.error("nowhere") == (404, "there is nothing at this address")
    assert asked.error("../facts")[0] == 404


def test_facts_are_those_of_ls_and_are_sent_once() -> None:
    asked = Asked(CLEAN)
    first = asked.answer("facts")
    facts = json.loads(first.body)
    listed = [json.loads(line) for line in run("ls", "--json", CLEAN).lines]
    for name in ("topic", "partition", "size_bytes", "log_start_offset", "log_end_offset", "path"):
        assert facts["partitions"][name] == [row[name] for row in listed], name
    again = asked.answer("facts", {"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert asked.answer("facts", {"If-None-Match": '"other"'}).status == 200


def test_partitions_are_those_of_ls() -> None:
    listed = [json.loads(line) for line in run("ls", "--json", CLEAN).lines]
    found = Asked(CLEAN).json("api/partitions")["partitions"]
    assert found == [{"topic": row["topic"], "partition": row["partition"]} for row in listed]


def test_one_record_in_every_form(tmp_path: Path) -> None:
    value = b'{"id":12345678901234567890,"name":"gr\xc3\xbc\xc3\x9f"}'
    written(
        tmp_path, [Record(b"x"), Record(value, key=b"k", headers=[Header("h", b"\xff"), Header("n", None)])]
    )
    found = Asked(tmp_path).json("api/record", topic="orders", partition=0, offset=1)
    (row,) = [json.loads(line) for line in run("cat", "--json", tmp_path / "orders-0", "--offset", "1").lines]
    assert cat_rows([found["record"]]) == [row]
    assert found["record"]["headers"] == [["h", {"base64": "/w=="}], ["n", None]]
    assert found["batch"]["base_offset"] == 0
    assert found["batch"]["codec"] == "none"
    forms = forms_of(found)
    assert list(forms) == ["json", "text", "hex"]
    assert forms["json"]["value"] == '{\n  "id": 12345678901234567890,\n  "name": "grüß"\n}'
    assert forms["text"] == {"key": "k", "value": value.decode()}
    assert forms["hex"]["key"] == f"00000000  {'6b':<47}  k"
    assert bytes.fromhex(forms["hex"]["value"].split("\n")[0][10:57]) == value[:16]
    assert catted_by_shell(found["commands"][0]) == [row]


def test_avro_by_a_schema(tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    shape = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    schema.write_text(json.dumps(shape))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(shape), {"id": 42})
    registered = b"\0\0\0\0\7" + body.getvalue()
    (tmp_path / "root").mkdir()
    written(tmp_path / "root", [Record(body.getvalue()), Record(registered), Record(b"\xff" * 40)])
    for schemas in (Schemas({"orders": schema}), Schemas(default=schema)):
        asked = Asked(tmp_path / "root", schemas=schemas)
        for offset in (0, 1):
            found = asked.json("api/record", topic="orders", partition=0, offset=offset)
            assert forms_of(found)["avro"]["value"] == '{\n  "id": 42\n}'
            (line,) = [one for one in found["commands"] if "--decode avro" in one]
            assert catted_by_shell(line)[0]["value"] == {"id": 42}
    broken = asked.json("api/record", topic="orders", partition=0, offset=2)
    assert "error" in forms_of(broken)["avro"]
    assert "avro" not in forms_of(
        Asked(tmp_path / "root", schemas=Schemas({"other": schema})).json(
            "api/record", topic="orders", partition=0, offset=0
        )
    )


def test_messages_of_kafkas_own_topics() -> None:
    found = Asked(CLEAN).json("api/record", topic="__consumer_offsets", partition=0, offset=3)
    shown = forms_of(found)["consumer-offsets"]
    assert json.loads(shown["key"])["data"]["group"] == "golden-group"
    assert "consumer-offsets" in " ".join(found["commands"])


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (b"[" * 100_000, "error"),
        (b"1" * 10_000, "error"),
        (b"\xff\xfe", "error"),
        (b"NaN", "value"),
        (b'"\\ud800"', "value"),
        (b"[1" + b",[1" * 400 + b"]" * 401, "value"),
    ],
    ids=lambda one: repr(one)[:20],
)
def test_json_that_is_hard_to_read(tmp_path: Path, value: bytes, form: str) -> None:
    written(tmp_path, [Record(value)])
    found = Asked(tmp_path).json("api/record", topic="orders", partition=0, offset=0)
    assert form in forms_of(found)["json"]


def test_a_record_that_is_not_there(tmp_path: Path) -> None:
    asked = Asked(CLEAN)
    assert asked.error("api/record", topic="golden-zstd", partition=0, offset=99999)[0] == 404
    assert asked.error("api/record", topic="golden-zstd", partition=0) == (400, "offset is missing")
    assert asked.error("api/record", topic="golden-zstd", partition=0, offset=1, limit=1)[0] == 400
    shutil.copytree(CLEAN / "golden-none-0", tmp_path / "golden-none-0")
    log = sorted((tmp_path / "golden-none-0").glob("*.log"))[0]
    log.write_bytes(b"\0" * log.stat().st_size)
    status, told = Asked(tmp_path).error("api/record", topic="golden-none", partition=0, offset=1)
    assert (status, str(log) in told) == (404, True)


def test_a_large_record_is_cut(tmp_path: Path) -> None:
    directory = tmp_path / "big-0"
    with Log.open(directory, LogConfig(max_message_bytes=4 << 20)) as log:
        log.append_as_leader(encode_records([Record(b'"' + b"a" * (3 << 20) + b'"')]))
    answer = Asked(tmp_path).answer("api/record", topic="big", partition=0, offset=0)
    assert len(answer.body) < 4 << 20
    found = json.loads(answer.body)
    assert found["record"]["cut"] == {"value": (3 << 20) + 2}
    assert "too long" in forms_of(found)["json"]["error"]


def test_hex_dumps() -> None:
    assert hex_dump(b"") == ""
    lines = hex_dump(bytes(range(256)) * 100, limit=40).split("\n")
    assert [line[:8] for line in lines] == ["00000000", "00000010", "00000020"]
    assert len(lines[2].split("  ")[1].split()) == 8
    assert all(line.isascii() and line.isprintable() for line in lines)


def state_of(root: Path) -> dict[str, Any]:
    """Names, bytes and times of all under a root; reading a file may change when it was read."""
    found: dict[str, Any] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        told = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (told.st_ino, told.st_mode, told.st_size, told.st_mtime_ns, told.st_ctime_ns, data)
    return found


def test_nothing_is_changed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    before = state_of(root)
    asked = Asked(root)
    for one in asked.json("api/partitions")["partitions"]:
        for query in ({"last": 5}, {"limit": 5}, {"key": "x", "committed": "true"}, {"since": "1"}):
            asked.json("api/records", **one, **query)
        start = asked.json("api/records", **one, limit=1)["records"]
        if start:
            asked.json("api/record", **one, offset=start[0]["at"])
    asked.answer("")
    asked.answer("facts")
    assert state_of(root) == before


def test_nothing_is_opened_for_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    opened: list[int] = []
    real = os.open

    def spy(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if str(root) in str(path):
            opened.append(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", spy)
    asked = Asked(root)
    asked.answer("facts")
    asked.json("api/records", topic="golden-zstd", partition=0)
    assert opened
    assert set(opened) == {0}


def test_many_may_ask_at_once(tmp_path: Path) -> None:
    asked = Asked(CLEAN)
    answers: list[int] = []

    def ask() -> None:
        for path, query in (
            ("facts", {}),
            ("api/records", {"topic": "golden-multi", "partition": 0, "last": 20}),
            ("api/record", {"topic": "golden-multi", "partition": 0, "offset": 7}),
        ):
            answers.append(asked.answer(path, None, **query).status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 24


def test_the_same_partition_in_two_roots(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, [Record(name.encode())])
    written(tmp_path / "a", [Record(b"c")], "other-0")
    asked = Asked(tmp_path / "a", tmp_path / "b")
    assert len(asked.json("api/partitions")["partitions"]) == 2
    assert asked.json("api/records", topic="other", partition=0)["records"][0]["value"] == "c"
    status, told = asked.error("api/records", topic="orders", partition=0)
    assert (status, "is there twice" in told) == (400, True)
