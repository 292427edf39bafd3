"""`tidelog ui` as a process, and its server on the loopback."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.command import COMMAND, run
from tests.cli.logs import written
from tests.golden import GOLDEN
from tests.waiting import PATIENCE_S
from tidelog.records import Record
from tidelog.ui.server import UiServer, make_token
from tidelog.ui.site import Site

CLEAN = GOLDEN / "clean"


@pytest.fixture(scope="module")
def server() -> Iterator[UiServer]:
    with UiServer(lambda guard: Site([str(CLEAN)], guard)) as running:
        yield running


def ask(
    server: UiServer, path: str = "", method: str = "GET", token: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    link = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
    try:
        start = parts.path if token is None else f"/{token}/"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        link.request(method, start + path, headers=named)
        found = link.getresponse()
        return found.status, dict(found.getheaders()), found.read()
    finally:
        link.close()


def test_answers_over_a_socket(server: UiServer) -> None:
    status, headers, body = ask(server, "api/records?topic=golden-zstd&partition=0&last=3")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert len(json.loads(body)["records"]) == 3
    assert headers["Server"] == "tidelog"
    status, headers, body = ask(server, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 10_000


def test_strangers_get_nothing(server: UiServer) -> None:
    assert ask(server, token="guess")[0] == 403
    assert ask(server, Host=f"evil.example:{server.port}")[0] == 403
    assert ask(server, "facts", Origin="http://evil.example")[0] == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, body = ask(server, "facts", method=method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
        assert "error" in json.loads(body)
    assert make_token() != make_token()
    assert len(make_token()) >= 32


GARBAGE = [
    b"\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
    b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\xff\xfe\x00" * 10 + b"\r\n\r\n",
]


@pytest.mark.parametrize("sent", GARBAGE, ids=lambda sent: repr(sent)[:30])
def test_garbage_is_refused(server: UiServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as link:
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        answer = b""
        while part := link.recv(1 << 16):
            answer += part
    if answer:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert 400 <= int(head.split()[1]) < 600
        assert "error" in json.loads(body)
    assert ask(server, "api/partitions")[0] == 200


@contextmanager
def started(*args: str | Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The command as a process; and what it printed."""
    with subprocess.Popen(
        [COMMAND, "ui", "--json", "--no-open", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it(tmp_path: Path, number: signal.Signals) -> None:
    written(tmp_path, [Record(b"a")])
    with started(tmp_path) as (process, told):
        assert told["url"].startswith(f"http://127.0.0.1:{told['port']}/")
        assert told["roots"] == str(tmp_path)
        parts = urlsplit(told["url"])
        link = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=PATIENCE_S)
        link.request("GET", f"{parts.path}api/records?topic=orders&partition=0")
        assert json.loads(link.getresponse().read())["records"][0]["value"] == "a"
        process.send_signal(number)  # with a connection that is still open
        out, err = process.communicate(timeout=PATIENCE_S)
        link.close()
    assert (process.returncode, out, err) == (0, "", "")


def test_what_cannot_be_served_is_told(tmp_path: Path, server: UiServer) -> None:
    answer = run("ui", tmp_path / "gone")
    assert (answer.code, "does not exist" in answer.err) == (2, True)
    answer = run("ui", CLEAN, "--listen", "0.0.0.0", "--no-open")
    assert (answer.code, "--allow-other-hosts" in answer.err) == (2, True)
    answer = run("ui", CLEAN, "--port", str(server.port), "--no-open")
    assert (answer.code, f"cannot listen on 127.0.0.1:{server.port}" in answer.err) == (2, True)
    answer = run("ui", CLEAN, "--port", "70000", "--no-open")
    assert (answer.code, "65535" in answer.err) == (2, True)
    answer = run("ui", CLEAN, "--avro-schema", str(tmp_path / "none.avsc"), "--no-open")
    assert answer.code == 2
    answer = run("ui", CLEAN, "--avro-schema", "a=b", "--avro-schema", "a=c", "--no-open")
    assert (answer.code, "two schemas" in answer.err) == (2, True)
    assert run("ui", "--help").code == 0


def test_other_hosts_if_they_are_asked_for() -> None:
    with started(CLEAN, "--listen", "0.0.0.0", "--allow-other-hosts") as (_, told):
        parts = urlsplit(told["url"])
        link = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=PATIENCE_S)
        link.request("GET", f"{parts.path}api/partitions")
        assert link.getresponse().status == 200
        link.close()


def test_other_commands_do_not_load_it() -> None:
    code = "import sys, tidelog, tidelog.cli.app; print({'http.server', 'tidelog.ui'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
