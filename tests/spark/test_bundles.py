"""Small splits that are read together are read as they are one by one: records, losses and errors."""

from __future__ import annotations

import logging
import pickle
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.scanning.damage import hurt, make_log
from tidelog.errors import TidelogError
from tidelog.records import Header, Record
from tidelog.scanning import bundles
from tidelog.scanning.splits import Split
from tidelog.scanning.tasks import ScanTask, run_task
from tidelog.spark.source import batch
from tidelog.spark.source.batch import SplitPartition, plan_batch, read_part
from tidelog.spark.source.options import SourceOptions
from tidelog.spark.source.schemas import Wanted, source_schema, typed_source
from tidelog.testing.builders import LogBuilder, cut_off, flip_bit
from tidelog.types import Codec

IDS = [f"version: 0\ntopic_id: {letter * 21}A" for letter in "abc"]
OPTIONS: list[dict[str, object]] = [
    {},
    {"includeHeaders": True, "includeBatchFacts": True},
    {"includeHeaders": True, "failOnDataLoss": False},
    {"failOnDataLoss": False, "corrupt": "fail", "includeControlRecords": True},
    {"kafka.isolation.level": "read_committed", "failOnDataLoss": False},
    {"kafka.isolation.level": "read_committed", "maxRecordsPerPartition": 7},
    {"corrupt": "stop", "includeControlRecords": True},
    {"corrupt": "skip", "maxBytesPerPartition": 700},
]


def some(dice: random.Random, first: int, count: int) -> list[Record]:
    headers = (Header("h", b"x"), Header("", None)) if dice.random() < 0.3 else ()
    return [
        Record(
            dice.choice([None, b"", b"v" * dice.randint(1, 300)]), b"k%d" % n, headers=headers, timestamp=n
        )
        for n in range(first, first + count)
    ]


def build(directory: Path, dice: random.Random) -> None:
    """A log of batches of all kinds."""
    with LogBuilder(directory) as log:
        for _ in range(dice.randint(1, 6)):
            what = dice.choice(["plain", "plain", "plain", "transaction", "gap", "roll", "open"])
            if what == "plain":
                log.append(some(dice, 0, dice.randint(1, 5)), codec=dice.choice(list(Codec)))
            elif what == "transaction":
                log.transaction(dice.randint(1, 2), records=dice.randint(1, 4), commit=dice.random() < 0.5)
            elif what == "open" and directory.name.endswith("0"):
                log.transaction(9, records=2, commit=None)
            elif what == "gap":
                log.gap(dice.randint(1, 9))
            elif what == "roll":
                log.roll()
        log.append(some(dice, 0, 1))


def make_root(root: Path, dice: random.Random, damaged: bool, count: int = 12) -> Path:
    for n in range(count):
        directory = root / f"{dice.choice('ab')}-{n}"
        if dice.random() < 0.25:
            made = make_log(dice)
            (hurt(made, dice) if damaged else made).write(directory)
        else:
            build(directory, dice)
        (directory / "partition.metadata").write_text(IDS["ab".index(directory.name[0])])
    return root


def disturb(root: Path, dice: random.Random) -> None:
    """What others may do to logs."""
    for log in sorted(root.glob("*/*.log")):
        if not log.exists():  # with its directory
            continue
        size = log.stat().st_size
        what = dice.choice(["nothing"] * 12 + ["flip", "cut", "more", "torn", "gone", "id", "no id", "dir"])
        if what == "flip" and size:
            flip_bit(log, dice.randrange(size), dice.randrange(8))
        elif what == "cut" and size:
            cut_off(log, dice.randrange(size))
        elif what in ("more", "torn"):
            data = log.read_bytes()
            log.write_bytes(data + data[: 90 if what == "torn" else size])
        elif what == "gone":
            log.unlink()
        elif what == "id":
            (log.parent / "partition.metadata").write_text(IDS[2])
        elif what == "no id":
            (log.parent / "partition.metadata").unlink(missing_ok=True)
        elif what == "dir" and dice.random() < 0.3:
            shutil.rmtree(log.parent)


