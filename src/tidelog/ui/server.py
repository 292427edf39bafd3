"""Sockets and threads: HTTP on an address of this machine, until it is told to stop.

Python's own HTTP server does: requests are few, each is a blocking read of files and has a thread to itself,
and nothing has to be installed (docs/architecture.md, "Dependencies"). Connections that stay silent are
closed, and there are no more than `MAX_CONNECTIONS` at a time.
"""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType, TracebackType
from typing import Any, Self

from tidelog.errors import InvalidInputError
from tidelog.ui.exchange import Refusal, Request, Response, make_error
from tidelog.ui.guard import Guard, is_loopback, security_headers
from tidelog.ui.site import Site

__all__ = ["MAX_CONNECTIONS", "UiServer", "make_token", "serve_until_signal"]

MAX_CONNECTIONS = 64
_SILENCE_S = 60.0
_TOKEN_BYTES = 24

_log = logging.getLogger(__name__)


def make_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


class UiServer:
    """Serves a site at an address; `url` is where, with the token. Closes at the end of a `with`."""

    def __init__(
        self,
        make_site: Callable[[Guard], Site],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        other_hosts: bool = False,
        token: str | None = None,
    ) -> None:
        """Listen. Raises InvalidInputError for an address that other machines reach, unless `other_hosts`."""
        if not other_hosts and not is_loopback(host):
            raise InvalidInputError(
                f"{host} can be reached from other machines, and anyone with the address can read every "
                "record: listen on 127.0.0.1, or add --allow-other-hosts"
            )
        self._server = _Server(host, port)
        self.port = int(self._server.server_address[1])
        token = make_token() if token is None else token
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/{token}/"
        self.site = self._server.site = make_site(Guard(token, self.port, host))
        self._thread = threading.Thread(target=self._server.serve_forever, name="tidelog-ui", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests under way are not waited for, they only read."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        """Itself; it listens already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def serve_until_signal(server: UiServer, ready: Callable[[], None]) -> None:
    """Call `ready`, then wait for SIGINT or SIGTERM."""
    stop = threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready()
        while not stop.wait(3600):  # a wait without an end would not hear signals on every platform
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    site: Site

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind; the name of this machine is not looked up, as the parent's does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for a connection, if there is room."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, then make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is nobody's concern."""
        _log.debug("a connection ended with an error", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SILENCE_S
    server: _Server

    def do_GET(self) -> None:
        """Any method: the guard decides."""
        try:
            if len(self.headers) != len(set(map(str.lower, self.headers.keys()))):
                raise Refusal(400, "a header is given more than once")
            request = Request.parse(self.command, self.path, dict(self.headers.items()))
            response = self.server.site.answer(request)
        except Refusal as refusal:
            response = make_error(refusal.status, str(refusal))
        except Exception:
            _log.exception("a request was not answered")
            response = make_error(500, "this is a bug in tidelog: its standard error says more")
        self._send(response)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def _send(self, response: Response) -> None:
        has_body = int(self.headers.get("content-length") or 0) if self._is_length() else 1
        if has_body or "transfer-encoding" in self.headers:
            self.close_connection = True  # what a request carries is not read
        self.send_response(response.status)
        headers = {**security_headers("default-src 'none'"), **response.headers}
        if response.status != 304:
            headers |= {"Content-Type": response.content_type, "Content-Length": str(len(response.body))}
        if response.status == 405:
            headers["Allow"] = "GET, HEAD"
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and response.status != 304:
            self.wfile.write(response.body)

    def _is_length(self) -> bool:
        length = self.headers.get("content-length", "0")
        return length.isascii() and length.isdigit() and len(length) < 19

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What cannot be read as a request is answered in JSON, too."""
        self.close_connection = True
        self.headers = getattr(self, "headers", None) or _no_headers()
        self.command = getattr(self, "command", None) or ""
        self.request_version = "HTTP/1.1"
        self._send(make_error(int(code), f"the request cannot be read: {message or 'it is malformed'}"))

    def version_string(self) -> str:
        """The server's name."""
        return "tidelog"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their addresses hold the token."""


def _no_headers() -> Any:
    from email.message import Message

    return Message()
