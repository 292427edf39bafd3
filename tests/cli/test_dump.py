"""`tidelog dump` of sound files, against what Kafka's reader and kafka-dump-log say of them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import dumped, number_in, on_terminal, run
from tests.cli.reference import record_line
from tests.golden import GOLDEN, GoldenPartition, golden_partition, golden_partitions
from tidelog.records import Header, Record, encode_records

if TYPE_CHECKING:
    from tests.oracle import Oracle

PARTITIONS = pytest.mark.parametrize("partition", golden_partitions(), ids=lambda p: p.name)
BATCH_KEYS = [
    "base_offset",
    "last_offset",
    "count",
    "base_sequence",
    "last_sequence",
    "producer_id",
    "producer_epoch",
    "leader_epoch",
    "transactional",
    "control",
    "delete_horizon_ms",
    "position",
    "timestamp_type",
    "max_timestamp",
    "size",
    "magic",
    "codec",
    "crc",
    "valid",
]
KRAFT_AND_HORIZONS = ("plain", "idempotent", "transactional", "horizon", "kraft")


@PARTITIONS
def test_json_records_are_those_of_kafkas_reader(partition: GoldenPartition) -> None:
    answer = run("dump", "--deep", "--json", *partition.logs())
    assert answer.code == 0, answer.err
    assert answer.err == ""
    got = [json.loads(line) for line in answer.lines]
    expected = partition.records()
    assert got == expected
    assert [list(record) for record in got] == [list(record) for record in expected]
    named = run("dump", "--deep", "--json", "--with-file", *partition.logs())
    assert dumped(named, *partition.logs()) == expected


@PARTITIONS
@pytest.mark.parametrize("option", ["--deep", "--print-data-log"])
def test_record_lines_are_kafkas(partition: GoldenPartition, option: str) -> None:
    answer = run("dump", option, *partition.logs())
    assert answer.code == 0, answer.err
    got = [line for line in answer.lines if line.startswith("|")]
    if partition.name.startswith("__cluster"):
        got = [
            re.sub(r" (LeaderChange:|KRaftVersion|Snapshot\w+|KRaftVoters) \{.*", "", line) for line in got
        ]
    if partition.legacy:
        got = [re.sub(r" isValid: true crc: \d+", "", line) for line in got]
    payloads = option == "--print-data-log"
    assert got == [record_line(record, payloads=payloads) for record in partition.records()]


@PARTITIONS
def test_batches_as_json_add_up_to_the_records(partition: GoldenPartition) -> None:
    answer = run("dump", "--json", *partition.logs())
    assert answer.code == 0, answer.err
    batches = dumped(answer, *partition.logs())
    assert all(list(batch) == BATCH_KEYS for batch in batches)
    assert all(batch["valid"] for batch in batches)
    assert sum(batch["size"] for batch in batches) == sum(log.stat().st_size for log in partition.logs())
    for batch, records in _records_by_batch(batches, partition.records()):
        assert batch["count"] in (len(records), None)
        assert batch["count"] is not None or (batch["magic"] < 2 and batch["codec"] != "none")
        for record in records:
            assert batch["base_offset"] <= record["offset"] <= batch["last_offset"] or batch["magic"] < 2
            for same in (
                "position",
                "magic",
                "codec",
                "leader_epoch",
                "producer_id",
                "transactional",
                "control",
            ):
                assert batch[same] == record[same]


def _records_by_batch(
    batches: list[dict[str, Any]], records: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Batches and their records; both come in the same order, and a batch's records share their position."""
    found = []
    at = 0
    for batch in batches:
        start = at
        while (
            at < len(records)
            and records[at]["position"] == batch["position"]
            and records[at]["offset"] <= batch["last_offset"]
        ):
            at += 1
        found.append((batch, records[start:at]))
    assert at == len(records)
    return found


def test_batch_lines_are_kafkas() -> None:
    log = golden_partition("golden-zstd-0").logs()[0]
    answer = run("dump", log)
    assert answer.lines[:3] == [
        f"Dumping {log}",
        "Log starting offset: 0",
        "baseOffset: 0 lastOffset: 39 count: 40 baseSequence: 0 lastSequence: 39 producerId: 4 "
        "producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: false isControl: false "
        "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000138000 size: 2232 magic: 2 "
        "compresscodec: zstd crc: 2037362661 isvalid: true",
    ]
    old = run("dump", golden_partition("legacy-v1-none-0").logs()[0])
    assert old.lines[2] == (
        "offset: 0 position: 0 CreateTime: 1500000000021 size: 77 magic: 1 compresscodec: none "
        "crc: 1140778326 isvalid: true"
    )


def test_deep_lines_stand_below_their_batch() -> None:
    answer = run("dump", "--deep", golden_partition("golden-none-0").logs()[0])
    batch = ""
    counts: dict[str, int] = {}
    for line in answer.lines[2:]:
        batch = batch if line.startswith("|") else line
        counts[batch] = counts.get(batch, 0) + line.startswith("|")
    assert [number_in(line, "count") for line in counts] == list(counts.values())


def test_transaction_markers_are_told() -> None:
    lines = run("dump", "--deep", *golden_partition("golden-txn-0").logs()).lines
    assert sum(line.endswith(" endTxnMarker: COMMIT coordinatorEpoch: 0") for line in lines) > 0
    assert sum(line.endswith(" endTxnMarker: ABORT coordinatorEpoch: 0") for line in lines) > 0


