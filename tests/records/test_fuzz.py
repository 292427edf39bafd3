"""Whatever is done to a batch, reading it answers records or an error of ours, and nothing else happens."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tests.kernels_twin import TWINS, use_twin
from tests.records.mutations import Mutator
from tidelog.errors import CorruptRecordError, TidelogError
from tidelog.records import (
    ALL_COLUMNS,
    RECORD_COLUMNS,
    iter_record_batches,
    read_record_batches,
    scan_batches,
)

SEED = 20_260_101
SELECTIONS: tuple[tuple[str, ...], ...] = (
    RECORD_COLUMNS,
    ALL_COLUMNS,
    ("offset", "timestamp_ms"),
    ("value",),
    ("key", "headers"),
    ("timestamp_ms", "headers", "offset"),
    (),
)


def check(mutant: bytes, columns: tuple[str, ...], **options: Any) -> str:
    """Read a mutant; how it went. What escapes from here is a bug."""
    rows = 0
    caught: TidelogError | None = None
    try:
        for chunk in read_record_batches(mutant, columns=columns, max_decompressed=1 << 22, **options):
            chunk.validate(full=True)
            rows += chunk.num_rows
    except TidelogError as error:
        caught = error
    if isinstance(caught, CorruptRecordError):
        assert 0 <= caught.position <= len(mutant)
        assert str(caught.position) in str(caught)
    if caught is not None:
        return type(caught).__name__
    return "records" if rows else "nothing"


def fuzz(count: int, seed: int) -> Counter[str]:
    mutator = Mutator(seed)
    noise = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        bounds = noise.choice(({}, {}, {}, {"max_rows": 3}, {"max_bytes": 300}))
        seen[check(mutator(), noise.choice(SELECTIONS), **bounds)] += 1
    return seen


EVERY_KIND = {
    "records",
    "TornBatchError",
    "BadLengthError",
    "ChecksumError",
    "UnknownMagicError",
    "UnknownCodecError",
    "BadVarintError",
    "RecordOverrunError",
    "CountMismatchError",
    "CompressionError",
}


def test_mutants_are_read_or_refused() -> None:
    seen = fuzz(5000, SEED)
    assert set(seen) >= EVERY_KIND


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_very_many_mutants_are_read_or_refused() -> None:
    seen = fuzz(120_000, SEED + 1)
    assert seen.total() == 120_000
    assert set(seen) >= EVERY_KIND


def outcome(mutant: bytes, way: str, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """All there is to know about reading a mutant: the records, then where and why it ended."""
    chunks: list[pa.RecordBatch] = []
    try:
        if way == "one pass":
            chunks.extend(read_record_batches(mutant, columns=columns, max_decompressed=1 << 20))
        else:
            scan = scan_batches(mutant)
            chunks.extend(iter_record_batches(mutant, scan.table, columns=columns, max_decompressed=1 << 20))
            scan.require()
    except CorruptRecordError as error:
        end = (type(error).__name__, error.reason, error.position, error.offset)
    except TidelogError as error:
        end = (type(error).__name__, str(error), -1, None)
    else:
        end = ("", "", -1, None)
    return [row for chunk in chunks for row in chunk.to_pylist()], *end


def agree(count: int, seed: int) -> None:
    mutator = Mutator(seed, max_size=700)
    for _ in range(count):
        mutant = mutator()
        columns = ("key", "value", "headers", "offset", "timestamp_ms", "sequence")
        answers = []
        for which in TWINS:
            with use_twin(which):
                answers += [outcome(mutant, way, columns) for way in ("one pass", "scan first")]
        first, *others = answers
        for other in others:
            assert first == other, mutant.hex()


def test_compiled_and_plain_kernels_agree_on_mutants() -> None:
    agree(150, SEED + 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_compiled_and_plain_kernels_agree_on_very_many_mutants() -> None:
    agree(6000, SEED + 3)
