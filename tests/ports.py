"""Free ports of the loopback for servers that must be told theirs."""

from __future__ import annotations

import contextlib
import random
import socket

__all__ = ["free_port", "free_ports"]

_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to clients: while a server is down, no client takes its port."""


def free_port() -> int:
    """A port that was free a moment ago."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            if len(found) == count:
                break
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    return found
