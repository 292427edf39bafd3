"""Who may ask: a check before any handler runs, and the headers of every answer.

1. Only GET and HEAD are methods: nothing can be changed.
2. `Host` must be the address that is listened to, `localhost` or an IP address. A page of another site that
   has its own name resolve to this machine (DNS rebinding) sends that name, and is refused.
3. `Origin`, if there is one, must be this server. `Sec-Fetch-Site` must not be another site, except for a
   link that a person follows to the page.
4. The first part of the path must be the token; it is compared in constant time. Nothing is kept in cookies,
   which browsers send to every port of a host.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.ui.exchange import Refusal, Request

__all__ = ["METHODS", "Guard", "is_loopback", "security_headers"]

METHODS = ("GET", "HEAD")
_NAVIGATION = {"navigate", "nested-navigate"}


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets requests through that come from this server's own page."""

    token: str
    port: int
    host_name: str = ""
    """The name that the server was told to listen to, if it is one."""

    def admit(self, request: Request) -> str:
        """The path behind the token. Raises Refusal."""
        if request.method not in METHODS:
            raise Refusal(405, "only GET and HEAD are answered: nothing can be changed here")
        host = request.headers.get("host", "")
        if not self._is_own(host):
            raise Refusal(403, "requests under another host's name are refused: use the printed address")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise Refusal(403, "requests of other origins are refused")
        token, slash, path = request.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            raise Refusal(403, "the token in the address is missing or wrong: use the printed address")
        if not slash:
            raise Refusal(404, "the page's address ends with a slash")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            is_link = request.headers.get("sec-fetch-mode") in _NAVIGATION and not path
            if not is_link or request.headers.get("sec-fetch-dest") != "document":
                raise Refusal(403, "requests of other sites are refused")
        return path

    def _is_own(self, host: str) -> bool:
        name, port = _split(host.lower())
        if port != str(self.port) and not (not port and self.port == 80):
            return False
        return name == "localhost" or (name == self.host_name.lower() != "") or _address(name) is not None


def _split(host: str) -> tuple[str, str]:
    """Name and port of a Host header; an IPv6 address without its brackets."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name other than localhost may come to mean another."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def security_headers(policy: str) -> Mapping[str, str]:
    """What every answer says to a browser: load nothing from elsewhere, guess nothing, tell nobody."""
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
