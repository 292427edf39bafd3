"""A broker as a server: listeners, connections, and what becomes of each request.

    async with Server(broker, listen=[Endpoint("127.0.0.1", 0)]) as server:
        await server.stopped.wait()

One event loop has all of it. What waits for a disk or takes long is done by a few threads.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from tidelog.broker.authentication import Authenticator, AuthSession, Stage
from tidelog.broker.connection import CloseConnectionError, Connection
from tidelog.broker.context import Answer, Broker, Client
from tidelog.broker.coordinators import COORDINATED
from tidelog.broker.errors import Code
from tidelog.broker.executor import Executor
from tidelog.broker.handlers.produce import ConnectionLostError
from tidelog.broker.handlers.registry import HANDLERS
from tidelog.broker.handlers.versions import unsupported_api_versions
from tidelog.broker.limits import Budget, Connections
from tidelog.broker.listening import Listener
from tidelog.broker.mapped_pages import MappedPages
from tidelog.broker.metrics import Metrics, render
from tidelog.broker.settings import Endpoint
from tidelog.broker.wire.encoding import Pieces
from tidelog.broker.wire.requests import (
    MalformedRequestError,
    RequestHeader,
    UnsupportedVersionError,
    decode_request,
    encode_response,
    encode_unsupported,
    read_header,
)
from tidelog.broker.wire.versions import Api, api_named

__all__ = ["Server"]

_logger = logging.getLogger(__name__)

_API_VERSIONS = 18
_THREADS = 4
_LOOK_S = 1.0
_STOP_LOOKS, _STOP_LOOK_S = 50, 0.02
_STRANGERS_BYTES = 512 << 10
"""The largest request of a client that is not known yet."""


class Server:
    """A broker that listens. Its methods belong to the event loop that it was started on."""

    def __init__(
        self,
        broker: Broker,
        listen: Sequence[Endpoint],
        *,
        advertise: Endpoint | None = None,
        tls: ssl.SSLContext | None = None,
        executor: Executor | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.broker = broker
        self._listen = list(listen)
        self._advertise = advertise
        self._tls = tls
        self._executor = executor
        self._authenticator = authenticator
        self.metrics = Metrics()
        self._pages = MappedPages()
        served = HANDLERS.keys() | (COORDINATED if executor else set())
        broker.served = frozenset(api_named(name).key for name in served)
        settings = broker.settings
        self.max_request_bytes = settings.socket_request_max_bytes
        self._most_items = settings.tidelog_request_max_items
        self.budget = Budget(settings.queued_max_request_bytes)
        self._admitted = Connections(settings.max_connections, settings.max_connections_per_ip)
        self._connections: set[Connection] = set()
        self._listeners: list[Listener] = []
        self._keeper: asyncio.Task[None] | None = None
        self.endpoints: list[Endpoint] = []
        """Where it listens, once it does."""
        self.metrics_endpoint: Endpoint | None = None
        """The address of the metrics for Prometheus."""

    async def __aenter__(self) -> Self:
        """Listen."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    async def start(self) -> None:
        """Listen at every address; the ports that were given out are in `endpoints`."""
        loop = asyncio.get_running_loop()
        self.broker.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tidelog-broker")
        slow_s = self.broker.settings.tidelog_request_read_ms / 1000
        for number, wanted in enumerate(self._listen):

            def connect(host: str, listener: int = number) -> Connection:
                return Connection(self, host, listener)

            listener = Listener(connect, self._admitted, tls=self._tls, handshake_s=max(slow_s, 0.001))
            self._listeners.append(listener)
            self.endpoints.append(Endpoint(wanted.host or "localhost", await listener.start(wanted)))
        self.broker.advertised = [self._advertised(one) for one in self.endpoints]
        self._keeper = loop.create_task(self._keep())
        if self._executor is not None:
            self._executor.start()

    def _advertised(self, endpoint: Endpoint) -> Endpoint:
        if self._advertise is None:
            host = socket.gethostname() if endpoint.host in ("0.0.0.0", "::") else endpoint.host
            return Endpoint(host, endpoint.port)
        port = self._advertise.port or endpoint.port
        return Endpoint(self._advertise.host or endpoint.host, port)

    async def stop(self) -> None:
        """Take no more connections and requests, let those that are being handled end, and close."""
        for listener in self._listeners:
            listener.stop()
        if self._keeper is not None:
            self._keeper.cancel()
        if self._executor is not None:
            self._executor.stop()
        for connection in list(self._connections):
            connection.finish()
        if self.broker.threads is not None:
            threads = self.broker.threads
            await asyncio.get_running_loop().run_in_executor(None, threads.shutdown)
        for _ in range(_STOP_LOOKS):  # what was decided is still told; fetches that wait are not waited for
            if all(connection.is_waiting for connection in self._connections):
                break
            await asyncio.sleep(_STOP_LOOK_S)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _keep(self) -> None:
        """Close connections that have been silent, in the middle of a request, or not read, for too long."""
        settings = self.broker.settings
        idle_s = settings.connections_max_idle_ms / 1000
        slow_s = settings.tidelog_request_read_ms / 1000
        while True:
            await asyncio.sleep(_LOOK_S)
            now = asyncio.get_running_loop().time()
            for connection in list(self._connections):
                if connection.stalled_at is not None and 0 <= idle_s < now - connection.stalled_at:
                    connection.abort()  # closing would wait for it to read
                    continue
                if connection.is_busy:
                    continue
                if connection.begun_at is not None and now - connection.begun_at > slow_s:
                    connection.close("a request took too long to come in")
                elif self.budget.is_short and connection.is_behind(now, slow_s):
                    connection.close("a request came in slowly while others waited for memory")
                elif 0 <= idle_s < now - connection.last_read:
                    connection.close("it was idle")

    # Connections

    def opened(self, connection: Connection) -> None:
        """A client is there."""
        self._connections.add(connection)
        if self._authenticator is not None:
            connection.state = self._authenticator.session()
            connection.max_frame_bytes = min(_STRANGERS_BYTES, self.max_request_bytes)

    def closed(self, connection: Connection) -> None:
        """It is gone."""
        self._admitted.leave(connection.client.host)
        self._connections.discard(connection)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    def metrics_text(self) -> str:
        """What Prometheus is told."""
        coordinators = None if self._executor is None else self._executor.coordinators
        return render(self.metrics, self.connections, self.broker, coordinators)

    # Requests

    def answer(self, frame: bytes, connection: Connection) -> Pieces | Awaitable[Pieces | None] | None:
        """A request's response."""
        session: AuthSession | None = connection.state
        if session is not None and session.is_bare and session.stage is Stage.TOKENS:
            return self._bare_token(session, frame, connection)
        self.metrics.received_bytes += len(frame)
        begin = time.perf_counter()
        try:
            header = read_header(frame)
            api, request = decode_request(header, frame, self._most_items)
        except UnsupportedVersionError:
            return self._unsupported(header)
        except MalformedRequestError:
            self.metrics.errors += 1
            raise
        if api.key not in self.broker.served:
            return self._unsupported(header)
        client = connection.client
        client.client_id = header.client_id or ""
        if session is not None and session.stage is not Stage.KNOWN:
            return self._before_known(session, api, request, header, connection)
        try:
            answer = self._handle(api, request, client)
        except ConnectionLostError as error:
            raise CloseConnectionError(str(error)) from None
        if isinstance(answer, Awaitable):
            return self._later(api, header, answer, begin)
        return self._encoded(api, header, answer, begin)

    def _encoded(self, api: Api, header: RequestHeader, answer: Any, begin: float) -> Pieces | None:
        self.metrics.took(api.name, time.perf_counter() - begin)
        if answer is None:
            return None
        pieces = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        self.metrics.sent_bytes += sum(map(len, pieces))
        self._pages.sending(pieces)
        return pieces

    # Clients that are not known yet

    def _before_known(
        self, session: AuthSession, api: Api, request: Any, header: RequestHeader, connection: Connection
    ) -> Pieces:
        """ApiVersions and the way in; anything else ends the connection."""
        match api.name:
            case "ApiVersions":
                values = HANDLERS[api.name](request, self.broker, connection.client)
            case "SaslHandshake":
                values = session.handshake(request)
            case "SaslAuthenticate":
                values = session.authenticate(request)
            case _:
                raise CloseConnectionError(f"{api.name} before the client was known")
        self._note_known(session, connection)
        return encode_response(header.api_key, header.api_version, header.correlation_id, values)

    def _bare_token(self, session: AuthSession, token: bytes, connection: Connection) -> Pieces:
        answer = session.bare(token)
        if answer is None:
            raise CloseConnectionError("authentication failed")
        self._note_known(session, connection)
        return [len(answer).to_bytes(4, "big"), answer]

    def _note_known(self, session: AuthSession, connection: Connection) -> None:
        if session.stage is Stage.KNOWN:
            connection.client.principal = f"User:{session.user}"
            connection.max_frame_bytes = self.max_request_bytes
        elif session.stage is Stage.REFUSED:
            self.metrics.errors += 1
            _logger.info("authentication of %s failed", connection.client.host)
            asyncio.get_running_loop().call_soon(connection.close, "authentication failed")

    def _handle(self, api: Api, request: Any, client: Client) -> Answer:
        if api.name in COORDINATED and self._executor is not None:
            ticket = self._executor.ask(request, client)
            return ticket.wait() if ticket.response is None else ticket.response
        return HANDLERS[api.name](request, self.broker, client)

    async def _later(
        self, api: Api, header: RequestHeader, answer: Awaitable[Any], begin: float
    ) -> Pieces | None:
        try:
            values = await answer
        except ConnectionLostError as error:
            raise CloseConnectionError(str(error)) from None
        return self._encoded(api, header, values, begin)

    def _unsupported(self, header: RequestHeader) -> Pieces:
        """Kafka's answer to what it does not know: for ApiVersions one that any client can read."""
        if header.api_key == _API_VERSIONS:
            return encode_response(
                _API_VERSIONS, 0, header.correlation_id, unsupported_api_versions(self.broker)
            )
        return encode_unsupported(header, Code.UNSUPPORTED_VERSION)
