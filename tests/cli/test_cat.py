"""`tidelog cat`, `tail` and `search`: the records that Kafka's reader decodes, in every form."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, on_terminal, run
from tests.cli.logs import never, written
from tests.golden import GOLDEN, GoldenPartition, golden_partition, golden_partitions
from tests.spark.conftest import require_spark
from tests.waiting import PATIENCE_S
from tidelog.cli.actions.reading import read_tasks, select
from tidelog.cli.actions.tail import follow
from tidelog.cli.render.output import PlainOutput
from tidelog.cli.render.record_lines import RecordLines
from tidelog.log import Log
from tidelog.records import Header, Record, encode_records
from tidelog.scanning.filters import RecordFilter
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import PendingPartition, PendingWrite, WriteJournal, write_journal
from tidelog.types import TopicPartition

CLEAN = GOLDEN / "clean"


HARD = [
    b'"quoted" \\back\\',
    b"\x00\x1f\n\t\x7f",
    "gr\u00fc\u00df \U0001f30a \u2028".encode(),
    b"\xff\xfe",
    b"",
    None,
]


def told(data: str | None) -> Any:
    """Bytes of the golden answers as JSON lines have them."""
    if data is None:
        return None
    raw = base64.b64decode(data)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": data}


def data_records(partition: GoldenPartition) -> list[dict[str, Any]]:
    return [
        record
        for record in partition.records()
        if not record["control"] and record["offset"] >= partition.log_start
    ]


def test_json_lines_are_the_records_of_kafkas_reader() -> None:
    answer = run("cat", "--json", CLEAN, GOLDEN / "legacy")
    assert answer.code == 0, answer.err
    expected = [
        {
            "topic": partition.name.rpartition("-")[0],
            "partition": int(partition.name.rpartition("-")[2]),
            "offset": record["offset"],
            "timestamp": record["timestamp"],
            "key": told(record["key"]),
            "value": told(record["value"]),
            "headers": [[key, told(value)] for key, value in record["headers"]],
        }
        for partition in golden_partitions()
        if not partition.name.startswith("__")
        for record in data_records(partition)
    ]
    expected.sort(key=lambda record: (record["topic"], record["partition"]))
    assert [json.loads(line) for line in answer.lines] == expected


def test_plain_and_hex_lines() -> None:
    partition = golden_partition("golden-none-0")
    records = data_records(partition)
    plain = run("cat", partition.directory).lines
    assert plain == [(told(record["value"]) if record["value"] is not None else "null") for record in records]
    shown = run(
        "cat", "--format", "hex", "--show", "offset,timestamp,key", "-n", "50", partition.directory
    ).lines
    assert shown == [
        "\t".join(
            [
                str(record["offset"]),
                str(record["timestamp"]),
                *(
                    "null" if data is None else base64.b64decode(data).hex()
                    for data in (record["key"], record["value"])
                ),
            ]
        )
        for record in records[:50]
    ]


def test_hard_text_in_json_and_on_a_terminal(tmp_path: Path) -> None:
    headers = [Header("h\x1b", b"\xff")]
    directory = written(tmp_path, [Record(value, headers=headers, timestamp=1) for value in HARD])
    records = [json.loads(line) for line in run("cat", "--json", directory).lines]
    expected = [None if value is None else told(base64.b64encode(value).decode()) for value in HARD]
    assert [record["value"] for record in records] == expected
    assert records[0]["headers"] == [["h\x1b", {"base64": "/w=="}]]
    # The same of text alone, which takes another way.
    text = written(tmp_path, [Record(value, timestamp=1) for value in HARD if value != b"\xff\xfe"], "text-0")
    assert [json.loads(line)["value"] for line in run("cat", "--json", text).lines] == [
        value for value in expected if not isinstance(value, dict)
    ]
    seen = on_terminal("cat", "--show", "offset,headers", directory)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", seen.out)
    assert "\\xff\\xfe" in seen.out
    assert [json.loads(line) for line in on_terminal("cat", "--json", directory).lines] == records


RECORDS = [
    *[Record(None, timestamp=1)] * 3,
    *[Record(b"", key=b"", timestamp=2)] * 2,
    Record(b"abc", headers=[Header("h", b"v")], timestamp=3),
    Record(b"x", key=b"k", timestamp=4),
]
FILTERS = [
    RecordFilter(),
    RecordFilter(key=""),
    RecordFilter(key_match="^$"),
    RecordFilter(value_contains="a"),
    RecordFilter(value_match="^$"),
    RecordFilter(header="h"),
    RecordFilter(tombstones=True),
]


@pytest.mark.parametrize("form", ["plain", "json", "hex"])
@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_whole_columns_and_single_records_make_the_same_lines(
    tmp_path: Path, form: str, wanted: RecordFilter
) -> None:
    selection = select([str(written(tmp_path, RECORDS))], wanted=wanted)
    columns = RecordLines(form, ("offset", "timestamp", "key", "headers"))
    single = RecordLines(form, columns.shown, terminal=True)
    batches = list(read_tasks(selection.tasks(), columns.columns, wanted))
    assert batches
    for batch in batches:
        for start in range(batch.num_rows):
            part = batch.slice(start, 2)
            assert bytes(columns.lines(part)) == bytes(single.lines(part))


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--offset", "1550"), range(1550, 1560)),
        (("--offset", "100", "--to-offset", "105"), range(100, 105)),
        (("--offset", "7", "--limit", "3"), range(7, 10)),
        (("--last", "4"), range(1556, 1560)),
        (("--since", "1700010023800"), range(1556, 1560)),
        (("--since", "2023-11-15T01:00:23.900Z"), range(1558, 1560)),
        (("--since", "2023-11-15 01:00:23.900", "--until", "1700010023950"), range(1558, 1559)),
        (("--since", "1 minute ago"), range(0)),
    ],
)
def test_from_where_to_where(options: tuple[str, ...], offsets: range) -> None:
    answer = run("cat", "--json", *options, CLEAN / "golden-none-0")
    assert answer.code == 0, answer.err
    assert [json.loads(line)["offset"] for line in answer.lines] == list(offsets)


def test_filters_look_at_keys_and_values() -> None:
    partition = golden_partition("golden-zstd-0")
    records = data_records(partition)
    key = next(record["key"] for record in records if record["key"])
    cases = [
        (("--key", told(key)), lambda record: record["key"] == key),
        (("--key-match", "^k0+[12]"), lambda r: r["key"] and re.search("^k0+[12]", told(r["key"]))),
        (("--contains", "w131a"), lambda r: r["value"] and "w131a" in told(r["value"])),
        (
            ("--match", "w1.1a", "--key-match", "4$"),
            lambda r: (
                r["value"] and re.search("w1.1a", told(r["value"])) and r["key"] and told(r["key"])[-1] == "4"
            ),
        ),
    ]
    for options, is_wanted in cases:
        expected = [record["offset"] for record in records if is_wanted(record)]
        assert expected
        lines = run("cat", "--json", *options, partition.directory).lines
        assert [json.loads(line)["offset"] for line in lines] == expected
        lines = run("tail", "-n", "2", "--json", *options, partition.directory).lines
        assert [json.loads(line)["offset"] for line in lines] == expected[-2:]


def test_committed_reads_leave_out_what_was_aborted() -> None:
    directory = CLEAN / "golden-txn-0"
    committed = run("cat", "--committed", "--json", directory).lines
    everything = run("cat", "--json", directory).lines
    assert 0 < len(committed) < len(everything)
    assert json.loads(committed[-1])["offset"] == 1389  # the transaction that begins at 1390 is undecided


def test_payloads_are_decoded() -> None:
    directory = CLEAN / "__consumer_offsets-0"
    records = [
        json.loads(line) for line in run("cat", "--json", "--decode", "consumer-offsets", directory).lines
    ]
    assert {record["key"]["data"]["group"] for record in records} == {"golden-group"}
    wrong = run("cat", "--decode", "json", CLEAN / "golden-none-0", "-n", "3")
    assert wrong.code == 1
    assert "3 records are not what --decode says" in wrong.err
    assert len(wrong.lines) == 3


@pytest.mark.parametrize("count", [0, 1, 40, 100_000])
def test_the_last_records(count: int) -> None:
    """Also where markers and cleaning leave gaps."""
    names = ("golden-compact-0", "golden-trimmed-0", "golden-txn-0")
    offsets = [[record["offset"] for record in data_records(golden_partition(name))] for name in names]
    lines = run("tail", "-n", str(count), "--json", *(CLEAN / name for name in names)).lines
    expected = [offset for one in offsets for offset in (one[-count:] if count else [])]
    assert [json.loads(line)["offset"] for line in lines] == expected


def test_a_log_is_followed_over_rolls(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with (
        Log.open(directory) as log,
        subprocess.Popen(
            [COMMAND, "tail", "-f", "-n", "2", "--show", "offset", directory],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        log.append_as_leader(encode_records([Record(b"early %d" % n, timestamp=1) for n in range(2)]))
        try:
            seen = [process.stdout.readline(), process.stdout.readline()]
            for n in range(2, 8):
                if n % 2:
                    log.roll()
                log.append_as_leader(encode_records([Record(b"later", timestamp=1)]))
                seen.append(process.stdout.readline())
                time.sleep(0.05)
            assert seen == ["0\tearly 0\n", "1\tearly 1\n", *(f"{n}\tlater\n" for n in range(2, 8))]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == ""


def test_search_goes_over_many_partitions() -> None:
    expected = []
    for name in ("golden-multi-0", "golden-none-0", "golden-zstd-0"):
        topic, _, number = name.rpartition("-")
        for record in data_records(golden_partition(name)):
            if record["value"] and "w131a" in told(record["value"]):
                expected.append((topic, int(number), record["offset"]))
    topics = ("--topic", "golden-multi", "--topic", "golden-none", "--topic", "golden-zstd")
    for threads in ("1", "4"):
        lines = run("search", "--contains", "w131a", "--threads", threads, "--json", *topics, CLEAN).lines
        got = [(r["topic"], r["partition"], r["offset"]) for r in map(json.loads, lines)]
        assert [
            place for place in got if place[:2] not in {("golden-multi", 1), ("golden-multi", 2)}
        ] == expected
    plain = run("search", "--contains", "w131a", "-n", "1", *topics, CLEAN).lines
    assert [line.split("\t")[:3] for line in plain] == [list(map(str, expected[0]))]
    counts = run("search", "--contains", "w131a", "--count", "--json", *topics, CLEAN).lines
    assert sum(json.loads(line)["matches"] for line in counts) == len(got)


@pytest.mark.slow
def test_search_by_spark_finds_the_same() -> None:
    require_spark()
    options = ["search", "--match", "w1.1a", "--json", "--topic", "golden-none", str(CLEAN)]
    done = subprocess.run(
        [COMMAND, *options, "--spark", "local[2]"], capture_output=True, text=True, timeout=250, check=True
    )
    assert done.stdout
    assert done.stdout == run(*options).out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("cat", CLEAN / "golden-none-0", "--offset", "99999"), "offset 99999 is not in golden-none-0"),
        (("cat", CLEAN / "golden-none-0", "--since", "Tuesday"), "'Tuesday' is not a time"),
        (("cat", CLEAN / "golden-none-0", "--offset", "1", "--since", "1"), "choose one"),
        (("cat", CLEAN / "golden-none-0", "--format", "xml"), "choose from plain, json, hex"),
        (("cat", CLEAN / "golden-none-0", "--show", "colour"), "choose from topic, partition"),
        (("cat", CLEAN / "golden-none-0", "--match", "("), "is not a regular expression"),
        (("cat", CLEAN / "golden-none-0", "--partition", "7"), "no partition 7 under"),
        (("cat", CLEAN, "--topic", "nobody"), "no partition of topic nobody"),
        (("tail", "nowhere"), "does not exist"),
        (("search", CLEAN, "--decode", "morse"), "--decode morse: choose from string"),
    ],
)
def test_bad_requests(args: tuple[str | Path, ...], words: str) -> None:
    answer = run(*args)
    assert answer.code == 2
    assert words in answer.err
    assert answer.out == ""
    assert answer.err.count("\n") == 1


def test_damage_stops_a_read_with_one_sentence(tmp_path: Path) -> None:
    directory = written(tmp_path, [Record(b"a", timestamp=1)])
    with Log.open(directory) as log:
        log.append_as_leader(encode_records([Record(b"b", timestamp=1)]))
    path = directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for command in ("cat", "tail", "search"):
        answer = run(command, directory)
        assert answer.code == 1
        assert "checksum does not match" in answer.err
        assert answer.err.count("\n") == 1


def test_what_comes_before_a_damaged_end_is_shown(tmp_path: Path) -> None:
    directory = written(tmp_path, [Record(b"a", timestamp=1)])
    with (directory / "00000000000000000000.log").open("ab") as file:
        file.write(b"\xff" * 100)
    for command in ("cat", "tail", "search"):
        answer = run(command, "--show", "offset", directory)
        assert answer.code == 1
        assert answer.lines == ["0\ta"]
        assert "00000000000000000000.log" in answer.err
    assert run("cat", "--to-offset", "0", directory).code == 0


def test_following_shows_a_bulk_write_when_it_is_whole(tmp_path: Path) -> None:
    def seen() -> list[int]:
        offsets: list[int] = []
        while (batch := next(following)) is not None:
            offsets += batch.column("offset").to_pylist()
        return offsets

    pending = PendingWrite(
        "", 0, "/nowhere", ("x",), (PendingPartition(TopicPartition("t", 0), 1, 2, 0, 0, 0),)
    )
    with Log.open(tmp_path / "t-0") as log:
        log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
        following = follow(select([str(tmp_path)]), ("offset", "key", "value"), PlainOutput(), never)
        write_journal(LOCAL, tmp_path, WriteJournal(1, {}, pending))
        log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
        assert seen() == []
        log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
        assert seen() == []
        write_journal(LOCAL, tmp_path, WriteJournal(2))
        assert seen() == [1, 2]
        log.append_as_leader(encode_records([Record(b"x", timestamp=1)]))
        assert seen() == [3]


def test_headers_and_tombstones_are_found(tmp_path: Path) -> None:
    records = [
        Record(b"a", headers=[Header("trace", b"1"), Header("kind", b"x")]),
        Record(None, key=b"k", headers=[Header("trace", b"2")]),
        Record(b"c"),
        Record(b"trace=1", key=b"trace"),
        Record(b"e", headers=[Header("kind", b"1"), Header("kind", None)]),
    ]
    directory = written(tmp_path, records)

    def offsets(*options: str) -> list[int]:
        answer = run("search", directory, "--json", *options)
        assert answer.code == 0
        return [json.loads(line)["offset"] for line in answer.lines]

    assert offsets("--header", "trace") == [0, 1]
    assert offsets("--header", "trace=1") == [0]
    assert offsets("--header", "kind=1") == [4]
    assert offsets("--header", "missing") == []
    assert offsets("--tombstones") == [1]
    assert offsets("--tombstones", "--header", "trace=2") == [1]
    assert offsets("--tombstones", "--header", "kind") == []


def test_a_file_is_told_what_to_do_with_it(tmp_path: Path) -> None:
    directory = written(tmp_path, RECORDS)
    answer = run("cat", next(directory.glob("*.log")))
    assert answer.code == 2
    assert f"tidelog dump {directory}" in answer.err
    answer = run("dump", tmp_path)
    assert answer.code == 2
    assert "tidelog ls" in answer.err
