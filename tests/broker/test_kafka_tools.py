"""Kafka's own console tools and Java clients against this broker, and its disk under a stock broker."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import confluent_kafka
import pytest

from tests.broker.clients import transact, values_of
from tests.oracle.jars import SHORT_LIVED_JVM
from tests.oracle.oracle import Oracle
from tests.waiting import PATIENCE_S
from tidelog.testing.brokers import start_broker

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

TOOL_S = 3 * PATIENCE_S
JVM = ("-Xmx256m", *SHORT_LIVED_JVM)
TOOLS = "org.apache.kafka.tools"


class Tools:
    """Runs Kafka's tools against a broker."""

    def __init__(self, oracle: Oracle, where: str) -> None:
        self._oracle, self._where = oracle, where

    def __call__(self, tool: str, *words: str, said: str | None = None) -> str:
        main = tool if tool.startswith("kafka.") else f"{TOOLS}.{tool}"
        command = self._oracle.programs.command(main, ["--bootstrap-server", self._where, *words], JVM)
        done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=TOOL_S)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


def test_console_tools(oracle: Oracle, tmp_path: Path) -> None:
    with start_broker(tmp_path / "root") as broker:
        run = Tools(oracle, broker.bootstrap_servers)
        topics = ("TopicCommand", "--topic", "orders")
        run(*topics, "--create", "--partitions", "3", "--config", "retention.ms=1000000")
        described = run(*topics, "--describe")
        assert "PartitionCount: 3" in described
        assert "retention.ms=1000000" in described
        configs = ("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", "orders")
        run(*configs, "--alter", "--add-config", "segment.bytes=10485760")
        assert "segment.bytes=10485760" in run(*configs, "--describe")
        run("ConsoleProducer", "--topic", "orders", said="".join(f"v{n}\n" for n in range(100)))
        consumer = ("consumer.ConsoleConsumer", "--topic", "orders", "--timeout-ms", "60000")
        seen = run(*consumer, "--from-beginning", "--max-messages", "100", "--group", "g")
        assert sorted(seen.split()) == sorted(f"v{n}" for n in range(100))
        offsets = dict(line.rsplit(":", 1) for line in run("GetOffsetShell", "--topic", "orders").split())
        assert sum(map(int, offsets.values())) == 100
        groups = "consumer.group.ConsumerGroupCommand"
        assert run(groups, "--list").split() == ["g"]
        lags = [
            line.split()
            for line in run(groups, "--describe", "--group", "g").splitlines()
            if "orders" in line
        ]
        assert [line[5] for line in lags] == ["0", "0", "0"]
        full = int(max(offsets, key=lambda name: int(offsets[name])).rpartition(":")[2])
        wanted = {"partitions": [{"topic": "orders", "partition": full, "offset": 10}], "version": 1}
        (tmp_path / "delete.json").write_text(json.dumps(wanted))
        assert "low_watermark: 10" in run(
            "DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "delete.json")
        )
        reset = run(
            groups, "--reset-offsets", "--group", "g", "--topic", "orders", "--to-earliest", "--execute"
        )
        assert {"orders", str(full), "10"} <= set(reset.split())
        assert f'"logDir":"{tmp_path}/root"' in run("LogDirsCommand", "--describe", "--topic-list", "orders")
        assert "TransactionalId" in run("TransactionsCommand", "list")
        producers = run(
            "TransactionsCommand", "describe-producers", "--topic", "orders", "--partition", str(full)
        )
        assert len(producers.splitlines()) == 2
        run(*topics, "--alter", "--partitions", "5")
        run(groups, "--delete", "--group", "g")
        run(*topics, "--delete")
        assert run("TopicCommand", "--list").split() == ["__consumer_offsets"]


