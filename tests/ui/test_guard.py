"""Who may ask: the page itself, and nobody else."""

from __future__ import annotations

import pytest

from tests.ui.asking import HOST, TOKEN
from tidelog.ui.exchange import Refusal, Request
from tidelog.ui.guard import Guard, is_loopback

GUARD = Guard(TOKEN, 8080, "tide.example")


def admit(path: str = f"/{TOKEN}/api/records", method: str = "GET", **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return GUARD.admit(Request.parse(method, path, {"Host": HOST, **named}))


@pytest.mark.parametrize(
    "host", [HOST, "localhost:8080", "LOCALHOST:8080", "[::1]:8080", "tide.example:8080"]
)
def test_its_own_page_may_ask(host: str) -> None:
    assert admit(Host=host) == "api/records"
    assert admit(Host=host, Origin=f"http://{host.lower()}", Sec_Fetch_Site="same-origin") == "api/records"
    assert admit(Host=host, method="HEAD") == "api/records"


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:8080",  # a name that was made to mean this machine
        "127.0.0.1.evil.example:8080",
        "localhost.evil.example:8080",
        "localhost",
        "127.0.0.1:8081",
        "127.0.0.1",
        "127.0.0.1:8080@evil.example",
        "[::1:8080",
        "user@127.0.0.1:8080",
    ],
)
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(Refusal, match="host") as refused:
        admit(Host=host)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        f"https://{HOST}",
        "http://127.0.0.1:8081",
        f"http://{HOST}.evil.example",
    ],
)
def test_other_origins_are_refused(origin: str) -> None:
    with pytest.raises(Refusal, match="origins") as refused:
        admit(Origin=origin)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "path", ["/", "", "/wrong/", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/tøken/", f"//{TOKEN}/"]
)
def test_without_the_token_nothing_is_told(path: str) -> None:
    with pytest.raises(Refusal, match="token") as refused:
        admit(path)
    assert refused.value.status == 403
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "get"])
def test_only_reading_methods(method: str) -> None:
    with pytest.raises(Refusal) as refused:
        admit(method=method)
    assert refused.value.status == 405


def test_another_site_may_link_to_the_page_but_not_load_anything() -> None:
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert admit(f"/{TOKEN}/", **followed) == ""
    for path, headers in (
        (f"/{TOKEN}/facts", followed),
        (f"/{TOKEN}/", followed | {"Sec_Fetch_Dest": "iframe"}),
        (f"/{TOKEN}/", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}),
        (f"/{TOKEN}/api/records", {"Sec_Fetch_Site": "same-site"}),
    ):
        with pytest.raises(Refusal, match="sites") as refused:
            admit(path, **headers)
        assert refused.value.status == 403


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("tide.example", False),
        ("", False),
    ],
)
def test_what_the_loopback_is(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@pytest.mark.parametrize(
    "target",
    [
        "/%ff/",
        "/a?topic=%ff",
        "/a?" + "&".join(f"a{i}=1" for i in range(100)),
        "/a?topic=a&topic=b",
        "//[",
        "/a?b",
    ],
)
def test_addresses_that_cannot_be_read(target: str) -> None:
    with pytest.raises(Refusal) as refused:
        Request.parse("GET", target, {})
    assert refused.value.status == 400
