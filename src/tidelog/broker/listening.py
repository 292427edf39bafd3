"""Listening: who is let in, before anything is read, and before TLS is agreed upon.

A connection is counted as soon as the system hands it over. So clients that begin a handshake and never end
it take places of the limits as others do, and lose them when their time is over.

The last file descriptors of the process are not given to clients: logs and indexes need them. A process
starts with a low limit on most systems; `raise_descriptor_limit` takes what it may have, as the JVM does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.broker.connection import Connection
from tidelog.broker.limits import Connections
from tidelog.broker.settings import Endpoint

__all__ = ["Listener", "raise_descriptor_limit"]

_logger = logging.getLogger(__name__)

_BACKLOG = 1024
_KEPT_DESCRIPTORS = 1024
_PAUSE_S = 0.1
_TELL_S = 60.0


def raise_descriptor_limit() -> None:
    """Let this process have as many file descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems allow fewer than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _descriptors_for_clients() -> float:
    """Below which number a client's descriptor must be: the system gives out the lowest that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit - min(limit // 4, _KEPT_DESCRIPTORS)


class Listener:
    """Takes connections at one address, which may stand for several."""

    def __init__(
        self,
        connect: Callable[[str], Connection],
        admitted: Connections,
        *,
        tls: ssl.SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._connect = connect
        self._admitted = admitted
        self._tls = tls
        self._handshake_s = handshake_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._told_at = float("-inf")

    async def start(self, wanted: Endpoint) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        bound = await loop.create_server(  # it knows how to bind to all addresses of a name
            asyncio.Protocol, wanted.host or None, wanted.port, start_serving=False
        )
        listening = [one.dup() for one in bound.sockets]
        bound.close()
        for one in listening:
            one.setblocking(False)
            one.listen(_BACKLOG)
            self._run(self._accept(one))
        return int(listening[0].getsockname()[1])

    def stop(self) -> None:
        """Take no more connections, and let go of those that have not agreed upon TLS."""
        for task in list(self._tasks):
            task.cancel()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    client, peer = await loop.sock_accept(listening)
                except OSError as error:
                    self._tell(f"a connection cannot be taken: {error}")
                    await asyncio.sleep(_PAUSE_S)
                    continue
                self._let_in(client, str(peer[0]))
                await asyncio.sleep(0)  # whoever is connected has a turn, however many want to be

    def _let_in(self, client: socket.socket, host: str) -> None:
        if client.fileno() >= _descriptors_for_clients():
            self._tell("a connection was refused: too many files and connections are open")
            client.close()
        elif not self._admitted.admit(host):
            self._tell(f"a connection of {host} was refused: there are too many")
            client.close()
        else:
            self._run(self._greet(client, host))

    async def _greet(self, client: socket.socket, host: str) -> None:
        """Agree upon TLS, if there is to be; then the connection is on its own."""
        connection = self._connect(host)
        timeout = self._handshake_s if self._tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as error:
            _logger.debug("connection of %s closed: %s", host, error)
        finally:
            if connection.transport is None:
                self._admitted.leave(host)

    def _tell(self, what: str) -> None:
        """Log a refusal, but not each of thousands."""
        now = time.monotonic()
        if now - self._told_at > _TELL_S:
            self._told_at = now
            _logger.warning("%s", what)
