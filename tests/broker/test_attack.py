"""Clients that die or do not read, and a broker that is killed: what was acknowledged stays, others go on."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.asking import frame_of, request
from tests.broker.sockets import asked, connected
from tests.oracle import Oracle
from tests.ports import free_port
from tests.waiting import PATIENCE_S, wait_until
from tidelog.testing.brokers import TestBroker, start_broker

QUICK = {
    "group.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.heartbeat.interval.ms": 500,
}


def read_all(where: str, topic: str, partition: int = 0, **config: Any) -> list[tuple[int, bytes]]:
    """Offsets and values of a partition, from the beginning to the end as the isolation level has it."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": where, "group.id": "reader", "enable.partition.eof": True, **config}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            found.append((message.offset(), message.value()))
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            consumer.close()
            return found
    raise AssertionError("the end was not reached")


def test_a_client_that_dies_in_a_transaction_holds_others_up_only_until_its_timeout(
    kafka_broker: TestBroker,
) -> None:
    where = kafka_broker.bootstrap_servers
    dead = confluent_kafka.Producer(
        {"bootstrap.servers": where, "transactional.id": "dead", "transaction.timeout.ms": 1500}
    )
    dead.init_transactions(PATIENCE_S)
    begin = time.monotonic()
    dead.begin_transaction()
    dead.produce("t", b"never")
    dead.flush(PATIENCE_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": where})
    producer.produce("t", b"after")
    assert producer.flush(PATIENCE_S) == 0
    committed = {"isolation.level": "read_committed"}
    held_up = read_all(where, "t", **committed)
    assert held_up == [] or time.monotonic() - begin > 1.5
    wait_until(lambda: read_all(where, "t", **committed), "its time-out")
    assert [value for _, value in read_all(where, "t", **committed)] == [b"after"]
    with pytest.raises(KafkaException):
        dead.commit_transaction(PATIENCE_S)


MEMBER = """
import sys
from confluent_kafka import Consumer, KafkaException
where, protocol, config = sys.argv[1], sys.argv[2], {}
if protocol == "classic":
    config = {"session.timeout.ms": 4000, "heartbeat.interval.ms": 500}
consumer = Consumer({"bootstrap.servers": where, "group.id": "g", "group.protocol": protocol,
                     "auto.offset.reset": "earliest", **config})
consumer.subscribe(["t"])
while True:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        print(message.partition(), message.offset(), flush=True)
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException:
            pass  # the partition has moved: its next owner reads the message again
"""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_crash_lose_their_partitions_to_others(tmp_path: Path, protocol: str) -> None:
    with start_broker(tmp_path, QUICK) as broker, ExitStack() as stack:
        where = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": where})
        for made in admin.create_topics([NewTopic("t", 4)]).values():
            made.result(PATIENCE_S)
        producer = confluent_kafka.Producer({"bootstrap.servers": where})

        def send(count: int) -> None:
            for n in range(count):
                producer.produce("t", b"v", partition=n % 4)
            assert producer.flush(PATIENCE_S) == 0

        def start(name: str) -> tuple[subprocess.Popen[str], Path]:
            out = tmp_path / name
            command = [sys.executable, "-c", MEMBER, where, protocol]
            process = subprocess.Popen(command, stdout=stack.enter_context(out.open("w")), text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process, out

        members = [start(f"member-{n}") for n in range(2)]

        def seen() -> Counter[tuple[int, int]]:
            lines = (line.split() for _, out in members for line in out.read_text().splitlines())
            return Counter((int(partition), int(offset)) for partition, offset in lines)

        def await_count(count: int) -> None:
            wait_until(lambda: len(seen()) >= count, f"reading of {count}")

        send(40)
        await_count(40)
        for process, _ in members:
            process.kill()
        members.append(start("heir"))
        send(40)
        await_count(80)
        again = sum(count - 1 for count in seen().values())
        assert again < 20  # what was read and not committed when they died, or when partitions moved
        assert set(seen()) == {(partition, offset) for partition in range(4) for offset in range(20)}


@pytest.mark.slow
def test_clients_that_do_not_read_cost_little_and_stop_nobody(tmp_path: Path) -> None:
    with start_broker(tmp_path, subprocess=True) as broker:
        where = broker.bootstrap_servers
        producer = confluent_kafka.Producer({"bootstrap.servers": where})
        for _ in range(64):
            producer.produce("t", os.urandom(500_000))
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        assert broker.process is not None
        before = resident_bytes(broker.process.pid)
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 32 << 20}
        topics = [{"topic": "t", "partitions": [partition]}]
        fetch = request("Fetch", 11, max_wait=0, min_bytes=1, max_bytes=32 << 20, topics=topics)
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(connected(broker)).sendall(frame_of(fetch) * 3)
            with connected(broker) as client:
                for _ in range(20):
                    assert asked(client, request("ApiVersions", 3)).error_code == 0
            assert resident_bytes(broker.process.pid) - before < 200 << 20
        producer.produce("t", b"last")
        assert producer.flush(PATIENCE_S) == 0


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own: pages of files that it maps do not count."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


def test_half_requests_of_many_clients(kafka_broker: TestBroker) -> None:
    frame = frame_of(request("Metadata", 12, topics=None))
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(kafka_broker)) for _ in range(100)]
        for number, client in enumerate(clients):
            client.sendall(frame[: 1 + number % (len(frame) - 1)])
        with connected(kafka_broker) as client:
            assert asked(client, request("ApiVersions", 3)).error_code == 0
        for number, client in enumerate(clients):
            client.sendall(frame[1 + number % (len(frame) - 1) :])
        for client in clients:
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            assert len(client.recv(size, socket.MSG_WAITALL)) == size


