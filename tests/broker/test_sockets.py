"""What a client may do to a broker on its socket, and what that does to others: nothing."""

from __future__ import annotations

import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from tests.broker.asking import batch, frame_of, request
from tests.broker.sockets import answer, asked, connected, is_closed, still_serves
from tests.waiting import wait_until
from tidelog.broker.limits import Budget
from tidelog.broker.wire.versions import APIS
from tidelog.testing.brokers import TestBroker


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", (1 << 31) - 1),
        struct.pack(">ihhih", 20, 3, 12, 1, 500) + bytes(12),
        struct.pack(">ihhih", 20, 3, 12, 1, -2) + bytes(12),
        struct.pack(">ihhih", 15, 3, 12, 1, -1) + b"\xff" * 5,
        b"\0\0\0\x11" + frame_of(request("Metadata", 12, topics=None))[4:-2],
    ],
)
def test_garbage_ends_its_connection_only(kafka_broker: TestBroker, data: bytes) -> None:
    with connected(kafka_broker) as other, connected(kafka_broker) as client:
        client.sendall(data)
        assert is_closed(client)
        assert asked(other, request("ApiVersions", 3)).error_code == 0


def test_a_length_alone_takes_no_memory_and_half_a_request_harms_nobody(kafka_broker: TestBroker) -> None:
    clients = [connected(kafka_broker) for _ in range(20)]
    open_ones = [client.__enter__() for client in clients]
    for client in open_ones:
        client.sendall(struct.pack(">i", 90 << 20) + b"x" * 1000)
    assert still_serves(kafka_broker)
    for opened in clients:
        opened.__exit__(None, None, None)
    assert still_serves(kafka_broker)