def planned(root: Path, given: dict[str, object]) -> tuple[SourceOptions, list[Split], dict[str, str]] | None:
    options = SourceOptions.parse({"path": str(root)} | {name: str(value) for name, value in given.items()})
    try:
        parts = plan_batch(options)
    except TidelogError:
        return None
    ids = {url: known for part in parts for url, known in part.ids.items()}
    return options, [split for part in parts for split in part.splits], ids


def outcome(part: SplitPartition, options: SourceOptions, caplog: Any) -> tuple[object, ...]:
    """What reading gives: rows, the error, and what the log is told."""
    wanted = Wanted.of(source_schema(options), typed_source(options))
    rows: list[Any] = []
    error = None
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        try:
            for one in read_part(part, options, wanted):
                one.validate(full=True)
                rows += one.to_pylist()
        except (TidelogError, OSError) as raised:
            error = (type(raised), str(raised))
            rows.clear()  # how many came out before it depends on how they are put together
    return rows, error, [record.getMessage() for record in caplog.records]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def switch(on: bool) -> None:
        monkeypatch.setattr(batch, "is_small", (lambda split: False) if on else is_small)

    is_small = batch.is_small
    return switch


def compare(
    root: Path, given: dict[str, object], dice: random.Random, alone: Callable[[bool], None], caplog: Any
) -> int:
    """How many rows there were both ways."""
    plan = planned(root, given)
    if plan is None:
        return 0
    options, splits, ids = plan
    if dice.random() < 0.7:
        disturb(root, dice)
    part = SplitPartition(splits, ids)
    alone(True)
    one_by_one = outcome(part, options, caplog)
    alone(False)
    together = outcome(part, options, caplog)
    assert together == one_by_one
    rows = len(one_by_one[0])  # type: ignore[arg-type]
    if one_by_one[1] is not None:  # an error ends all: look at each kind of split with its neighbour too
        for n in range(len(splits)):
            pair = SplitPartition(splits[n : n + 2], ids)
            alone(True)
            found = outcome(pair, options, caplog)
            alone(False)
            assert outcome(pair, options, caplog) == found
            rows += len(found[0])  # type: ignore[arg-type]
    return rows


def check_seeds(seeds: range, tmp_path: Path, alone: Callable[[bool], None], caplog: Any) -> None:
    rows = 0
    for seed in seeds:
        dice = random.Random(seed)
        given = OPTIONS[seed % len(OPTIONS)]
        root = make_root(tmp_path / str(seed), dice, damaged="corrupt" in given and dice.random() < 0.5)
        rows += compare(root, given, dice, alone, caplog)
    assert rows


@pytest.mark.parametrize("first", range(0, 48, 16))
def test_as_one_by_one(first: int, tmp_path: Path, alone: Callable[[bool], None], caplog: Any) -> None:
    check_seeds(range(first, first + 16), tmp_path, alone, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 1000, 100))
def test_as_one_by_one_many(first: int, tmp_path: Path, alone: Callable[[bool], None], caplog: Any) -> None:
    check_seeds(range(first, first + 100), tmp_path, alone, caplog)


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """Of each bundle, how many tasks it had and which of them were read by themselves."""
    seen: list[tuple[int, list[int]]] = []
    read = bundles.read_bundle

    def noted(tasks: Any, *arguments: Any, **keywords: Any) -> Iterator[Any]:
        odd: list[int] = []
        seen.append((len(tasks), odd))
        for found in read(tasks, *arguments, **keywords):
            if isinstance(found, int):
                odd.append(found)
            yield found

    monkeypatch.setattr(batch, "read_bundle", noted)
    return seen


