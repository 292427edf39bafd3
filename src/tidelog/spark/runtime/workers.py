"""PySpark's Python workers: one that has nothing to do any more ends without a word.

Spark closes the sockets of workers that were idle for a minute. Such a worker finds no task, takes that for
an error and wants to report it to Spark. Through a Unix socket that fails at once, and PySpark's daemon
prints the traceback of a broken pipe for each. So a worker that has run something of tidelog looks, before it
asks for the next task, whether there is one.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

__all__ = ["end_quietly_when_idle"]

_DAEMON = "pyspark.daemon"
_ENDED = 1


def end_quietly_when_idle() -> None:
    """In a worker that PySpark's daemon has forked: wait for the next task here. Elsewhere nothing."""
    daemon: Any = sys.modules["__main__"]
    if getattr(getattr(daemon, "__spec__", None), "name", None) != _DAEMON:
        return
    run_task = daemon.worker

    def run_next_task(sock: socket.socket, authenticated: bool) -> int:
        code: int = run_task(sock, authenticated) if _is_open(sock) else _ENDED
        return code

    daemon.worker = run_next_task


def _is_open(sock: socket.socket) -> bool:
    """Wait until Spark sends something, or hangs up."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
