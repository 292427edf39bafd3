"""Running a broker: in this thread until a signal (`serve`), or in one of its own (`BrokerThread`).

1. The roots are opened, recovered where they were not closed cleanly, as a broker does.
2. It listens, and says where.
3. At SIGTERM or SIGINT it stops: no more connections, the requests under way end, every log is closed, and
   the roots are marked as closed cleanly. A second signal ends the process at once; the next start recovers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tidelog.broker.authentication import MECHANISMS, Authenticator
from tidelog.broker.catalog import Catalog, ReadOnlyCatalog, StoreCatalog
from tidelog.broker.context import Broker
from tidelog.broker.executor import Executor
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.listening import raise_descriptor_limit
from tidelog.broker.metrics import MetricsServer
from tidelog.broker.server import Server
from tidelog.broker.settings import Endpoint, Settings, broker_config
from tidelog.errors import LogError
from tidelog.manager.store.opener import open_store
from tidelog.manager.store.store import Store

__all__ = ["BrokerOptions", "BrokerThread", "running", "serve"]

_logger = logging.getLogger(__name__)

_START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """What to serve, and where."""

    roots: Sequence[str]
    listen: Sequence[Endpoint] = (Endpoint("127.0.0.1", 9092),)
    advertise: Endpoint | None = None
    """What clients are told, where that is not what it listens to; a port of 0 is the one it listens to."""
    read_only: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    """A broker's configuration under Kafka's keys."""
    force: bool = False
    """Append although other brokers hold replicas."""
    users: Mapping[str, str] | None = None
    """Names and passwords; with them, clients have to authenticate (SASL)."""
    tls: ssl.SSLContext | None = None
    """With it, connections are encrypted."""
    metrics: Endpoint | None = None
    """The address of the metrics for Prometheus."""


@contextlib.asynccontextmanager
async def running(options: BrokerOptions) -> AsyncIterator[Server]:
    """A broker that serves until the block ends; then its roots are closed cleanly."""
    settings = Settings.from_properties(options.properties)
    catalog, store = await asyncio.get_running_loop().run_in_executor(None, _open, options)
    try:
        broker = Broker(
            catalog,
            settings,
            sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots),
        )
        executor = Executor(broker)
        await asyncio.get_running_loop().run_in_executor(None, executor.load)
        broker.topics_deleted = executor.topics_deleted
        broker.verify = executor.verify
        server = Server(
            broker,
            options.listen,
            advertise=options.advertise,
            tls=options.tls,
            executor=executor,
            authenticator=_authenticator(options, settings),
        )
        async with server, _measured(server, options.metrics):
            yield server
    finally:
        if store is not None:
            await asyncio.get_running_loop().run_in_executor(None, store.close)


def _authenticator(options: BrokerOptions, settings: Settings) -> Authenticator | None:
    if options.users is None:
        return None
    wanted = settings.properties.get("sasl.enabled.mechanisms", ",".join(MECHANISMS))
    return Authenticator(options.users, [name.strip() for name in wanted.split(",")])


@contextlib.asynccontextmanager
async def _measured(server: Server, where: Endpoint | None) -> AsyncIterator[None]:
    """Let Prometheus ask while the block runs."""
    if where is None:
        yield
        return
    answering = MetricsServer(server.metrics_text)
    server.metrics_endpoint = await answering.start(where)
    try:
        yield
    finally:
        await answering.stop()


def _open(options: BrokerOptions) -> tuple[Catalog, Store | None]:
    config = broker_config(options.properties)
    if options.read_only:
        return ReadOnlyCatalog(open_store(options.roots, mode="r", config=config)), None
    store = open_store(options.roots, config=config, recover=True, background=True, force=options.force)
    return StoreCatalog(store), store


async def _serve(options: BrokerOptions, ready: Callable[[Server], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        stop.set()
        if heard > 1:
            _logger.warning("stopped at once: the roots were not closed cleanly")
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear)
    async with running(options) as server:
        ready(server)
        await stop.wait()


def serve(options: BrokerOptions, ready: Callable[[Server], None] = lambda server: None) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called when clients can connect."""
    raise_descriptor_limit()
    asyncio.run(_serve(options, ready))


class BrokerThread:
    """A broker in a thread of this process.

    with BrokerThread(BrokerOptions(roots=["/data"], listen=[Endpoint("127.0.0.1", 0)])) as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers})
    """

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="tidelog-broker", daemon=True)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Return when clients can connect; raises what kept it from starting."""
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise LogError("the broker did not start within a minute")
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Stop in order, and return when the roots are closed. Again is harmless."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # its loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    @property
    def server(self) -> Server:
        """The server; its methods belong to its own thread."""
        if self._server is None:
            raise LogError("the broker has not been started")
        return self._server

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect to, as their configuration wants it."""
        return ",".join(map(str, self.server.endpoints))

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with running(self._options) as server:
            self._server = server
            self._ready.set()
            await self._stop.wait()
