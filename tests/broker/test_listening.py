"""Who is let in: limits of connections and of file descriptors, and handshakes that never end."""

from __future__ import annotations

import logging
import resource
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.asking import batch, request
from tests.broker.certificates import make_certificate
from tests.broker.sockets import asked, connected, is_closed, still_serves
from tests.waiting import PATIENCE_S, wait_until
from tidelog.broker.running import BrokerOptions, BrokerThread
from tidelog.broker.settings import Endpoint
from tidelog.testing.brokers import TestBroker, start_broker

HERE = (Endpoint("127.0.0.1", 0),)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.kafka_broker(subprocess=True)
def test_many_connections_leave_descriptors_for_logs(kafka_broker: TestBroker) -> None:
    assert kafka_broker.process is not None
    pid = kafka_broker.process.pid
    most = descriptors(pid) + 200
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        first = stack.enter_context(connected(kafka_broker))
        asked(first, request("ApiVersions", 3))
        others = [stack.enter_context(connected(kafka_broker)) for _ in range(most)]
        assert is_closed(others[-1])
        assert descriptors(pid) < most
        new = {"name": "t", "num_partitions": 3, "replication_factor": 1}
        made = asked(first, request("CreateTopics", 7, topics=[new], timeout=30_000))
        assert made.topics[0].error_code == 0
        part = {"index": 0, "records": batch(b"v")}
        data = [{"name": "t", "partition_data": [part]}]
        done = asked(first, request("Produce", 9, acks=-1, timeout=30_000, topic_data=data))
        assert done.responses[0].partition_responses[0].error_code == 0
    wait_until(lambda: serves_again(kafka_broker), "connections in the place of those that have gone")


def serves_again(broker: TestBroker) -> bool:
    try:
        return still_serves(broker)
    except ConnectionError:
        return False


STARTING = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from tidelog.testing.brokers import start_broker
with start_broker(sys.argv[1], subprocess=True) as broker:
    print(*resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE))
"""


def test_a_broker_takes_as_many_descriptors_as_it_may_have(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTING, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=2 * PATIENCE_S)
    soft, hard = told.stdout.split()
    assert soft == hard


def tls_broker(directory: Path, **properties: str) -> BrokerThread:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = directory / "server.pem"
    make_certificate(pem)
    tls.load_cert_chain(pem)
    root = str(directory / "root")
    return BrokerThread(BrokerOptions(roots=[root], listen=HERE, tls=tls, properties=properties))


def knock(broker: BrokerThread) -> socket.socket:
    """A connection that begins no handshake."""
    (endpoint,) = broker.server.endpoints
    client = socket.create_connection((endpoint.host, endpoint.port), PATIENCE_S)
    client.settimeout(PATIENCE_S)
    return client


def test_handshakes_that_never_end_take_places_of_the_limit(tmp_path: Path) -> None:
    with tls_broker(tmp_path, **{"max.connections.per.ip": "3"}) as broker, ExitStack() as stack:
        places = [stack.enter_context(knock(broker)) for _ in range(3)]
        assert is_closed(stack.enter_context(knock(broker)))
        places[0].close()
        wait_until(lambda: shakes_hands(broker), "a place of one that has gone")


def test_a_handshake_has_to_end_in_time(tmp_path: Path) -> None:
    with tls_broker(tmp_path, **{"tidelog.request.read.ms": "200"}) as broker:
        with knock(broker) as silent:
            assert is_closed(silent)
        with knock(broker) as garbage:
            garbage.sendall(b"\x16\x03\x01" + bytes(100))
            assert is_closed_after_an_alert(garbage)
        assert shakes_hands(broker)


def is_closed_after_an_alert(client: socket.socket) -> bool:
    try:
        while client.recv(100):
            pass
    except ConnectionError:
        pass
    return True


def shakes_hands(broker: BrokerThread) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with knock(broker) as client, context.wrap_socket(client):
            return True
    except OSError:
        return False


def test_refusals_are_logged_but_not_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "tidelog.broker"),
        start_broker(tmp_path, {"max.connections": 1}) as broker,
        connected(broker) as only,
    ):
        asked(only, request("ApiVersions", 3))
        begin = time.monotonic()
        for _ in range(20):
            with connected(broker) as refused:
                assert is_closed(refused)
        told = [record for record in caplog.records if "was refused" in record.getMessage()]
        assert len(told) == 1 or time.monotonic() - begin > 60