def test_requests_sent_ahead_are_answered_in_order(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as client:
        waiting = request(
            "Fetch",
            4,
            replica_id=-1,
            max_wait=200,
            min_bytes=1,
            topics=[
                {
                    "topic": "t",
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}],
                }
            ],
        )
        asked(client, request("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
        messages = [waiting, request("ApiVersions", 0), request("Metadata", 4, topics=()), waiting]
        client.sendall(b"".join(frame_of(one, number) for number, one in enumerate(messages)))
        answers = [struct.unpack_from(">i", answer(client))[0] for _ in messages]
        assert answers == [0, 1, 2, 3]


def test_one_byte_at_a_time(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame_of(request("ApiVersions", 3), 42):
            client.sendall(bytes([byte]))
        assert struct.unpack_from(">i", answer(client)) == (42,)


def test_unknown_apis_and_versions_are_answered(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as client:
        for key, version in ((18, 88), (1234, 0), (29, 2), (0, 99), (19, 0)):
            body = struct.pack(">hhih", key, version, key, -1)
            client.sendall(struct.pack(">i", len(body)) + body)
            frame = answer(client)
            assert struct.unpack_from(">i", frame) == (key,)
            if key in (18, 1234):
                assert struct.unpack_from(">h", frame, 4) == (35,)


def test_large_requests_and_responses_come_whole(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as client:
        asked(client, request("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
        sent = batch(bytes(900_000))
        part = {"index": 0, "records": sent}
        message = request(
            "Produce", 9, acks=-1, timeout=1000, topic_data=[{"name": "t", "partition_data": [part]}]
        )
        for _ in range(8):
            assert asked(client, message).responses[0].partition_responses[0].error_code == 0
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20}
        fetch = request("Fetch", 12, max_wait=0, min_bytes=1, topics=[{"topic": "t", "partitions": [part]}])
        found = asked(client, fetch).responses[0].partitions[0].records
        assert len(found) == 8 * len(sent)
        assert found[-len(sent) + 21 :] == sent[21:]


@pytest.mark.kafka_broker(config={"auto.create.topics.enable": "false"})
def test_a_request_that_names_millions_ends_its_connection_only(kafka_broker: TestBroker) -> None:
    names = struct.pack(">i", 2_000_000) + b"\0\1t" * 2_000_000
    head = struct.pack(">hhih", 3, 1, 1, -1)
    with connected(kafka_broker) as other, connected(kafka_broker) as client:
        with suppress(ConnectionError):
            client.sendall(struct.pack(">i", len(head) + len(names)) + head + names)
        assert is_closed(client)
        assert asked(other, request("ApiVersions", 3)).error_code == 0
        many = request("Metadata", 1, topics=[{"name": "t"}] * 20_000)
        assert len(asked(other, many).topics) == 20_000


@pytest.mark.kafka_broker(config={"max.connections.per.ip": 3})
def test_connections_of_one_address_are_limited(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as first, connected(kafka_broker), connected(kafka_broker):
        assert asked(first, request("ApiVersions", 3)).error_code == 0
        with connected(kafka_broker) as fourth:
            assert is_closed(fourth)

    def serves_again() -> bool:
        try:
            return still_serves(kafka_broker)
        except ConnectionError:
            return False

    wait_until(serves_again, "a connection in the place of one that has gone")


@pytest.mark.kafka_broker(config={"tidelog.request.read.ms": 200, "connections.max.idle.ms": 1500})
def test_slow_and_idle_connections_are_closed(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as slow:
        slow.sendall(frame_of(request("ApiVersions", 3))[:9])
        assert is_closed(slow)
    with connected(kafka_broker) as idle:
        begin = time.monotonic()
        assert asked(idle, request("ApiVersions", 3)).error_code == 0
        assert is_closed(idle)
        assert time.monotonic() - begin > 1.5


@pytest.mark.kafka_broker(config={"connections.max.idle.ms": 1500})
def test_a_client_that_does_not_read_is_let_go(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as writer:
        asked(writer, request("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
        part = {"index": 0, "records": batch(bytes(900_000))}
        message = request(
            "Produce", 9, acks=-1, timeout=1000, topic_data=[{"name": "t", "partition_data": [part]}]
        )
        for _ in range(20):
            assert asked(writer, message).responses[0].partition_responses[0].error_code == 0
    # How soon a busy machine comes to that nobody knows; a client that is never let go reads it all.
    assert any(is_let_go(kafka_broker, pause_s) for pause_s in (2.5, 10, 60))
    assert still_serves(kafka_broker)


def is_let_go(broker: TestBroker, pause_s: float) -> bool:
    """Whether a client that asks for much and reads nothing for so long is cut off."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20}
    fetch = request("Fetch", 12, max_wait=0, min_bytes=1, topics=[{"topic": "t", "partitions": [wanted]}])
    with connected(broker) as client:
        client.sendall(frame_of(fetch))
        time.sleep(pause_s)
        try:
            answer(client)
        except ConnectionError:
            return True
        return False


@pytest.mark.kafka_broker(config={"queued.max.request.bytes": 1 << 20})
def test_large_requests_wait_for_memory(kafka_broker: TestBroker) -> None:
    with (
        connected(kafka_broker) as first,
        connected(kafka_broker) as second,
        connected(kafka_broker) as third,
    ):
        asked(first, request("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
        part = {"index": 0, "records": batch(bytes(800_000))}
        message = request(
            "Produce", 9, acks=-1, timeout=1000, topic_data=[{"name": "t", "partition_data": [part]}]
        )
        frame = frame_of(message)
        for client in (first, second):  # one of them has the memory, the other one waits for it
            client.sendall(frame[:100_000])
        assert asked(third, request("ApiVersions", 3)).error_code == 0
        with ThreadPoolExecutor(2) as threads:
            assert all(threads.map(lambda client: finished(client, frame[100_000:]), (first, second)))


@pytest.mark.kafka_broker(
    config={"queued.max.request.bytes": 1 << 20, "tidelog.request.read.ms": 10 * 60_000}
)
@pytest.mark.parametrize("beginning", [1000, 80_000])
def test_who_is_slow_keeps_no_memory_that_others_wait_for(kafka_broker: TestBroker, beginning: int) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(connected(kafka_broker))
        asked(first, request("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
        slow = [stack.enter_context(connected(kafka_broker)) for _ in range(5)]
        for client in slow:
            client.sendall(struct.pack(">i", 90 << 20) + bytes(beginning))
        assert asked(first, request("ApiVersions", 3)).error_code == 0
        part = {"index": 0, "records": batch(bytes(800_000))}
        data = [{"name": "t", "partition_data": [part]}]
        for _ in range(3):
            done = asked(first, request("Produce", 9, acks=-1, timeout=1000, topic_data=data))
            assert done.responses[0].partition_responses[0].error_code == 0


def test_the_smallest_that_waits_for_memory_is_next() -> None:
    budget, told = Budget(100), list[int]()

    def take(size: int) -> bool:
        return budget.take(size, lambda: told.append(size))

    assert take(60)
    assert not take(90)
    assert not take(50)
    assert take(40)
    budget.give_back(60)
    assert told == [50]
    budget.give_back(40)
    budget.give_back(50)
    assert told == [50, 90]
    assert not budget.is_short


def finished(client: socket.socket, rest: bytes) -> bytes:
    """Send the rest of a request; the answer."""
    client.sendall(rest)
    return answer(client)


def mutated(source: random.Random, frames: list[bytes]) -> bytes:
    frame = bytearray(source.choice(frames))
    for _ in range(source.randint(1, 6)):
        at = source.randrange(4, len(frame))
        match source.randrange(4):
            case 0:
                frame[at] = source.randrange(256)
            case 1:
                frame[at : at + 4] = source.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"])
            case 2:
                del frame[at : at + source.randint(1, 9)]
            case _:
                frame[at:at] = source.randbytes(source.randint(1, 9))
        if len(frame) < 12:
            frame += bytes(12)
    if source.random() < 0.95:
        frame[:4] = struct.pack(">i", len(frame) - 4)
    return bytes(frame)


def sample_frames() -> list[bytes]:
    """A request of every API in every version, mostly empty, and some that are not."""
    frames = [
        frame_of(request(api.name, version))
        for api in APIS.values()
        for version in range(api.lowest, api.highest + 1)
    ]
    part = {"index": 0, "records": batch(b"a" * 50, b"b")}
    fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    frames += 20 * [
        frame_of(
            request("Produce", 9, acks=-1, timeout=10, topic_data=[{"name": "t", "partition_data": [part]}])
        ),
        frame_of(request("Fetch", 11, min_bytes=0, topics=[{"topic": "t", "partitions": [fetched]}])),
        frame_of(request("JoinGroup", 5, group_id="g", session_timeout=6000, protocol_type="consumer")),
        frame_of(request("CreateTopics", 5, topics=[{"name": "x", "num_partitions": 1}])),
    ]
    return frames


def fuzz(broker: TestBroker, count: int, seed: int) -> None:
    source, frames = random.Random(seed), sample_frames()
    sent = 0
    while sent < count:
        with suppress(ConnectionError, TimeoutError), connected(broker) as client:
            client.settimeout(0.5)
            for _ in range(50):
                sent += 1
                client.sendall(mutated(source, frames))
                if source.random() < 0.1:
                    client.recv(1 << 16)


def test_mutated_frames_harm_nobody(kafka_broker: TestBroker, caplog: pytest.LogCaptureFixture) -> None:
    fuzz(kafka_broker, 1500, 1)
    assert still_serves(kafka_broker)
    assert "has failed" not in caplog.text


@pytest.mark.slow
def test_many_mutated_frames_harm_nobody(kafka_broker: TestBroker, caplog: pytest.LogCaptureFixture) -> None:
    fuzz(kafka_broker, 50_000, 2)
    assert still_serves(kafka_broker)
    assert "a request of" not in caplog.text


@pytest.mark.slow
def test_a_thousand_idle_and_a_hundred_busy_connections(kafka_broker: TestBroker) -> None:
    with connected(kafka_broker) as first:
        asked(first, request("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
    opened = [connected(kafka_broker) for _ in range(1100)]
    clients = [one.__enter__() for one in opened]
    part = {"index": 0, "records": batch(b"x")}
    message = frame_of(
        request("Produce", 9, acks=-1, timeout=10, topic_data=[{"name": "t", "partition_data": [part]}])
    )
    for _ in range(20):
        for client in clients[:100]:
            client.sendall(message)
        for client in clients[:100]:
            answer(client)
    assert all(asked(client, request("ApiVersions", 3)).error_code == 0 for client in clients[::100])
    for one in opened:
        one.__exit__(None, None, None)