def test_metadata_log_and_bootstrap_snapshot_show_their_control_records() -> None:
    metadata = run("dump", "--deep", GOLDEN / "clean/__cluster_metadata-0/00000000000000000000.log")
    assert metadata.lines[3].endswith(
        ' LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}'
    )
    bootstrap = run("dump", "--deep", GOLDEN / "clean/bootstrap.checkpoint")
    assert bootstrap.lines[1] == "KRaft bootstrap snapshot"
    assert bootstrap.lines[3].endswith(' SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}')
    assert bootstrap.lines[-1].endswith(' SnapshotFooter {"version":0}')


def test_payloads_cannot_command_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    nasty = [
        b"\x1b]0;owned\x07",
        b"two\nlines\tand\r",
        b"\xff\xfe\x80",
        "gr\u00fc\u00df \U0001f30a \u0085\u009b".encode(),
    ]
    log.write_bytes(
        encode_records([Record(value, headers=[Header("a\x1b,b", None)], timestamp=1) for value in nasty])
    )
    answer = run("dump", "--print-data-log", log)
    assert [line.partition(" headerKeys: ")[2] for line in answer.lines[3:]] == [
        "[a\\x1b,b] payload: \\x1b]0;owned\\x07",
        "[a\\x1b,b] payload: two\\nlines\\tand\\r",
        "[a\\x1b,b] payload: \\xff\\xfe\\x80",
        "[a\\x1b,b] payload: gr\u00fc\u00df \U0001f30a \\xc2\\x85\\xc2\\x9b",
    ]


def test_header_keys_in_json_are_escaped(tmp_path: Path) -> None:
    log = tmp_path / "any-name.log"
    keys = ['"quoted"', "back\\slash", "\x00\x1f\n", "\u2028 \U0001f30a", ""]
    log.write_bytes(encode_records([Record(None, headers=[Header(key, b"") for key in keys], timestamp=1)]))
    (line,) = run("dump", "--deep", "--json", log).lines
    assert json.loads(line)["headers"] == [[key, ""] for key in keys]


def test_a_record_larger_than_every_buffer(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    large = bytes(range(256)) * 12_000
    log.write_bytes(encode_records([Record(b"small", timestamp=1), Record(large, timestamp=2)]))
    small, big = (json.loads(line) for line in run("dump", "--deep", "--json", log).lines)
    assert small["value"] == "c21hbGw="
    assert len(big["value"]) == 4 * len(large) // 3


def test_an_empty_file_has_nothing_to_show(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.touch()
    assert run("dump", "--deep", "--json", log).out == ""
    assert run("dump", "--deep", "--json", log).code == 0


def test_batches_are_a_table_on_a_terminal() -> None:
    answer = on_terminal("dump", golden_partition("golden-txn-0").logs()[0], columns=160)
    text = _without_colour(answer.out)
    heading, first, *_ = text.split("\n")[2:]
    assert answer.code == 0
    assert answer.out != text  # the heading is bold
    assert " ".join(heading.split()) == (
        "POSITION FIRST LAST RECORDS BYTES NEWEST RECORD CODEC MARKS EPOCH PRODUCER SEQUENCE"
    )
    assert " ".join(first.split()) == "0 0 2 3 193 2026-11-15 08:44:20.822 zstd transactional 0 13/0 0"


def test_a_table_gives_way_on_a_narrow_terminal() -> None:
    answer = on_terminal("dump", golden_partition("golden-txn-0").logs()[0], columns=80)
    lines = _without_colour(answer.out).split("\n")
    assert "a wider terminal would also show: MARKS, EPOCH, PRODUCER, SEQUENCE" in lines[2]
    assert max(map(len, lines[2:])) <= 80


def test_json_stays_json_on_a_terminal() -> None:
    answer = on_terminal("dump", "--json", golden_partition("golden-zstd-0").logs()[0])
    assert [json.loads(line)["base_offset"] for line in answer.lines] == list(range(0, 240, 40))


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _kafka_dump_log(oracle: Oracle, logs: list[Path], *options: str) -> list[str]:
    """The lines of kafka-dump-log; where it breaks a line, in one of the header keys, we do not."""
    command = oracle.programs.command(
        "org.apache.kafka.tools.DumpLogSegments", [*options, "--files", ",".join(map(str, logs))]
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.replace("line\nbreak", r"line\nbreak").split("\n")[:-1]


@pytest.mark.parametrize("options", [(), ("--deep-iteration",)])
def test_all_lines_are_those_of_kafka_dump_log(
    oracle: Oracle, tmp_path: Path, options: tuple[str, ...]
) -> None:
    written = tmp_path / "written-0"
    oracle.write_log(written, kinds=KRAFT_AND_HORIZONS, batches=300)
    logs = [log for p in golden_partitions() for log in p.logs()] + sorted(written.glob("*.log"))
    logs.append(GOLDEN / "clean/bootstrap.checkpoint")
    ours = run("dump", *options, *logs).lines
    theirs = _kafka_dump_log(oracle, logs, *options)
    # Messages inside a compressed magic 0 or 1 message have checksums that we do not keep.
    inner = [
        re.sub(r" isValid: true crc: \d+$", "", a) if a.startswith("|") and not b.endswith(a) else a
        for a, b in zip(theirs, ours, strict=True)
    ]
    assert ours == inner