@pytest.mark.kafka_broker(config={"auto.create.topics.enable": "false"})  # or the producer makes it again
def test_topics_are_deleted_and_made_again_under_producers(kafka_broker: TestBroker) -> None:
    where = kafka_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": where})
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": where,
            "linger.ms": 0,
            "message.timeout.ms": 20_000,
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    told: list[Any] = []
    count = 0
    for _ in range(10):
        for made in admin.create_topics([NewTopic("t", 1)]).values():
            made.result(PATIENCE_S)
        for _ in range(30):
            producer.produce("t", b"v%d" % count, on_delivery=lambda error, _: told.append(error))
            producer.poll(0.001)
            count += 1
        for deleted in admin.delete_topics(["t"]).values():
            deleted.result(PATIENCE_S)
    for made in admin.create_topics([NewTopic("t", 1)]).values():
        made.result(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert len(told) == count
    assert any(error is None for error in told)
    last = confluent_kafka.Producer({"bootstrap.servers": where})
    last.produce("t", b"last")
    assert last.flush(PATIENCE_S) == 0
    found = read_all(where, "t")
    assert [offset for offset, _ in found] == list(range(len(found)))
    assert found[-1][1] == b"last"
    names = {path.name for path in kafka_broker.root.iterdir() if not path.name.endswith("-delete")}
    assert "t-0" in names


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.soak)]
)
def test_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path, rounds: int) -> None:
    """Idempotent and transactional producers, and a group's commits, over kills of the broker.

    The clients live on: what they send again after a kill is there once. Offsets go on without gaps.
    """
    port = free_port()
    where = f"127.0.0.1:{port}"
    config = {"log.flush.interval.messages": 1, "group.min.session.timeout.ms": 1000}
    quiet = {"bootstrap.servers": where, "log_level": 0, "reconnect.backoff.max.ms": 200}
    plain = confluent_kafka.Producer(
        {**quiet, "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 120_000}
    )
    consumer = confluent_kafka.Consumer({**quiet, "group.id": "g", "enable.auto.commit": False})
    acknowledged: dict[int, bytes] = {}
    failed: list[Any] = []
    transactions: list[bytes] = []
    committed = sent = 0

    def note(error: Any, message: Any) -> None:
        if error is None:
            acknowledged[message.offset()] = message.value()
        else:
            failed.append(error)

    for number in range(rounds):
        with start_broker(tmp_path, config, subprocess=True, port=port) as broker:
            assert broker.process is not None
            end = time.monotonic() + 2.5
            transactional = confluent_kafka.Producer({**quiet, "transactional.id": "x"})
            transactional.init_transactions(PATIENCE_S)
            begun, before, done = 0, len(acknowledged), len(transactions)
            while time.monotonic() < end or len(acknowledged) == before or len(transactions) == done:
                assert time.monotonic() < end + PATIENCE_S
                for _ in range(20):
                    plain.produce("t", b"%d" % sent, partition=0, on_delivery=note)
                    sent += 1
                plain.poll(0.005)
                transactional.begin_transaction()
                for part in range(2):
                    transactional.produce("x", b"%d-%d-%d" % (number, begun, part), partition=0)
                transactional.commit_transaction(PATIENCE_S)
                transactions += [b"%d-%d-%d" % (number, begun, part) for part in range(2)]
                begun += 1
                consumer.commit(offsets=[TopicPartition("t", 0, len(acknowledged))], asynchronous=False)
                committed = len(acknowledged)
            for _ in range(50):  # on their way when it is killed
                plain.produce("t", b"%d" % sent, partition=0, on_delivery=note)
                sent += 1
            transactional.begin_transaction()
            transactional.produce("x", b"open-%d" % number, partition=0)
            os.kill(broker.process.pid, signal.SIGKILL)
            broker.process.wait(PATIENCE_S)
    with start_broker(tmp_path, config, port=port):
        assert plain.flush(PATIENCE_S) == 0
        assert not failed
        found = read_all(where, "t")
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert [value for _, value in found] == [b"%d" % n for n in range(sent)]
        assert all(found[offset][1] == value for offset, value in acknowledged.items() if offset >= 0)
        heir = confluent_kafka.Producer({**quiet, "transactional.id": "x"})
        heir.init_transactions(PATIENCE_S)
        kept = [value for _, value in read_all(where, "x", **{"isolation.level": "read_committed"})]
        assert kept == transactions
        (offset,) = consumer.committed([TopicPartition("t", 0)], PATIENCE_S)
        assert offset.offset == committed
    consumer.close()


def test_a_transaction_goes_on_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    where = f"127.0.0.1:{port}"
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": where, "log_level": 0, "transactional.id": "x", "reconnect.backoff.max.ms": 200}
    )
    committed = {"isolation.level": "read_committed"}
    with start_broker(tmp_path, port=port):
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("t", b"before")
        assert producer.flush(PATIENCE_S) == 0
    with start_broker(tmp_path, port=port):
        assert read_all(where, "t", **committed) == []
        producer.produce("t", b"after")
        producer.commit_transaction(PATIENCE_S)
        assert [value for _, value in read_all(where, "t", **committed)] == [b"before", b"after"]
        producer.begin_transaction()
        producer.produce("t", b"next")
        producer.commit_transaction(PATIENCE_S)
        assert [value for _, value in read_all(where, "t", **committed)] == [b"before", b"after", b"next"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_go_on_after_a_restart(tmp_path: Path, protocol: str) -> None:
    port = free_port()
    quiet = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, "reconnect.backoff.max.ms": 200}
    config = {"group.id": "g", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**quiet, **config})
    producer = confluent_kafka.Producer(quiet)
    seen: list[bytes] = []

    def reads(turn: int) -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(message.value())
        return len(seen) > turn

    def commits() -> bool:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:  # it has to join again
            return False
        return True

    for turn in range(3):
        with start_broker(tmp_path, QUICK, port=port):
            producer.produce("t", b"%d" % turn)
            assert producer.flush(PATIENCE_S) == 0
            if not turn:
                consumer.subscribe(["t"])
            wait_until(lambda turn=turn: reads(turn) and commits(), "reading and committing")
    with start_broker(tmp_path, QUICK, port=port):
        (committed,) = consumer.committed([TopicPartition("t", 0)], PATIENCE_S)
        consumer.close()
    assert sorted(set(seen)) == [b"0", b"1", b"2"]
    assert committed.offset == 3


