"""Kafka's own Cleaner, and compaction whose passes are done by tasks: what is left is the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cleanup.test_cleaner_kafka import CONFIG, DAY_MS, NOW_MS, Pair, at, write
from tests.oracle.oracle import CODECS, KINDS
from tests.spark.in_process import distributed

if TYPE_CHECKING:
    from tests.oracle import Oracle


@pytest.mark.parametrize(
    ("seed", "kinds", "codecs"),
    [(2, KINDS, ("none",)), (5, ("transactional", "horizon"), CODECS)],
    ids=str,
)
def test_logs_are_left_as_by_kafka(
    seed: int, kinds: tuple[str, ...], codecs: tuple[str, ...], oracle: Oracle, tmp_path: Path
) -> None:
    source = write(oracle, tmp_path, seed=seed, batches=300, kinds=kinds, codecs=codecs)
    pair = Pair(oracle, source, tmp_path, distributed(tmp_path / "staging"))
    pair.clean(*(at(NOW_MS + after) for after in (0, DAY_MS - 1, 2 * DAY_MS, 4 * DAY_MS)))
    pair.let_kafka_open_ours(tmp_path / "opened")


def test_a_small_map_ends_rounds_where_kafkas_do(oracle: Oracle, tmp_path: Path) -> None:
    source = write(oracle, tmp_path, seed=21, batches=120, kinds=KINDS, codecs=("none", "lz4"))
    small = {"map_bytes": 24 * 30, "load_factor": 0.9}
    pair = Pair(oracle, source, tmp_path, distributed(tmp_path / "staging", 30_000))
    answer, _ = pair.clean(at(NOW_MS, **small), at(NOW_MS + 2 * DAY_MS, **small))
    assert len(answer["end_offsets"]) > 2


def test_messages_of_old_formats_become_batches(oracle: Oracle, tmp_path: Path) -> None:
    """Their tombstones go by the times of the files, which tasks keep."""
    oracle.write_legacy(tmp_path / "source", seed=5, segments=3, sets=25, config=CONFIG)
    for magic in (0, 1):
        source = tmp_path / "source" / f"legacy-v{magic}-gzip-0"
        scratch = tmp_path / str(magic)
        pair = Pair(oracle, source, scratch, distributed(scratch / "staging"), internal_segment_bytes=3000)
        pair.clean(at(NOW_MS, first_dirty=60), at(NOW_MS + 2 * DAY_MS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
def test_many_more_logs(seed: int, oracle: Oracle, tmp_path: Path) -> None:
    source = write(
        oracle, tmp_path, seed=seed, batches=300, max_records=1 + seed % 20, kinds=(*KINDS, "horizon")
    )
    by = distributed(tmp_path / "staging", 1 + seed % 3 * 20_000)
    pair = Pair(oracle, source, tmp_path, by, internal_segment_bytes=5000 + 3000 * (seed % 7))
    pair.clean(*(at(NOW_MS + days * DAY_MS) for days in range(5)))
