"""Starting and stopping: signals, kills, snapshots that are only read, several roots."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import tidelog
from tests.broker.clients import values_of
from tests.golden import GOLDEN
from tests.mapped import resident_bytes
from tests.waiting import PATIENCE_S
from tidelog.testing.brokers import start_broker

RUN = "from tidelog.cli.main import main; main()"


@contextmanager
def served(*words: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", RUN, "serve", "--json", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *map(str, words)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"it ended with {process.wait(PATIENCE_S)}"
        yield process, json.loads(line)["listening"]
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def produce(where: str, count: int, topic: str = "t") -> list[int]:
    """Produce one record after the other; the offsets that were acknowledged."""
    producer = confluent_kafka.Producer({"bootstrap.servers": where, "linger.ms": 0})
    acknowledged: list[int] = []
    for n in range(count):
        producer.produce(
            topic, b"v%d" % n, on_delivery=lambda error, m: error or acknowledged.append(m.offset())
        )
    assert producer.flush(PATIENCE_S) == 0
    return acknowledged


def read(where: str, topic: str, count: int, partition: int = 0) -> list[bytes]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": where, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(count, 0.5) if message.error() is None]
    consumer.close()
    return values


def test_sigterm_leaves_the_root_in_order(tmp_path: Path) -> None:
    with served(tmp_path) as (process, where):
        assert produce(where, 10) == list(range(10))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with tidelog.open(tmp_path, background=False) as store:
        assert [record.value for record in store.partition("t")] == [b"v%d" % n for n in range(10)]


def test_a_second_signal_stops_at_once_and_the_next_start_recovers(tmp_path: Path) -> None:
    with served(tmp_path) as (process, where):
        produce(where, 10)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        process.wait(PATIENCE_S)
    with start_broker(tmp_path) as broker:
        assert read(broker.bootstrap_servers, "t", 10) == [b"v%d" % n for n in range(10)]


def bytes_of(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }


def test_a_snapshot_is_served_without_changing_a_byte(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(GOLDEN / "clean", root)
    before = bytes_of(root)
    expected = [record.value for record in tidelog.open(root, mode="r").partition("golden-none", 0)]
    with served("--read-only", root) as (process, where):
        assert read(where, "golden-none", len(expected))[: len(expected)] == expected
        assert values_of(where, "new", "golden-none", 5) == expected[:5]
        assert values_of(where, "golden-group", "golden-multi", 1) != []
        producer = confluent_kafka.Producer({"bootstrap.servers": where, "message.timeout.ms": 3000})
        errors: list[Any] = []
        producer.produce("golden-none", b"v", on_delivery=lambda error, _: errors.append(error))
        producer.flush(PATIENCE_S)
        assert errors[0] is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert bytes_of(root) == before


def test_several_roots_and_an_advertised_address(tmp_path: Path) -> None:
    options = ["--advertise", "127.0.0.1", "--config", "num.partitions=4", tmp_path / "a", tmp_path / "b"]
    with served(*options) as (_, where):
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": where})
        produce(where, 1)
        found = admin.list_topics("t", PATIENCE_S)
        assert len(found.topics["t"].partitions) == 4
        assert [str(one).split("/")[0] for one in found.brokers.values()] == [where]
    assert sorted(len(list((tmp_path / name).glob("t-*"))) for name in "ab") == [2, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "log.retention.mss=1"], "log.retention.mss"),
        (["--config", "num.partitions=x"], "num.partitions"),
        (["--listen", "nowhere:99999"], "99999"),
        ([], "name a root"),
    ],
)
def test_what_it_cannot_do_is_told(tmp_path: Path, words: list[str], said: str) -> None:
    command = [sys.executable, "-c", RUN, "serve", *words]
    done = subprocess.run(
        command if not words else [*command, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_fetched_does_not_stay_in_memory(tmp_path: Path) -> None:
    """Records are sent from mapped files, whose pages would count as the broker's memory for ever."""
    with start_broker(tmp_path) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        for n in range(60):
            producer.produce("t", bytes([n]) * 500_000)
        assert producer.flush(PATIENCE_S) == 0
        log = tmp_path / "t-0" / "00000000000000000000.log"
        assert log.stat().st_size > 30_000_000
        for _ in range(2):  # what was given back is read as it was
            assert read(broker.bootstrap_servers, "t", 60) == [bytes([n]) * 500_000 for n in range(60)]
        assert 0 < resident_bytes(log) < 16 << 20


def test_a_start_does_not_import_what_is_for_tests() -> None:
    program = "import sys, tidelog.broker.running; print('hypothesis' in sys.modules); import hypothesis"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.soak)]
)
def test_nothing_acknowledged_is_lost_to_kills(tmp_path: Path, rounds: int) -> None:
    """kill -9 while records are produced, with every record on the disk before it is acknowledged."""
    acknowledged: dict[int, bytes] = {}
    config = {"log.flush.interval.messages": 1}
    for number in range(rounds):
        with start_broker(tmp_path, config, subprocess=True) as broker:
            assert broker.process is not None
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "message.timeout.ms": 2000}
            )

            def note(error: Any, message: Any) -> None:
                if error is None:
                    acknowledged[message.offset()] = message.value()

            begin, n, wanted = time.monotonic(), 0, len(acknowledged) + 25
            while time.monotonic() - begin < 2 or len(acknowledged) < wanted:
                assert time.monotonic() - begin < PATIENCE_S
                producer.produce("t", b"%d-%d" % (number, n), on_delivery=note)
                producer.poll(0.001)
                n += 1
            os.kill(broker.process.pid, signal.SIGKILL)
            broker.process.wait(PATIENCE_S)
            producer.flush(5)
    with start_broker(tmp_path, config) as broker:
        values = read(broker.bootstrap_servers, "t", max(acknowledged) + 1)
    lost = [offset for offset, value in acknowledged.items() if values[offset] != value]
    assert not lost
    assert len(acknowledged) >= 25 * rounds
