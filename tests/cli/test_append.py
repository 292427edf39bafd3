"""`tidelog append`: lines, JSON and Parquet into roots and partitions, and what happens when that fails."""

from __future__ import annotations

import base64
import io
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from tests.cli.command import COMMAND, Answer, run
from tests.golden import GOLDEN
from tests.waiting import PATIENCE_S, wait_until
from tidelog.cli.actions.inputs import InputOptions, read_records
from tidelog.cli.errors import UsageError
from tidelog.records import Header, Record, decode_records
from tidelog.testing.builders import LogBuilder

NONE = GOLDEN / "clean" / "golden-none-0"


def append(text: bytes, *args: str | Path) -> Answer:
    return run("append", *args, said=text)


def stored(root: Path, name: str) -> list[tuple[bytes | None, bytes | None]]:
    logs = sorted((root / name).glob("*.log"))
    return [(one.key, one.value) for log in logs for one in decode_records(log.read_bytes())]


def rows(data: bytes, **options: Any) -> list[dict[str, Any]]:
    return [
        row
        for batch in read_records(io.BufferedReader(io.BytesIO(data)), InputOptions(**options))
        for row in batch.to_pylist()
    ]


# ---- what input means


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))))
def test_lines_are_values(lines: list[bytes]) -> None:
    assert [row["value"] for row in rows(b"".join(line + b"\n" for line in lines))] == lines
    assert [row["value"] for row in rows(b"".join(line + b"\r\n" for line in lines))] == lines


def test_a_last_line_needs_no_end_and_a_separator_cuts_once() -> None:
    assert [row["value"] for row in rows(b"a\n\nb")] == [b"a", b"", b"b"]
    assert rows(b"k::v::w\n::\n", key_separator="::") == [
        {"key": b"k", "value": b"v::w"},
        {"key": b"", "value": b""},
    ]
    with pytest.raises(UsageError, match="line 2 has no key"):
        rows(b"k=v\nnothing\n", key_separator="=")


payloads = st.none() | st.binary(max_size=30)


@given(
    st.lists(st.tuples(payloads, payloads, st.lists(st.tuples(st.text(max_size=5), payloads), max_size=3)))
)
def test_base64_is_decoded(records: list[tuple[bytes | None, bytes | None, list[Any]]]) -> None:
    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    lines = [
        json.dumps(
            {"key": text(key), "value": text(value), "headers": [[name, text(one)] for name, one in headers]}
        )
        for key, value, headers in records
    ]
    found = rows("".join(f"{line}\n" for line in lines).encode(), format="json", base64=True)
    assert [
        (row["key"], row["value"], [(one["key"], one["value"]) for one in row["headers"] or ()])
        for row in found
    ] == records


