"""`tidelog dump` of every kind of file: against kafka-dump-log, and against what stands in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import Answer, dumped, number_in, on_terminal, run
from tests.golden import GOLDEN, golden_partition
from tidelog.storage import LOCAL
from tidelog.storage.checkpoints import read_epoch_checkpoint, read_offset_checkpoint

if TYPE_CHECKING:
    from tests.oracle import Oracle

CLEAN = GOLDEN / "clean"
TXN = CLEAN / "golden-txn-0"
DATA = Path(__file__).with_name("data")
SUFFIXES = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot")


def kafka_dump_log(oracle: Oracle, files: list[Path], *options: str) -> Answer:
    """What kafka-dump-log says of files."""
    command = oracle.programs.command(
        "org.apache.kafka.tools.DumpLogSegments", [*options, "--files", ",".join(map(str, files))]
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def entries(answer: Answer) -> list[str]:
    return [line for line in answer.lines if not line.startswith("Dumping ")]


def test_all_small_files_are_those_of_kafka_dump_log(oracle: Oracle) -> None:
    files = sorted(path for suffix in SUFFIXES for path in CLEAN.glob(f"*/{suffix}"))
    files += sorted((GOLDEN / "legacy").glob("*/*.index"))
    assert len(files) > 100
    ours, theirs = run("dump", *files), kafka_dump_log(oracle, files)
    assert ours.lines == theirs.lines
    # Of a time index that reaches into the middle of a cleaned log both say the same, each in its order.
    told = {line for line in ours.err.splitlines() if "ndexed offset" in line}
    assert told == {line for line in theirs.err.splitlines() if "ndexed offset: " in line}


@pytest.mark.parametrize("option", ["--verify-index-only", "--index-sanity-check"])
def test_checks_of_indexes_are_kafkas(oracle: Oracle, option: str) -> None:
    files = sorted(path for suffix in ("*.index", "*.timeindex") for path in TXN.glob(suffix))
    ours, theirs = run("dump", option, *files), kafka_dump_log(oracle, files, option)
    assert ours.lines == theirs.lines
    assert ours.code == 0
    assert ours.err == ""


@pytest.mark.parametrize(
    ("directory", "option", "name"),
    [
        (CLEAN / "__consumer_offsets-0", "--offsets-decoder", "consumer-offsets"),
        (DATA / "__transaction_state-0", "--transaction-log-decoder", "transaction-state"),
        (CLEAN / "__cluster_metadata-0", "--cluster-metadata-decoder", "cluster-metadata"),
    ],
    ids=lambda value: str(value).rpartition("/")[2],
)
def test_decoded_payloads_are_those_of_kafka_dump_log(
    oracle: Oracle, directory: Path, option: str, name: str
) -> None:
    logs = sorted(directory.glob("*.log"))
    if name == "cluster-metadata":
        logs += [CLEAN / "bootstrap.checkpoint"]
    theirs = kafka_dump_log(oracle, logs, option)
    assert run("dump", option, *logs).lines == theirs.lines
    assert run("dump", "--decode", name, "--files", ",".join(map(str, logs))).lines == theirs.lines
    assert len(theirs.lines) > 20
    skipped = kafka_dump_log(oracle, logs, option, "--skip-record-metadata")
    assert run("dump", option, "--skip-record-metadata", *logs).lines == skipped.lines


def test_decoded_json_lines_hold_objects() -> None:
    (log,) = sorted((CLEAN / "__consumer_offsets-0").glob("*.log"))
    records = [json.loads(line) for line in run("dump", "--json", "--decode", "consumer-offsets", log).lines]
    commits = [record for record in records if record["key"]["type"] == "1"]
    assert commits
    assert all(commit["key"]["data"]["group"] == "golden-group" for commit in commits)
    assert all(isinstance(commit["value"]["data"]["offset"], int) for commit in commits)
    assert [record["offset"] for record in records] == list(range(len(records)))


def test_checkpoints_as_json() -> None:
    path = CLEAN / "replication-offset-checkpoint"
    rows = dumped(run("dump", "--json", path), path)
    expected = read_offset_checkpoint(LOCAL, path)
    assert rows == [
        {"topic": name.topic, "partition": name.partition, "offset": offset}
        for name, offset in expected.items()
    ]
    epochs = CLEAN / "golden-none-0/leader-epoch-checkpoint"
    rows = dumped(run("dump", "--json", epochs), epochs)
    assert rows == [
        {"epoch": entry.epoch, "start_offset": entry.start_offset}
        for entry in read_epoch_checkpoint(LOCAL, epochs)
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("log-start-offset-checkpoint", "topic: golden-trimmed partition: 0 offset: 333"),
        ("cleaner-offset-checkpoint", "topic: golden-compact partition: 0 offset: 2880"),
        ("golden-none-0/leader-epoch-checkpoint", "epoch: 2 startOffset: 1500"),
        ("golden-none-0/partition.metadata", "version: 0 topicId: 2wJP_tx-TfSXMIcm-Gw0eA"),
        ("meta.properties", "node.id: 1"),
    ],
)
def test_lines_of_text_files(name: str, line: str) -> None:
    answer = run("dump", CLEAN / name)
    assert answer.lines[0] == f"Dumping {CLEAN / name}"
    assert line in answer.lines
    assert answer.code == 0


def test_entries_are_a_table_on_a_terminal() -> None:
    answer = on_terminal("dump", TXN / "00000000000000000000.txnindex")
    text = re.sub(r"\x1b\[[0-9;]*m", "", answer.out).split("\n")
    assert " ".join(text[1].split()) == "VERSION PRODUCER ID FIRST OFFSET LAST OFFSET LAST STABLE OFFSET"
    assert text[2].split() == ["0", "12", "3", "60", "22"]


def test_a_partition_directory_dumps_its_logs() -> None:
    partition = golden_partition("golden-multi-0")
    assert len(partition.logs()) > 1
    assert run("dump", "--json", partition.directory).out == run("dump", "--json", *partition.logs()).out


def test_an_index_that_does_not_fit_its_log(tmp_path: Path) -> None:
    copy = shutil.copytree(TXN, tmp_path / "golden-txn-0")
    index = copy / "00000000000000000000.index"
    data = bytearray(index.read_bytes())
    data[7] ^= 1  # the position of the first entry
    index.write_bytes(data)
    answer = run("dump", "--verify-index-only", index)
    assert answer.code == 1
    assert f"Mismatches in :{index}" in answer.err
    assert "  Index offset: 16, log offset: none at this position" in answer.err
    assert f"{index} has 1 entries that do not fit its log: rebuild it with tidelog reindex" in answer.err
    times = copy / "00000000000000000000.timeindex"
    data = bytearray(times.read_bytes())
    data[7] ^= 1
    times.write_bytes(data)
    answer = run("dump", times)
    assert answer.code == 1
    assert f"Found timestamp mismatch in :{times}" in answer.err


def test_a_damaged_checkpoint_and_snapshot(tmp_path: Path) -> None:
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n2\norders 0 5\n")
    answer = run("dump", checkpoint, CLEAN / "meta.properties")
    assert answer.code == 1
    assert "announces 2 entries, but 1 follow" in answer.err
    assert "node.id: 1" in answer.lines  # the next file is shown
    snapshot = tmp_path / "00000000000000000190.snapshot"
    snapshot.write_bytes((TXN / snapshot.name).read_bytes()[:-1])
    answer = run("dump", snapshot)
    assert answer.code == 1
    assert "checksum" in answer.err


def test_an_index_without_its_log_is_shown(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes((TXN / index.name).read_bytes())
    answer = run("dump", index)
    assert answer.code == 0
    assert "offset: 16 position: 522" in answer.lines
    assert "is not there" in answer.err


def test_a_preallocated_index_is_no_damage(tmp_path: Path) -> None:
    copy = shutil.copytree(TXN, tmp_path / "golden-txn-0")
    index, times = copy / "00000000000000000000.index", copy / "00000000000000000190.timeindex"
    with index.open("r+b") as file:
        file.truncate(1 << 16)
    times.write_bytes(bytes(12 * 1000))
    answer = run("dump", index, times)
    assert answer.code == 0
    assert entries(answer)[:-1] == entries(run("dump", TXN / index.name))
    assert f"{times} is preallocated and has no entries yet" in answer.err


def test_max_bytes_cuts_between_batches() -> None:
    log = golden_partition("golden-none-0").logs()[0]
    whole = run("dump", log).lines
    second = number_in(whole[3], "position")
    for limit in (second, second + 1, second + 70):
        answer = run("dump", "--max-bytes", str(limit), log)
        assert answer.code == 0, answer.err
        assert answer.lines == whole[:3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--decode", "protobuf"), "--decode protobuf: choose from string, json, avro"),
        (("--decode", "avro"), "add --avro-schema FILE"),
        (("--decode", "string", "--avro-schema", "x"), "--avro-schema is for --decode avro"),
        (("--decode", "json", "--offsets-decoder"), "choose one decoder"),
    ],
)
def test_decoders_that_cannot_be(options: tuple[str, ...], words: str) -> None:
    answer = run("dump", *options, golden_partition("golden-none-0").logs()[0])
    assert answer.code == 2
    assert words in " ".join(answer.err.split())
    assert answer.out == ""