@pytest.mark.slow
def test_kills_while_topics_come_and_go(tmp_path: Path) -> None:
    """The broker starts after every kill; a topic is there in whole or not at all, and takes records."""
    settings = {"auto.create.topics.enable": "false"}  # or the producer would make the deleted topic again
    for turn in range(4):
        with start_broker(tmp_path, settings, subprocess=True) as broker:
            assert broker.process is not None
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for name, topic in admin.list_topics(timeout=PATIENCE_S).topics.items():
                assert len(topic.partitions) == 3, name
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
            )
            for made in admin.create_topics([NewTopic(f"kept-{turn}", 3)]).values():
                made.result(PATIENCE_S)
            for n in range(5):
                for made in admin.create_topics([NewTopic("t", 3)]).values():
                    made.result(PATIENCE_S)
                producer.produce("t", b"v", partition=n % 3)
                producer.poll(0.01)
                for deleted in admin.delete_topics(["t"]).values():
                    deleted.result(PATIENCE_S)
            under_way = [admin.create_topics([NewTopic(f"late-{turn}-{n}", 3)]) for n in range(20)]
            time.sleep(0.02 * turn)
            os.kill(broker.process.pid, signal.SIGKILL)
            broker.process.wait(PATIENCE_S)
            del under_way
    with start_broker(tmp_path, settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        names = set(admin.list_topics(timeout=PATIENCE_S).topics)
        assert {f"kept-{turn}" for turn in range(4)} <= names
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        for name in names:
            for partition in range(3):
                producer.produce(name, b"v", partition=partition)
        assert producer.flush(PATIENCE_S) == 0


@pytest.mark.slow
def test_a_stock_broker_takes_over_from_a_killed_one_and_back(tmp_path: Path, oracle: Oracle) -> None:
    """Neither of them is stopped in order; each leaves a transaction open and a group's offset."""
    root = tmp_path / "root"
    values = [b"%d" % n for n in range(200)]
    with start_broker(root, {"log.flush.interval.messages": 1}, subprocess=True) as broker:
        where = broker.bootstrap_servers
        producer = confluent_kafka.Producer({"bootstrap.servers": where, "log_level": 0})
        for value in values:
            producer.produce("t", value)
        assert producer.flush(PATIENCE_S) == 0
        values += take_a_turn(where, b"first", 77)
        assert broker.process is not None
        os.kill(broker.process.pid, signal.SIGKILL)
        broker.process.wait(PATIENCE_S)
    with oracle.broker(root) as stock:
        check_turn(stock.address, values, 77)
        values += take_a_turn(stock.address, b"second", 99)
        stock.kill()
    with start_broker(root) as broker:
        check_turn(broker.bootstrap_servers, values, 99)
        values += take_a_turn(broker.bootstrap_servers, b"third", 111)
        check_turn(broker.bootstrap_servers, values, 111)


def take_a_turn(where: str, name: bytes, offset: int) -> list[bytes]:
    """Commit a transaction and an offset, and leave a transaction open; what was committed."""
    quiet = {"bootstrap.servers": where, "log_level": 0}
    producer = confluent_kafka.Producer({**quiet, "transactional.id": "x"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", name)
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", name + b" is open")
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer({**quiet, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    return [name]


def check_turn(where: str, values: list[bytes], offset: int) -> None:
    """What was committed is there, the group's offset too, and a transaction that is open at the end."""
    everything = [value for _, value in read_all(where, "t", **{"isolation.level": "read_uncommitted"})]
    assert [value for value in everything if not value.endswith(b"open")] == values
    assert everything[-1] == values[-1] + b" is open"
    assert [value for _, value in read_all(where, "t", **{"isolation.level": "read_committed"})] == values
    consumer = confluent_kafka.Consumer({"bootstrap.servers": where, "log_level": 0, "group.id": "g"})
    (committed,) = consumer.committed([TopicPartition("t", 0)], PATIENCE_S)
    assert committed.offset == offset