@pytest.mark.parametrize(
    ("line", "options", "said"),
    [
        ("nonsense", {}, "line 2 is not JSON"),
        ("[1]", {}, "line 2 is not an object"),
        ('{"value": {"a": 1}}', {}, "line 2: value is not text; quote it"),
        ('{"timestamp": "now"}', {}, "line 2: timestamp is not a number"),
        ('{"headers": [["h"]]}', {}, "headers are pairs"),
        ('{"value": "a*=="}', {"base64": True}, "line 2: value is not base64"),
        ('{"value": "abc"}', {"base64": True}, "line 2: value is not base64"),
    ],
)
def test_bad_json_is_named_with_its_line(line: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rows(f"{{}}\n{line}\n".encode(), format="json", **options)


# ---- where it goes


def test_a_topic_is_made_and_keys_decide_where_records_go(tmp_path: Path) -> None:
    text = b"".join(b"key-%d:value-%d\n" % (number % 20, number) for number in range(200))
    options = ("--topic", "orders", "--key-separator", ":")
    planned = append(text, tmp_path / "r", *options, "--create", "3", "--dry-run", "--json")
    assert not (tmp_path / "r").exists()
    made = append(text, tmp_path / "r", *options, "--create", "3", "--json")
    assert made.code == 0, made.err
    counts = {row["partition"]: row["records"] for row in map(json.loads, made.lines)}
    assert counts == {row["partition"]: row["records"] for row in map(json.loads, planned.lines)}
    assert sum(counts.values()) == 200
    assert len(counts) == 3
    assert append(text, tmp_path / "r", *options, "--sync").code == 0
    keys = [{key for key, _ in stored(tmp_path / "r", f"orders-{number}")} for number in range(3)]
    assert sum(map(len, keys)) == 20, "a key is in one partition"
    with tidelog.open(tmp_path / "r") as store:
        assert sum(partition.log_end_offset for partition in store.partitions) == 400


def test_what_dump_prints_can_be_appended(tmp_path: Path) -> None:
    logs = sorted(NONE.glob("*.log"))
    lines = run("dump", "--json", "--print-data-log", *logs).out.encode()
    answer = append(
        lines, tmp_path, "--topic", "t", "--create", "1", "--format", "json", "--base64", "--codec", "lz4"
    )
    assert answer.code == 0, answer.err
    columns = ["key", "value", "timestamp", "headers"]
    copied = tidelog.scan(tmp_path, columns=columns).read_all()
    assert copied.equals(tidelog.scan(NONE, columns=columns).read_all())
    assert set(tidelog.scan(tmp_path, columns=["codec"]).read_all().column(0).to_pylist()) == {"lz4"}


def test_what_cat_prints_can_be_appended(tmp_path: Path) -> None:
    source = tmp_path / "source" / "t-0"
    headers = [Header("h", b"\xff"), Header("i", None)]
    odd = [Record(b"\xff\x00", b"key"), Record("ü".encode(), None, headers), Record(None, b"\xfe")]
    LogBuilder(source).records(5).append(odd).close()
    lines = run("cat", source, "--json").out.encode()
    answer = append(lines, tmp_path / "root", "--topic", "t", "--create", "1", "--format", "json")
    assert answer.code == 0, answer.err
    columns = ["key", "value", "headers"]
    copied = tidelog.scan(tmp_path / "root", columns=columns).read_all().to_pylist()
    assert copied == tidelog.scan(source, columns=columns).read_all().to_pylist()


def test_parquet_is_appended_from_a_file_and_a_pipe(tmp_path: Path) -> None:
    columns = ["key", "value", "timestamp", "headers", "offset"]
    source = tidelog.scan(NONE, columns=columns).read_all()
    file = tmp_path / "records.parquet"
    pq.write_table(source, file)
    root, options = tmp_path / "root", ("--topic", "t", "--create", "1", "--format", "parquet")
    answer = run("append", root, file, *options, "--json")
    assert json.loads(answer.out)["last_offset"] == source.num_rows - 1
    assert append(file.read_bytes(), root, *options).code == 0
    assert tidelog.scan(root, columns=columns, end=source.num_rows).read_all().equals(source)
    assert tidelog.scan(root).read_all().num_rows == 2 * source.num_rows
    pq.write_table(pa.table({"x": [1]}), file)
    assert "no column key or value; it has x" in run("append", root, file, *options).err
    pq.write_table(pa.table({"value": ["a"], "total": [1]}), file)
    assert "column 'total' cannot be written" in run("append", root, file, *options).err


def test_a_partition_in_a_root_and_one_in_none(tmp_path: Path) -> None:
    assert append(b"a\n", tmp_path / "r", "--topic", "t", "--create", "2").code == 0
    assert append(b"b\n", tmp_path / "r" / "t-1").code == 0
    assert stored(tmp_path / "r", "t-1")[-1] == (None, b"b")
    assert (tmp_path / "r" / ".kafka_cleanshutdown").exists()
    (tmp_path / "bare").mkdir()
    with tidelog.Log.open(tmp_path / "bare" / "t-0"):
        pass
    assert append(b"c\n", tmp_path / "bare" / "t-0").code == 0
    assert stored(tmp_path / "bare", "t-0") == [(None, b"c")]


# ---- when it goes wrong


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--topic NAME"),
        (("--topic", "nope"), "create it with --create N"),
        (("--topic", "t", "--partition", "7"), "has 1 partitions"),
        (("--topic", "__consumer_offsets"), "Kafka's own"),
        (("--topic", "t", "--format", "xml"), "choose from lines, json, parquet"),
        (("--topic", "t", "--codec", "rar"), "choose from none, gzip"),
        (("--topic", "t", "--base64"), "--base64 is for --format json"),
        (("--topic", "t", "--format", "json", "--key-separator", ":"), "--key-separator is for"),
    ],
)
def test_bad_usage_is_told(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t")
    answer = append(b"a\n", tmp_path, *args)
    assert answer.code == 2
    assert said in answer.err
    assert stored(tmp_path, "t-0") == []


def test_input_that_cannot_be_read_makes_nothing(tmp_path: Path) -> None:
    answer = append(b"nonsense\n", tmp_path / "r", "--topic", "t", "--create", "1", "--format", "json")
    assert (answer.code, answer.out) == (2, "")
    assert not (tmp_path / "r").exists()


def test_a_root_in_use_is_not_touched(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t")
        answer = append(b"a\n", tmp_path, "--topic", "t")
        assert answer.code == 1
        assert "process" in answer.err
    assert stored(tmp_path, "t-0") == []


def test_an_interrupt_leaves_all_in_order(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t")
    clean = tmp_path / ".kafka_cleanshutdown"
    with subprocess.Popen(
        [COMMAND, "append", str(tmp_path), "--topic", "t"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"before\n")
        process.stdin.flush()
        log = tmp_path / "t-0" / f"{0:020}.log"
        wait_until(lambda: log.stat().st_size)  # it was appended as it came; the command waits for more
        assert not clean.exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stdout is not None
        assert b"1 record is appended" in process.stdout.read()
    assert clean.exists()
    assert stored(tmp_path, "t-0") == [(None, b"before")]


@pytest.mark.parametrize("alone", [False, True])
def test_a_disk_that_takes_no_more_is_told_with_its_place(tmp_path: Path, alone: bool) -> None:
    """By a limit to the size of files, just above that of a new index."""
    given, root = tmp_path / "given", tmp_path / "root"
    given.write_bytes((b"x" * 99_999 + b"\n") * 150)
    where = [root / "t-0"] if alone else [root, "--topic", "t", "--create", "1"]
    (root / "t-0" if alone else root).mkdir(parents=True)
    command = [COMMAND, "append", where[0], given, *where[1:]]
    limited = ["bash", "-c", 'ulimit -f 11000 && exec "$@"', "limited", *map(str, command)]
    done = subprocess.run(limited, capture_output=True, timeout=60, check=False, text=True)
    assert done.returncode == 1
    log = root / "t-0" / f"{0:020}.log"
    assert done.stderr == f"tidelog: {log}: File too large: check the disk and the kernel's log\n"
    values = [value for _, value in stored(root, "t-0")]
    assert 0 < len(values) < 150
    assert f"{len(values)} records are appended" in done.stdout
