"""The oracle itself: it says of the golden data what Kafka said when that was made."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.golden import GOLDEN, golden_partition, golden_partitions
from tests.oracle import KafkaThrewError, Oracle, OracleError, OracleUnavailableError
from tests.oracle.jars import Kafka, Programs

ROOT = Path(__file__).parents[2]
PARTITIONS = golden_partitions()


def test_decode_equals_what_kafka_said(oracle: Oracle) -> None:
    logs = [log for partition in PARTITIONS for log in partition.logs()]
    expected = [record for partition in PARTITIONS for record in partition.records()]
    assert oracle.decode(*logs) == expected


def test_decode_raises_on_a_flipped_bit(oracle: Oracle, tmp_path: Path) -> None:
    data = bytearray(golden_partition("golden-zstd-0").logs()[0].read_bytes())
    data[200] ^= 1
    with pytest.raises(KafkaThrewError, match="corrupt") as refused:
        oracle.decode_bytes(data)
    assert refused.value.exception.endswith("CorruptRecordException")


@pytest.mark.parametrize("name", ["golden-txn-0", "golden-trimmed-0", "golden-compact-0", "legacy-v1-lz4-0"])
def test_lookups_equal_what_kafka_said(oracle: Oracle, name: str) -> None:
    partition = golden_partition(name)
    before = _content(partition.directory)
    expected = partition.lookups()
    answers = oracle.lookups(
        partition.directory,
        offsets=[line["offset"] for line in expected if "offset" in line],
        timestamps=[line["timestamp"] for line in expected if "timestamp" in line],
        log_start=partition.log_start,
        recovery_point=expected[0]["log_end_offset"],
    )
    assert answers == expected
    assert _content(partition.directory) == before, "the golden directory itself was opened"


def test_epochs_are_answered(oracle: Oracle) -> None:
    partition = golden_partition("golden-none-0")
    answers = oracle.lookups(partition.directory, epochs=[0, 1, 2, 4, 9], committed_from=())
    ends = {line["epoch"]: line["end"] for line in answers if "epoch" in line}
    assert ends == {
        0: {"epoch": 0, "offset": 1500},
        1: {"epoch": 0, "offset": 1500},
        2: {"epoch": 2, "offset": 1560},
        4: None,  # started at the log end: dropped when the log was opened
        9: None,
    }


def test_recover_rebuilds_what_the_broker_wrote(oracle: Oracle, tmp_path: Path) -> None:
    partition = golden_partition("golden-txn-0")
    rebuilt = oracle.recover(partition.directory, tmp_path)
    for file in partition.directory.iterdir():
        if file.suffix in {".log", ".index", ".timeindex", ".txnindex"}:
            assert (rebuilt / file.name).read_bytes() == file.read_bytes(), file.name


def test_write_log_is_made_from_the_seed(oracle: Oracle, tmp_path: Path) -> None:
    kinds = ("plain", "idempotent", "transactional", "horizon", "kraft")
    answers = [
        oracle.write_log(tmp_path / where / "made-0", seed=5, batches=300, kinds=kinds)
        for where in ("a", "b")
    ]
    assert answers[0] == answers[1]
    assert _content(tmp_path / "a") == _content(tmp_path / "b")
    records = oracle.decode(*sorted((tmp_path / "a/made-0").glob("*.log")))
    assert [record["offset"] for record in records] == list(range(answers[0]["log_end_offset"]))
    assert {record["codec"] for record in records} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {record["timestamp_type"] for record in records} == {"CreateTime"}
    assert any(record["headers"] for record in records)
    assert any(record["key"] is None for record in records)
    control = {base64.b64decode(record["key"]) for record in records if record["control"]}
    assert {int.from_bytes(key[2:4]) for key in control} == {0, 1, 2, 3, 4, 5, 6}
    assert answers[0]["segments"] > 1
    assert max(record["leader_epoch"] for record in records) == answers[0]["leader_epoch"] > 0


def test_write_legacy_makes_every_format_and_codec(oracle: Oracle, tmp_path: Path) -> None:
    directories = oracle.write_legacy(tmp_path, seed=2)
    assert len(directories) == 8
    records = oracle.decode(*(log for directory in directories for log in sorted(directory.glob("*.log"))))
    assert {(record["magic"], record["codec"]) for record in records} == {
        (magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")
    }
    types = {record["timestamp_type"] for record in records}
    assert types == {"NoTimestampType", "CreateTime", "LogAppendTime"}


@pytest.mark.slow
def test_broker_adopts_a_directory_and_serves_it(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    partition = golden_partition("golden-none-0")
    shutil.copytree(partition.directory, root / partition.name)
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(GOLDEN / "clean" / name, root)
    expected = partition.records()
    with oracle.broker(root, adopt=True) as broker:
        consumed = _consume(broker.address, "golden-none", len(expected))
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        producer.produce("golden-none", b"one more", b"key")
        assert producer.flush(30) == 0
    assert broker.process.returncode is not None
    assert [(record["offset"], record["value"]) for record in expected] == consumed
    assert (root / ".kafka_cleanshutdown").exists(), "the broker was not stopped in order"
    appended = oracle.decode(*sorted((root / partition.name).glob("*.log")))[len(expected) :]
    assert [record["value"] for record in appended] == [base64.b64encode(b"one more").decode()]


@pytest.mark.slow
def test_broker_formats_an_empty_root_and_can_be_killed(oracle: Oracle, tmp_path: Path) -> None:
    with oracle.broker(tmp_path / "root") as broker:
        broker.kill()
    assert (tmp_path / "root/meta.properties").exists()
    assert not (tmp_path / "root/.kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_broker_does_not_outlive_the_process_that_started_it(oracle: Oracle, tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from tests.oracle import Oracle\n"
        "with Oracle.obtain().broker(sys.argv[1]) as broker:\n"
        "    print(broker.process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "root")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        broker = Path("/proc", starter.stdout.readline().strip())
        assert broker.is_dir()
        starter.kill()
    deadline = time.monotonic() + 60
    while broker.is_dir() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not broker.is_dir()


def test_questions_share_a_process_and_survive_its_end(oracle: Oracle, tmp_path: Path) -> None:
    programs = Programs(oracle.programs.classpath)
    empty = {"files": []}
    assert programs.ask("tidelog.oracle.Decode", empty) == []
    process = programs.running._process
    assert process is not None
    with pytest.raises(KafkaThrewError, match="nowhere"):
        programs.ask("tidelog.oracle.Decode", {"files": [str(tmp_path / "nowhere")]})
    assert programs.running._process is process
    with pytest.raises(OracleError, match="ended without an answer"):
        programs.ask("tidelog.oracle.NoSuchProgram", empty)
    assert process.poll() is not None
    assert programs.ask("tidelog.oracle.Decode", empty) == []
    process = programs.running._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # a signal is no stop yet: a thread could still answer
    with pytest.raises(OracleError, match="took too long"):
        programs.ask("tidelog.oracle.Decode", empty, limit_s=0.1)
    programs.running.close()
    assert programs.running._process is None


def test_two_threads_fill_the_cache_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    _fake_maven(
        tmp_path / "bin",
        f'echo called >> {calls}; sleep 0.5; for arg; do case "$arg" in -DoutputDirectory=*) '
        'touch "${arg#-DoutputDirectory=}/kafka-storage-0.jar";; esac; done',
        monkeypatch,
    )
    monkeypatch.setenv("TIDELOG_ORACLE_CACHE", str(tmp_path / "cache"))
    got: list[Kafka] = []
    threads = [threading.Thread(target=lambda: got.append(Kafka.obtain())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3
    assert calls.read_text().count("called") == 1


def test_a_failed_download_leaves_no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_maven(tmp_path / "bin", "echo repository out of reach; exit 1", monkeypatch)
    monkeypatch.setenv("TIDELOG_ORACLE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(OracleUnavailableError, match="repository out of reach"):
        Kafka.obtain()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]


@pytest.mark.parametrize(("required", "outcome"), [("0", "1 skipped"), ("1", "1 error")])
def test_without_java_tests_skip_or_fail(tmp_path: Path, required: str, outcome: str) -> None:
    env = {"PATH": str(tmp_path), "TIDELOG_REQUIRE_ORACLE": required, "TIDELOG_ORACLE_CACHE": str(tmp_path)}
    this = f"{__file__}::test_epochs_are_answered"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", this]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, env=env, cwd=root, capture_output=True, text=True, check=False, timeout=120
    )
    assert outcome in done.stdout
    assert "java is not on the PATH" in done.stdout


def _consume(address: str, topic: str, count: int) -> list[tuple[int | None, str | None]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=60)
        return [(message.offset(), _base64(message.value())) for message in messages]
    finally:
        consumer.close()


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _fake_maven(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir()
    for name, text in (("mvn", script), ("java", "exit 1"), ("javac", "exit 1")):
        path = directory / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


def _content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