def plain_root(root: Path, count: int, topics: str = "ab") -> Path:
    for n in range(count):
        topic = topics[n * len(topics) // count]
        with LogBuilder(root / f"{topic}-{n}") as log:
            log.append([Record(f"{topic}{n}.{m}".encode(), timestamp=m) for m in range(3)])
        (root / f"{topic}-{n}" / "partition.metadata").write_text(IDS["ab".index(topic)])
    return root


def values(part: SplitPartition, options: SourceOptions) -> list[tuple[str, int, int, bytes]]:
    wanted = Wanted.of(source_schema(options), typed_source(options))
    return [
        (row["topic"], row["partition"], row["offset"], row["value"])
        for one in read_part(part, options, wanted)
        for row in one.to_pylist()
    ]


def test_neighbours_of_one_that_is_out_of_the_ordinary_are_read_together(
    tmp_path: Path, bundled: list[tuple[int, list[int]]]
) -> None:
    plan = planned(plain_root(tmp_path, 40), {"failOnDataLoss": False})
    assert plan is not None
    options, splits, ids = plan
    logs = [f"{split.tasks[0].source}" for split in splits]
    flip_bit(logs[3], 70)
    flip_bit(logs[17], 45)
    Path(logs[20]).unlink()
    (Path(logs[39]).parent / "partition.metadata").write_text(IDS[2])
    rows = values(SplitPartition(splits, ids), options)
    whole = [split for n, split in enumerate(splits) if n not in (3, 17, 20, 39)]
    assert rows == [
        (one.topic, one.partition, m, f"{one.topic}{one.partition}.{m}".encode())
        for one in whole
        for m in range(3)
    ]
    assert bundled == [(40, [3, 17, 20, 39])]


def test_what_does_not_decode_is_read_alone_and_the_rest_together(
    tmp_path: Path, bundled: list[tuple[int, list[int]]]
) -> None:
    """A batch whose checksum is right and whose records are not those that the header tells."""
    from tidelog.records.checksums import crc32c

    root = plain_root(tmp_path, 10, "a")
    for number in (4, 9):
        (log,) = (root / f"a-{number}").glob("*.log")
        data = bytearray(log.read_bytes())
        data[-5:] = b"\xff" * 5
        data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
        log.write_bytes(data)
    plan = planned(root, {"failOnDataLoss": False})
    assert plan is not None
    rows = values(SplitPartition(plan[1], plan[2]), plan[0])
    assert [row[1] for row in rows] == [n for n in range(10) if n not in (4, 9) for _ in range(3)]
    assert bundled == [(10, [4, 9])]


def test_records_that_lie_about_their_offsets_are_cut_as_before(tmp_path: Path) -> None:
    """Of a range that ends in the log, by a header that says so, and by records that go further."""
    plain_root(tmp_path, 2, "a")
    plan = planned(tmp_path, {})
    assert plan is not None
    tasks = [replace(split.tasks[0], end_offset=2) for split in plan[1]]
    found = list(
        bundles.read_bundle(
            tasks, Wanted.of(source_schema(plan[0])).projection, max_rows=9, max_bytes=99, gapless=False
        )
    )
    assert found == [0, 1]  # the batch lies across the end
    assert [len(one) for task in tasks for one in run_task(task, bundles.Projection(("offset",)))] == [2, 2]


def test_tasks_travel_whole(tmp_path: Path) -> None:
    plan = planned(plain_root(tmp_path, 2), {})
    assert plan is not None
    for split in plan[1]:
        there = pickle.loads(pickle.dumps(split)).tasks[0]
        assert there == split.tasks[0]
        assert there.planned_ns == split.tasks[0].planned_ns


@pytest.mark.parametrize(("rows", "size"), [(1, 1 << 20), (4, 1 << 20), (1000, 1), (1000, 700)])
def test_bounds_of_batches(tmp_path: Path, rows: int, size: int) -> None:
    """However small they are, all records come, each task's to its end before it is said to be read."""
    plan = planned(plain_root(tmp_path, 30), {})
    assert plan is not None
    tasks: list[ScanTask] = [split.tasks[0] for split in plan[1]]
    projection = bundles.Projection(("partition", "offset"))
    found: list[tuple[int, int]] = []
    for one in bundles.read_bundle(tasks, projection, max_rows=rows, max_bytes=size, gapless=True):
        again = run_task(tasks[one], projection) if isinstance(one, int) else [one]
        for each in again:
            found += [(row["partition"], row["offset"]) for row in each.to_pylist()]
    assert found == [(task.partition, m) for task in tasks for m in range(3)]
