"""A real single-node Kafka broker (KRaft) on a log directory.

    with oracle.broker(root) as broker:
        Producer({"bootstrap.servers": broker.address}) ...
        broker.stop()        # orderly: leaves .kafka_cleanshutdown; else the end of the block does it
        broker.kill()        # as a power cut would

A root without meta.properties is formatted first. With `adopt=True` a bootstrap.checkpoint is written that
makes the broker take the partition directories in the root as its own. The broker listens on loopback only,
on free ports, and ends with the block, with the test process, or with `stop` and `kill`, whichever comes
first.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.oracle.jars import SHORT_LIVED_JVM, OracleError, Programs
from tests.ports import free_ports

__all__ = ["QUICK_JVM", "STOCK_JVM", "Broker", "run_broker", "run_cluster"]

START_LIMIT_S = 240.0
STOP_LIMIT_S = 60.0

ADOPTED_LEADER_EPOCH = 100
"""Must not be below the newest leader epoch in the logs."""

QUICK_JVM = ("-Xmx700m", *SHORT_LIVED_JVM)
"""Up in little time and memory: for tests. What it does afterwards is slower than a broker is."""

STOCK_JVM = ("-Xms1g", "-Xmx1g")
"""The heap of `kafka-server-start.sh`, and Java's own defaults: for measuring."""

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # test data is old; the default would delete it within seconds
    "auto.create.topics.enable": "false",
    "log.index.size.max.bytes": "1048576",
}


@dataclass(slots=True)
class Broker:
    """A running broker."""

    address: str
    """What clients take as `bootstrap.servers`."""

    root: Path
    log_path: Path
    """The broker's own log; gone after the block."""

    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Asks the broker to shut down in order and waits for it. Nothing happens if it has ended."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise OracleError(f"the broker did not stop when told to:\n{self.tail()}") from None

    def kill(self) -> None:
        """Ends the broker without warning, as kill -9 does."""
        self.process.kill()
        self.process.wait()

    def tail(self, lines: int = 30) -> str:
        """The last lines of the broker's log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def run_broker(
    programs: Programs, root: Path, *, adopt: bool, config: Mapping[str, object], jvm: Sequence[str]
) -> Iterator[Broker]:
    """Starts a broker on `root`, yields it once every partition it knows has a leader, and stops it.

    `config` adds to or overrides the server's settings; `jvm` is `QUICK_JVM` or `STOCK_JVM`.
    Raises `OracleError` with the end of the broker's log when it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="broker-") as scratch:
        port, controller_port = free_ports(2)
        settings = SETTINGS | {
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(root),
        }
        settings |= {key: str(value) for key, value in config.items()}
        properties = Path(scratch, "server.properties")
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        expected = _prepare(programs, root, properties, adopt)
        broker = _launch(programs, properties, port, root, jvm)
        try:
            _await_leaders(broker, expected)
            yield broker
            broker.stop()
        finally:
            _end(broker)


@contextlib.contextmanager
def run_cluster(
    programs: Programs,
    nodes: Sequence[Sequence[Path]],
    *,
    config: Mapping[str, object],
    jvm: Sequence[str] = ("-Xmx400m", *SHORT_LIVED_JVM),
) -> Iterator[list[Broker]]:
    """Starts one broker for each list of disks, all of them controllers, too; yields them when all are up.

    The first disk of each has the metadata log. They are stopped in the order of the list, but the last of
    several is killed: by itself it has no quorum to take leave of.
    """
    ports = free_ports(2 * len(nodes))
    voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports[len(nodes) :], 1))
    brokers: list[Broker] = []
    with tempfile.TemporaryDirectory(prefix="cluster-") as scratch:
        try:
            for node, (disks, port) in enumerate(zip(nodes, ports, strict=False), 1):
                controller = f"CONTROLLER://127.0.0.1:{ports[len(nodes) + node - 1]}"
                settings = SETTINGS | {
                    "node.id": str(node),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},{controller}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    "log.dirs": ",".join(map(str, disks)),
                }
                settings |= {key: str(value) for key, value in config.items()}
                place = Path(scratch, str(node))
                place.mkdir()
                properties = place / "server.properties"
                properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
                _prepare(programs, disks[0], properties, adopt=False)
                brokers.append(_launch(programs, properties, port, disks[0], jvm))
            for broker in brokers:
                _await_leaders(broker, set(), brokers=len(brokers))
            yield brokers
            for broker in brokers[:-1] or brokers:
                broker.stop()
        finally:
            for broker in brokers:
                _end(broker)


def _launch(programs: Programs, properties: Path, port: int, root: Path, jvm: Sequence[str]) -> Broker:
    """Starts the process; its log is beside its properties."""
    log_path = properties.with_name("broker.log")
    options = (*jvm, "-Dorg.slf4j.simpleLogger.defaultLogLevel=info")
    command = programs.command("tidelog.oracle.Broker", [str(properties)], options)
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
    return Broker(f"127.0.0.1:{port}", root, log_path, process)


def _end(broker: Broker) -> None:
    broker.kill()
    if broker.process.stdin is not None:
        broker.process.stdin.close()


def _prepare(programs: Programs, root: Path, properties: Path, adopt: bool) -> set[str]:
    """Formats and adopts as needed; the partitions that the broker must come up with."""
    if not (root / "meta.properties").exists():
        root.mkdir(parents=True, exist_ok=True)
        # The id of a cluster is 16 bytes in base64; any will do.
        tool = ["format", "-t", "dGlkZWxvZy1vcmFjbGUxMg", "-c", str(properties)]
        (done,) = programs.ask("tidelog.oracle.Format", {"arguments": tool})
        if done["status"] != 0:
            raise OracleError(f"the root cannot be formatted:\n{done['said']}")
    if not adopt:
        return set()
    request = {"dir": str(root), "topic_config": {"retention.ms": "-1"}, "leader_epoch": ADOPTED_LEADER_EPOCH}
    adopted = programs.ask("tidelog.oracle.Adopt", request)
    return {line["partition"] for line in adopted}


def _await_leaders(broker: Broker, expected: set[str], brokers: int = 1) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    while True:
        if broker.process.poll() is not None:
            raise OracleError(f"the broker ended with {broker.process.returncode}:\n{broker.tail()}")
        if time.monotonic() > deadline:
            raise OracleError(f"the broker was not ready within {START_LIMIT_S:g} s:\n{broker.tail()}")
        with contextlib.suppress(KafkaException):
            cluster = admin.list_topics(timeout=1.0)
            partitions = {
                f"{name}-{number}": partition.leader >= 0
                for name, topic in cluster.topics.items()
                for number, partition in topic.partitions.items()
            }
            if len(cluster.brokers) >= brokers and expected <= partitions.keys() and all(partitions.values()):
                return
        time.sleep(0.1)
