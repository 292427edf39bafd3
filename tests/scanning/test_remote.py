"""Scans through fsspec: the same records as from the disk, and only the bytes that are needed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import fsspec
import pytest

import tidelog
from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tidelog.errors import InvalidInputError
from tidelog.scanning.log_end import log_end_offset, stable_offset
from tidelog.scanning.partitions import find_partitions

NAMES = ("golden-none-0", "golden-txn-0", "golden-trimmed-0")


@pytest.fixture
def root() -> Iterator[str]:
    """Three partitions and the checkpoints in a file system in memory."""
    memory = fsspec.filesystem("memory")
    for path in (GOLDEN / "clean").rglob("*"):
        parts = path.relative_to(GOLDEN / "clean")
        if path.is_file() and (len(parts.parts) == 1 or parts.parts[0] in NAMES):
            memory.pipe_file(f"/scan/clean/{parts}", path.read_bytes())
    yield "memory://scan/clean"
    memory.rm("/scan", recursive=True)


@pytest.mark.parametrize("split_bytes", [1 << 30, 2000])
def test_the_same_records(root: str, split_bytes: int) -> None:
    got = tidelog.scan(root, split_bytes=split_bytes, control_records=True).read_all().to_pylist()
    wanted = [row for name in sorted(NAMES) for row in expected.rows(golden_partition(name))]
    assert got == wanted


def test_checkpoints_and_stable_offsets(root: str) -> None:
    by_name = {str(partition.topic_partition): partition for partition in find_partitions(root)}
    assert by_name["golden-trimmed-0"].log_start_offset == 333
    assert by_name["golden-none-0"].high_watermark == 1560
    txn = by_name["golden-txn-0"]
    assert stable_offset(txn, log_end_offset(txn)) == 1390


def test_times_and_globs(root: str) -> None:
    records = expected.records(golden_partition("golden-none-0"))
    moment = datetime.fromtimestamp(records[800]["timestamp"] / 1000, UTC)
    got = tidelog.scan(f"{root}/golden-n*", columns=["offset"], start=moment).read_all()
    first = next(r["offset"] for r in records if r["timestamp"] >= records[800]["timestamp"])
    assert got["offset"].to_pylist() == list(range(first, 1560))


def test_what_is_not_there(root: str) -> None:
    with pytest.raises(InvalidInputError, match="memory://scan/nowhere does not exist"):
        tidelog.scan("memory://scan/nowhere")
    with pytest.raises(InvalidInputError, match="nothing matches memory://scan/no"):
        tidelog.scan("memory://scan/no*")


def test_a_log_that_grows_is_seen_to_grow(root: str) -> None:
    memory = fsspec.filesystem("memory")
    log = golden_partition("golden-none-0").logs()[-1]
    path = f"/scan/clean/golden-none-0/{log.name}"
    whole = log.read_bytes()
    memory.pipe_file(path, whole[:0])
    assert log_end_offset(find_partitions(f"{root}/golden-none-0")[0]) == int(log.stem)
    memory.pipe_file(path, whole)
    assert log_end_offset(find_partitions(f"{root}/golden-none-0")[0]) == 1560
