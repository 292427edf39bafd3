"""Whatever is done to a batch, cleaning leaves sound batches or raises an error of ours, on both twins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.kernels_twin import TWINS, use_twin
from tests.records.mutations import Mutator
from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.filtering import ActiveProducers, BatchRules
from tidelog.cleanup.mapping import map_keys
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.rewriting import Rewriter
from tidelog.errors import TidelogError
from tidelog.records import decode_records, scan_batches
from tidelog.records.batches import BatchTable

SEED = 20_260_102
NOW_MS = 1_700_000_000_000


def clean(data: bytes) -> tuple[Any, ...]:
    """Both passes over batches in memory: what they leave and count, or the error."""
    offsets = OffsetMap(24 * 1000, hash_key=bytes(16))
    rules = BatchRules(NOW_MS, 1000, 1 << 40, ActiveProducers.of({}))
    written: list[bytes] = []

    def sink(part: memoryview, table: BatchTable, changed: bool) -> None:
        assert np.array_equal(scan_batches(part).require().rows[:, :14], table.rows[:, :14])
        written.append(bytes(part))

    try:
        map_keys(memoryview(data), offsets, start_offset=0, next_offset=1 << 40)
        rewriter = Rewriter(offsets, rules, sink)
        rewriter.rewrite(memoryview(data), CleanedTransactions(), keep_legacy_deletes=True)
    except TidelogError as error:
        return type(error).__name__, str(error)
    return "cleaned", b"".join(written), rewriter.stats, offsets.to_bytes(), offsets.latest_offset


def fuzz(count: int, seed: int) -> Counter[str]:
    """Clean mutants; how often what came out."""
    mutator = Mutator(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        found = clean(mutator())
        if found[0] == "cleaned":
            assert sum(1 for _ in decode_records(found[1])) == found[2].records_kept
        seen[found[0]] += 1
    return seen


def test_mutants_are_cleaned_or_refused() -> None:
    seen = fuzz(1500, SEED)
    assert seen["cleaned"] > 150
    assert {"ChecksumError", "TornBatchError", "RecordOverrunError", "CountMismatchError"} <= seen.keys()


@pytest.mark.slow
def test_very_many_mutants_are_cleaned_or_refused() -> None:
    assert fuzz(30_000, SEED + 1)["cleaned"] > 3000


def test_the_twins_agree_on_mutants() -> None:
    mutator = Mutator(SEED + 2, max_size=1500)
    mutants = [mutator() for _ in range(250)]
    answers = []
    for which in TWINS:
        with use_twin(which):
            answers.append([clean(mutant) for mutant in mutants])
    for compiled, plain in zip(*answers, strict=True):
        assert plain == compiled