def test_a_stock_broker_goes_on_with_the_directory_and_back(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with start_broker(root) as broker:
        where = broker.bootstrap_servers
        producer = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "mine"})
        producer.init_transactions(PATIENCE_S)
        transact(producer, "t", (b"a", True), (b"b", False), (b"c", True))
        committed = {"isolation.level": "read_committed"}
        assert values_of(where, "g", "t", 2, **committed) == [b"a", b"c"]
    with oracle.broker(root) as stock:
        producer = confluent_kafka.Producer({"bootstrap.servers": stock.address, "transactional.id": "mine"})
        producer.init_transactions(PATIENCE_S)
        transact(producer, "t", (b"d", True))
        assert values_of(stock.address, "h", "t", 3, **committed) == [b"a", b"c", b"d"]
        assert values_of(stock.address, "g", "t", 1, **committed) == [b"d"]
        stock.stop()
    with start_broker(root) as broker:
        where = broker.bootstrap_servers
        producer = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "mine"})
        producer.init_transactions(PATIENCE_S)
        transact(producer, "t", (b"e", True))
        assert values_of(where, "g", "t", 1, **committed) == [b"e"]
        assert values_of(where, "i", "t", 4, **committed) == [b"a", b"c", b"d", b"e"]


def test_java_clients_of_the_new_group_protocol(oracle: Oracle, tmp_path: Path) -> None:
    with start_broker(tmp_path / "root") as broker:
        run = Tools(oracle, broker.bootstrap_servers)
        run("ConsoleProducer", "--topic", "t", said="".join(f"v{n}\n" for n in range(50)))
        words = ("--topic", "t", "--from-beginning", "--max-messages", "50", "--timeout-ms", "60000")
        seen = run(
            "consumer.ConsoleConsumer",
            *words,
            "--group",
            "g",
            "--command-property",
            "group.protocol=consumer",
        )
        assert sorted(seen.split()) == sorted(f"v{n}" for n in range(50))
        described = run("consumer.group.ConsumerGroupCommand", "--describe", "--group", "g", "--state")
        assert "g" in described.split()


def test_perf_tools(oracle: Oracle, tmp_path: Path) -> None:
    with start_broker(tmp_path / "root") as broker:
        where = broker.bootstrap_servers
        run = Tools(oracle, where)
        words = ("--topic", "t", "--num-records", "20000", "--record-size", "100", "--throughput", "-1")
        said = run("ProducerPerformance", *words, "--command-property", "acks=all")
        assert "20000 records sent" in said
        said = run("ConsumerPerformance", "--topic", "t", "--num-records", "20000", "--timeout", "60000")
        assert said.splitlines()[-1].split(", ")[4] == "20000"


SPARK = """
import sys
from pyspark.sql import SparkSession

where, checkpoint, jars = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.range(1000).selectExpr("cast(id as string) key", "cast(id * 2 as string) value")
to = {"kafka.bootstrap.servers": where, "topic": "t"}
rows.write.format("kafka").options(**to).save()
at = {"kafka.bootstrap.servers": where, "subscribe": "t", "startingOffsets": "earliest"}
read = spark.read.format("kafka").options(**at).load().selectExpr("cast(cast(value as string) as long) v")
assert read.agg({"v": "sum"}).first()[0] == 999000, read.count()
stream = spark.readStream.format("kafka").options(**at).load().selectExpr("key", "value")
to = {"kafka.bootstrap.servers": where, "topic": "u", "checkpointLocation": checkpoint}
stream.writeStream.format("kafka").options(**to).trigger(availableNow=True).start().awaitTermination()
again = spark.read.format("kafka").options(**(at | {"subscribe": "u"})).load()
print(again.count())
"""


def test_sparks_own_connector(oracle: Oracle, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from tests.spark.connector import connector_jars, run_script

    jars = connector_jars()
    with start_broker(tmp_path / "root", {"num.partitions": 3}) as broker:
        said = run_script(SPARK, broker.bootstrap_servers, str(tmp_path / "checkpoint"), jars)
    assert said == 1000


def test_kcat(tmp_path: Path) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("kcat is not installed")
    with start_broker(tmp_path / "root") as broker:

        def run(*words: str, said: str = "") -> str:
            command = [kcat, "-b", broker.bootstrap_servers, *words]
            done = subprocess.run(
                command, input=said, capture_output=True, text=True, timeout=TOOL_S, check=True
            )
            return done.stdout

        run("-P", "-t", "t", "-K", ":", said="a:1\nb:2\n")
        assert run("-C", "-t", "t", "-e", "-q", "-f", "%k=%s@%o\n").split() == ["a=1@0", "b=2@1"]
        assert 'topic "t" with 1 partitions' in run("-L")
        assert run("-Q", "-t", "t:0:-1").split() == ["t", "[0]", "offset", "2"]
