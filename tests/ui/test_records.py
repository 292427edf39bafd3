"""Records of the page equal those of `tidelog cat --json` and `tidelog search --json`."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.command import COMMAND, run
from tests.cli.logs import written
from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tests.ui.asking import Asked, cat_rows
from tidelog.log import Log
from tidelog.records import Header, Record, encode_records
from tidelog.ui.records import Limits

CLEAN = GOLDEN / "clean"
SMALL = Limits(task_bytes=1 << 10)


def catted(*args: str | Path, command: str = "cat", code: int = 0) -> list[dict[str, Any]]:
    answer = run(command, "--json", *args)
    assert answer.code == code, answer.err
    return [json.loads(line) for line in answer.lines]


def place(partition: GoldenPartition) -> dict[str, Any]:
    topic, _, number = partition.name.rpartition("-")
    return {"topic": topic, "partition": number}


@pytest.mark.parametrize("partition", golden_partitions(), ids=lambda one: one.name)
def test_pages_are_the_records_of_cat(partition: GoldenPartition) -> None:
    asked = Asked(partition.directory.parent, limits=SMALL)
    expected = catted(partition.directory)
    where = place(partition)
    on: list[dict[str, Any]] = []
    page = asked.json("api/records", **where, limit=170)
    while True:
        on += page["records"]
        if page["next_offset"] == page["log_end_offset"]:
            break
        page = asked.json("api/records", **where, limit=170, offset=page["next_offset"])
    assert cat_rows(on) == expected
    assert [record["at"] for record in on] == [str(row["offset"]) for row in expected]
    back: list[dict[str, Any]] = []
    page = asked.json("api/records", **where, last=170)
    while True:
        back = page["records"] + back
        if page["searched_from"] == page["log_start_offset"]:
            break
        page = asked.json("api/records", **where, last=170, to_offset=page["searched_from"])
    assert cat_rows(back) == expected


QUERIES: list[dict[str, Any]] = [
    {"key": "k00164"},
    {"key_match": "k0.1[0-4]", "limit": 7},
    {"contains": "wd56a", "last": 3},
    {"match": "^w[0-4]", "offset": 500, "limit": 20},
    {"header": "h0", "to_offset": 900},
    {"header": "h1=w16a5"},
    {"tombstones": "true", "limit": 11},
    {"since": "1700001000000", "until": "1700002000000", "limit": 500},
    {"since": "2023-11-14T22:30", "limit": 9},
    {"last": 0},
    {"offset": 1500},
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_searches_find_what_the_shown_command_finds(query: dict[str, Any]) -> None:
    found = Asked(CLEAN, limits=SMALL).json("api/records", topic="golden-zstd", partition=0, **query)
    assert bool(found["records"]) == ("last" not in query or query["last"] > 0) ^ (
        query.get("offset") == 1500
    )
    (command,) = found["commands"]
    assert catted_by_shell(command) == cat_rows(found["records"])


def catted_by_shell(command: str) -> list[dict[str, Any]]:
    """What a command line prints that names `tidelog`, run by a shell."""
    assert command.startswith("tidelog ")
    line = f"{COMMAND} {command.removeprefix('tidelog ')}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(text) for text in done.stdout.decode().split("\n")[:-1]]


def test_committed_reads() -> None:
    asked = Asked(CLEAN)
    for topic in ("golden-txn", "golden-txncompact"):
        page = asked.json("api/records", topic=topic, partition=0, committed="true", limit=500)
        assert cat_rows(page["records"]) == catted(CLEAN / f"{topic}-0", "--committed", "-n", "500")


def test_a_search_goes_on_where_it_stopped() -> None:
    asked = Asked(CLEAN, limits=Limits(search_bytes=1, task_bytes=1 << 10))
    where = {"topic": "golden-zstd", "partition": 0, "key": "k00164"}
    expected = catted(CLEAN / "golden-zstd-0", "--key", "k00164", command="search")
    assert len(expected) > 1
    page = asked.json("api/records", **where)
    on, requests = page["records"], 1
    while not page["is_complete"]:
        page = asked.json("api/records", **where, offset=page["next_offset"])
        on, requests = on + page["records"], requests + 1
    assert (cat_rows(on), requests > 3) == (expected, True)
    page = asked.json("api/records", **where, last=50)
    back = page["records"]
    while not page["is_complete"]:
        page = asked.json("api/records", **where, last=50, to_offset=page["searched_from"])
        back = page["records"] + back
    assert cat_rows(back) == expected


def test_answers_are_bounded(tmp_path: Path) -> None:
    directory = tmp_path / "big-0"
    with Log.open(directory) as log:
        for i in range(40):
            log.append_as_leader(encode_records([Record(b"\xc3\xa4" * 30_000, key=b"%d" % i)]))
    asked = Asked(tmp_path, limits=Limits(field_bytes=1001, answer_bytes=10_000))
    page = asked.json("api/records", topic="big", partition=0, limit=500)
    assert len(page["records"]) == 10
    assert (page["is_complete"], page["next_offset"]) == (False, "10")
    for record in page["records"]:
        assert record["value"] == "ä" * 500  # cut at a whole character
        assert record["cut"] == {"value": 60_000}
    page = asked.json("api/records", topic="big", partition=0, last=500)
    assert (len(page["records"]), page["searched_from"], page["is_complete"]) == (10, "30", False)
    assert asked.error("api/records", topic="big", partition=0, limit=501)[0] == 400


def test_damage_is_passed_over_and_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    log = sorted((root / "golden-none-0").glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    expected = catted(root / "golden-none-0", "--corrupt", "skip", "-n", "500", code=1)
    page = Asked(root).json("api/records", topic="golden-none", partition=0, limit=500)
    assert cat_rows(page["records"]) == expected
    assert len(page["damage"]) == 1
    assert str(log) in page["damage"][0]
    assert "--corrupt skip" in page["commands"][0]


def test_a_log_that_grows_and_is_cut(tmp_path: Path) -> None:
    directory = written(tmp_path, [Record(b"a"), Record(b"b")])
    asked = Asked(tmp_path)
    where = {"topic": "orders", "partition": 0}
    page = asked.json("api/records", **where)
    assert page["next_offset"] == "2"
    with Log.open(directory) as log:
        log.append_as_leader(encode_records([Record(b"c")]))
        page = asked.json("api/records", **where, offset=2)  # beside its writer
        assert [record["value"] for record in page["records"]] == ["c"]
    file = directory / f"{0:020}.log"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])  # as a write under way looks
    page = asked.json("api/records", **where)
    assert ([record["value"] for record in page["records"]], page["damage"]) == (["a", "b"], [])
    file.write_bytes(b"")
    assert asked.error("api/records", **where, offset=2) == (
        400,
        "offset 2 is not in orders-0, which has [0, 0]",
    )
    shutil.rmtree(directory)
    assert asked.error("api/records", **where) == (404, "there is no topic orders")


ERRORS: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "topic is missing"),
    ({"topic": "golden-zstd"}, 400, "partition is missing"),
    ({"topic": "golden-zstd", "partition": 9}, 404, "has no partition 9"),
    ({"topic": "../golden-zstd", "partition": 0}, 404, "no topic"),
    ({"topic": "golden-zstd", "partition": "-1"}, 400, "a number"),
    ({"topic": "golden-zstd", "partition": "٣"}, 400, "a number"),
    ({"topic": "golden-zstd", "partition": 0, "offset": 99999}, 400, "not in golden-zstd-0"),
    ({"topic": "golden-zstd", "partition": 0, "offset": 1 << 63}, 400, "a number"),
    ({"topic": "golden-zstd", "partition": 0, "offset": 1, "since": "now"}, 400, "choose one"),
    ({"topic": "golden-zstd", "partition": 0, "since": "soon"}, 400, "soon"),
    ({"topic": "golden-zstd", "partition": 0, "key_match": "("}, 400, "regular expression"),
    ({"topic": "golden-zstd", "partition": 0, "key": "k" * 5000}, 400, "characters"),
    ({"topic": "golden-zstd", "partition": 0, "tombstones": "yes"}, 400, "true or false"),
    ({"topic": "golden-zstd", "partition": 0, "path": "/etc"}, 400, "not known"),
]


@pytest.mark.parametrize(("query", "status", "sentence"), ERRORS, ids=lambda one: str(one)[:60])
def test_errors_are_sentences(query: dict[str, Any], status: int, sentence: str) -> None:
    found, told = Asked(CLEAN).error("api/records", **query)
    assert (found, sentence in told) == (status, True), told


def test_headers_keys_and_values_that_are_not_text(tmp_path: Path) -> None:
    hard = [
        Record(b"\xff\x00", key=b"\xfe", headers=[Header("h", b"\xfd"), Header("", None)]),
        Record(None, key=None),
        Record(b"", key=b""),
        Record("\u202e</script><script>alert(1)</script>\x1b[2J".encode()),
    ]
    directory = written(tmp_path, hard)
    page = Asked(tmp_path).json("api/records", topic="orders", partition=0)
    assert cat_rows(page["records"]) == catted(directory)


def test_beside_a_writer_that_rolls_and_deletes(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders", config={"segment.bytes": 1 << 20, "retention.bytes": 3 << 20})
        orders, done = store["orders"][0], threading.Event()

        def write() -> None:
            while not done.is_set():
                orders.append([Record(b"x" * 1000, key=b"%d" % n) for n in range(200)])
                store.apply_retention()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            asked = Asked(tmp_path / "data")
            where = {"topic": "orders", "partition": 0}
            for _ in range(40):
                page = asked.json("api/records", **where, last=100)
                numbers = [record["offset"] for record in page["records"]]
                assert numbers == list(
                    range(int(page["next_offset"]) - len(numbers), int(page["next_offset"]))
                )
                assert page["damage"] == []
                answer = asked.answer("facts")
                assert answer.status == 200, answer.body
        finally:
            done.set()
            writer.join()
        assert orders.log_start_offset > 0


def test_beside_a_writer_that_deletes_topics_and_makes_them_again(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        done, lives = threading.Event(), 0
        store.create_topic("steady")[0].append([Record(b"here")])
        store.create_topic("orders", partitions=3)

        def write() -> None:
            nonlocal lives
            while not done.is_set():
                for number in range(3):
                    store["orders"][number].append([Record(b"life %d" % lives)] * 50)
                store.delete_topic("orders")
                lives += 1
                store.create_topic("orders", partitions=3)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            asked = Asked(tmp_path / "data")
            for turn in range(60):
                if turn % 10 == 0:
                    asked = Asked(tmp_path / "data")
                facts = asked.json("facts")
                assert facts["partitions"]["topic"].count("steady") == 1
                answer = asked.answer("api/records", topic="orders", partition=turn % 3)
                assert answer.status in (200, 404), answer.body
                if answer.status == 200:
                    page = json.loads(answer.body)
                    assert len({record["value"] for record in page["records"]}) <= 1
                    assert [record["offset"] for record in page["records"]] == list(
                        range(len(page["records"]))
                    )
                    assert page["damage"] == []
        finally:
            done.set()
            writer.join()
        assert lives > 3
