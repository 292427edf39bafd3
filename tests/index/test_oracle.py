"""The same steps on Kafka's own index classes: the same answers, the same refusals, the same bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import IndexFullError, IndexOffsetOverflowError, OffsetsOutOfOrderError, TidelogError
from tidelog.index import AbortedTxn, ActiveOffsetIndex, ActiveTimeIndex, TransactionIndex
from tidelog.storage import Directory
from tidelog.types import OffsetPosition

if TYPE_CHECKING:
    from tests.oracle import Oracle
    from tests.oracle.jars import Programs

pytestmark = pytest.mark.usefixtures("kernel")

Step = list[Any]

REFUSALS: dict[str, set[type[TidelogError]]] = {
    "InvalidOffsetException": {OffsetsOutOfOrderError, IndexOffsetOverflowError},
    "IllegalStateException": {OffsetsOutOfOrderError},
    "IllegalArgumentException": {IndexFullError, OffsetsOutOfOrderError},
    "IndexOffsetOverflowException": {IndexOffsetOverflowError},
}


def state(index: ActiveOffsetIndex | ActiveTimeIndex) -> list[int]:
    return [index.entries, index.max_entries, int(index.is_full), index.length]


def common(index: ActiveOffsetIndex | ActiveTimeIndex, step: Step) -> list[int]:
    match step:
        case ["truncate_to", offset]:
            index.truncate_to(offset)
        case ["resize", size]:
            index.resize(size)
        case ["trim"]:
            index.trim_to_valid_size()
        case ["reset"]:
            index.reset()
    return state(index)


def on_offset(index: ActiveOffsetIndex, step: Step) -> list[int]:
    match step:
        case ["append", offset, position]:
            index.append(offset, position)
            return state(index)
        case ["lookup", target]:
            found = index.lookup(target)
            return [found.offset, found.position]
        case ["upper", position, size]:
            bound = index.fetch_upper_bound_offset(OffsetPosition(0, position), size)
            return [] if bound is None else [bound.offset, bound.position]
        case ["last"]:
            return [index.last_offset]
    return common(index, step)


def on_time(index: ActiveTimeIndex, step: Step) -> list[int]:
    match step:
        case ["append", timestamp, offset, skip]:
            index.maybe_append(timestamp, offset, skip_full_check=bool(skip))
            return state(index)
        case ["lookup", target]:
            found = index.lookup(target)
            return [found.timestamp, found.offset]
        case ["last"]:
            return [index.last_entry.timestamp, index.last_entry.offset]
    return common(index, step)


def on_txn(index: TransactionIndex, step: Step) -> list[int]:
    match step:
        case ["append", *fields]:
            index.append(AbortedTxn(*fields))
        case ["collect", fetch, upper]:
            found, complete = index.collect_aborted_txns(fetch, upper)
            flat = [
                number
                for txn in found
                for number in (txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
            ]
            return [int(complete), *flat]
        case ["truncate_to", offset]:
            index.truncate_to(offset)
        case ["reset"]:
            index.reset()
    return []


def offset_steps(rng: random.Random, index: ActiveOffsetIndex) -> Step:
    last, base = index.last_entry, index.base_offset
    return rng.choice(
        [
            *[["append", last.offset + rng.randint(0, 5), last.position + rng.randint(1, 90)]] * 6,
            ["append", base + rng.choice([-1, 2**31, 2**31 - 1]), last.position + 1],
            *[["lookup", base + rng.randint(-2, max(1, last.offset - base + 3))]] * 4,
            *[["upper", rng.randint(0, last.position + 5), rng.randint(0, 40)]] * 2,
            [
                "upper",
                *rng.choice(
                    [(entry.position, 0) for entry in map(index.entry, range(index.entries))] or [(1, 0)]
                ),
            ],
            ["last"],
            *resize_steps(rng, index, last.offset),
        ]
    )


def time_steps(rng: random.Random, index: ActiveTimeIndex) -> Step:
    # Kafka stores half an entry before it refuses the slot behind the last, or an offset below the base.
    last = index.last_entry
    skip = rng.randint(0, 1) if index.entries < index.max_entries else 0
    offset = max(index.base_offset, last.offset + rng.randint(-1, 9))
    return rng.choice(
        [
            *[["append", last.timestamp + rng.randint(-1, 9), offset, skip]] * 6,
            *[["lookup", rng.randint(-3, last.timestamp + 5)]] * 4,
            ["last"],
            *resize_steps(rng, index, last.offset),
        ]
    )


def resize_steps(rng: random.Random, index: ActiveOffsetIndex | ActiveTimeIndex, last: int) -> list[Step]:
    if rng.random() < 0.85:
        return []
    return [
        ["truncate_to", rng.randint(index.base_offset - 1, last + 1)],
        ["resize", index.size_in_bytes + rng.randint(0, 90)],
        ["trim"],
        ["reset"],
    ]


def txn_steps(rng: random.Random, txns: list[AbortedTxn]) -> Step:
    last = txns[-1].last_offset if txns else 0
    end = last + rng.randint(0 if txns else 1, 6)
    collect = sorted([rng.randint(0, last + 5), rng.randint(0, last + 5)])
    return rng.choice(
        [
            *[
                [
                    "append",
                    rng.randint(0, 3),
                    max(0, end - rng.randint(0, 9)),
                    end,
                    end + 1 - rng.randint(0, 8),
                ]
            ]
            * 4,
            *[["collect", collect[0], collect[1] + 1]] * 4,
            *([["truncate_to", rng.randint(0, last + 2)]] if rng.random() < 0.1 else []),
            *([["reset"]] if rng.random() < 0.05 else []),
        ]
    )


def outcome(call: Any, step: Step) -> Any:
    try:
        return call(step)
    except TidelogError as error:
        return type(error)


def compare(
    kafka: Programs, cases: list[dict[str, Any]], ours: list[list[Any]], files: list[tuple[Path, Path]]
) -> None:
    for case, mine, theirs in zip(
        cases, ours, kafka.ask("tidelog.oracle.Indexes", {"cases": cases}), strict=True
    ):
        for at, (step, my_answer, answer) in enumerate(zip(case["steps"], mine, theirs, strict=True)):
            where = f"{case['kind']} index, step {at}: {step}"
            if isinstance(answer, str):
                assert my_answer in REFUSALS[answer], where
            else:
                assert my_answer == answer, where
    for mine, theirs in files:
        assert mine.read_bytes() == theirs.read_bytes()


def test_offset_and_time_indexes(oracle: Oracle, tmp_path: Path) -> None:
    cases, ours, files = [], [], []
    for seed in range(60):
        rng = random.Random(seed)
        kind = ("offset", "time")[seed % 2]
        base, size = rng.choice([0, 5, 2**40]), rng.choice([24, 67, 200, 12_000])
        paths = [tmp_path / side / str(seed) for side in ("ours", "theirs")]
        for path in paths:
            path.mkdir(parents=True)
        directory = Directory(paths[0])
        index = (ActiveOffsetIndex if kind == "offset" else ActiveTimeIndex)(directory, base, size)
        steps, answers = [], []
        for _ in range(3000 if size == 12_000 else 150):
            if isinstance(index, ActiveOffsetIndex):
                steps.append(offset_steps(rng, index))
                answers.append(outcome(lambda step, index=index: on_offset(index, step), steps[-1]))
            else:
                steps.append(time_steps(rng, index))
                answers.append(outcome(lambda step, index=index: on_time(index, step), steps[-1]))
        index.close()
        files.append((Path(index.path), paths[1] / index.name))
        cases.append({"kind": kind, "base": base, "max": size, "file": str(files[-1][1]), "steps": steps})
        ours.append(answers)
    compare(oracle.programs, cases, ours, files)


def test_indexes_out_of_order(oracle: Oracle, tmp_path: Path) -> None:
    """Whatever bytes are in the file, a look-up answers as Kafka's does."""
    cases, ours = [], []
    for seed in range(40):
        rng = random.Random(seed)
        kind, entry_size = (("offset", 8), ("time", 12))[seed % 2]
        path = tmp_path / str(seed)
        path.mkdir()
        small = bytes(rng.choice([0, 0, 0, 1, 2, 3]) for _ in range(entry_size * rng.randint(0, 40)))
        data = rng.choice([small, rng.randbytes(entry_size * rng.choice([1, 7, 3000]) + 3)])
        directory = Directory(path)
        index = ActiveOffsetIndex if kind == "offset" else ActiveTimeIndex
        name = f"{0:020}.{'index' if kind == 'offset' else 'timeindex'}"
        for side in (name, f"kafkas.{name}"):
            (path / side).write_bytes(data)
        opened = index(directory, 0, 80)
        targets = [rng.randint(-(2**31), 2**31), rng.randint(-(2**62), 2**62), 0, 1, 258, 2**24, 2**63 - 1]
        steps: list[Step] = [["lookup", rng.choice([target, target // 65536])] for target in targets * 4]
        if kind == "offset":
            steps += [["upper", rng.randint(0, 2**30), rng.randint(0, 2**29)] for _ in range(8)]
        call: Any = on_offset if kind == "offset" else on_time
        ours.append([call(opened, step) for step in steps])
        opened.abandon()
        cases.append(
            {"kind": kind, "base": 0, "max": 80, "file": str(path / f"kafkas.{name}"), "steps": steps}
        )
    compare(oracle.programs, cases, ours, [])


def test_transaction_indexes(oracle: Oracle, tmp_path: Path) -> None:
    cases, ours, files = [], [], []
    for seed in range(20):
        rng = random.Random(seed)
        paths = [tmp_path / side / str(seed) for side in ("ours", "theirs")]
        for path in paths:
            path.mkdir(parents=True)
        index = TransactionIndex(Directory(paths[0]), 0)
        index.append(AbortedTxn(0, 0, 0, 0))
        steps: list[Step] = [["append", 0, 0, 0, 0]]
        answers: list[Any] = [[]]
        for _ in range(150):
            steps.append(txn_steps(rng, index.all_aborted_txns()))
            answers.append(outcome(lambda step, index=index: on_txn(index, step), steps[-1]))
        index.close()
        files.append((Path(index.path), paths[1] / index.name))
        cases.append({"kind": "txn", "base": 0, "max": 0, "file": str(files[-1][1]), "steps": steps})
        ours.append(answers)
    compare(oracle.programs, cases, ours, files)
