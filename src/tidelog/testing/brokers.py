"""A Kafka broker for tests: a free port of the loopback, a root of its own, up in a fraction of a second.

    with start_broker(tmp_path) as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers})

It runs in a thread of this process, or with `subprocess=True` in a process of its own, which can be killed.
What makes tests slow is off: a new group does not wait for more members, and its topics have few partitions.
"""

from __future__ import annotations

import json
import signal
import subprocess as processes
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import LogError

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["TestBroker", "start_broker"]

_FOR_TESTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_STOP_S = 30
_RUN = "from tidelog.cli.main import main; main()"


@dataclass(slots=True)
class TestBroker:
    """A broker that runs."""

    __test__ = False  # pytest takes it for a test otherwise

    bootstrap_servers: str
    """Where clients connect to, as their configuration wants it."""
    root: Path
    """Where its logs are."""
    process: processes.Popen[str] | None = None
    """Its process, where it has one of its own."""


@contextmanager
def start_broker(
    root: StrPath, config: Mapping[str, object] | None = None, *, subprocess: bool = False, port: int = 0
) -> Iterator[TestBroker]:
    """A broker on a root until the block ends; `config` is keys of `server.properties`."""
    properties = _FOR_TESTS | {key: str(value) for key, value in (config or {}).items()}
    runs = _in_process(root, properties, port) if subprocess else _in_thread(root, properties, port)
    with runs as broker:
        yield broker


@contextmanager
def _in_thread(root: StrPath, properties: Mapping[str, str], port: int) -> Iterator[TestBroker]:
    from tidelog.broker.running import BrokerOptions, BrokerThread
    from tidelog.broker.settings import Endpoint

    options = BrokerOptions(
        roots=[str(root)], listen=[Endpoint("127.0.0.1", port)], properties=dict(properties)
    )
    with BrokerThread(options) as thread:
        yield TestBroker(thread.bootstrap_servers, Path(root))


@contextmanager
def _in_process(root: StrPath, properties: Mapping[str, str], port: int) -> Iterator[TestBroker]:
    settings = [word for key, value in properties.items() for word in ("--config", f"{key}={value}")]
    command = ["serve", "--listen", f"127.0.0.1:{port}", "--json", *settings, str(root)]
    process = processes.Popen([sys.executable, "-c", _RUN, *command], stdout=processes.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        if not line:
            raise LogError(f"the broker did not start: it ended with {process.wait(_STOP_S)}")
        yield TestBroker(str(json.loads(line)["listening"]), Path(root), process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()
            process.wait()
