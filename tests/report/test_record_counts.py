"""What the report tells of records: compression and keys, against the records themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tests.golden import GOLDEN
from tidelog.report.counts import HOUR_MS, Hours
from tidelog.report.facts import gather
from tidelog.report.record_counts import FrequentKeys
from tidelog.report.tables import rows_of
from tidelog.testing.builders import LogBuilder, flip_bit
from tidelog.types import Codec

CLEAN = GOLDEN / "clean"


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return gather(CLEAN, records=True)


def keys_of(path: str) -> list[bytes | None]:
    """The keys of a partition, committed or not, without control records."""
    found: list[bytes | None] = tidelog.scan(path, columns=["key"]).read_all()["key"].to_pylist()
    return found


def test_keys_are_those_of_the_records(facts: dict[str, Any]) -> None:
    told = rows_of(facts["keys"])
    seen = 0
    for at, row in enumerate(rows_of(facts["partitions"])):
        if row["is_internal"] or row["state"] != "live":
            continue
        keys = keys_of(row["path"])
        counts = Counter(key for key in keys if key is not None)
        assert (row["null_keys"], row["keyed_records"]) == (keys.count(None), counts.total())
        assert row["distinct_keys"] == pytest.approx(len(counts), rel=0 if len(counts) < 1024 else 0.1)
        mine = [one["records"] for one in told if one["at"] == at]
        assert mine == sorted(counts.values(), reverse=True)[:10]
        seen += len(mine)
    assert seen > 10


def test_records_count_for_the_hour_of_their_timestamp(facts: dict[str, Any]) -> None:
    hours = rows_of(facts["hours"])
    for at, row in enumerate(rows_of(facts["partitions"])):
        if row["is_internal"] or row["state"] != "live":
            continue
        times = tidelog.scan(row["path"], columns=["timestamp_ms"]).read_all()["timestamp_ms"].to_pylist()
        mine = {one["hour"]: one["records"] for one in hours if one["at"] == at}
        assert {hour: count for hour, count in mine.items() if count} == Counter(
            time // HOUR_MS for time in times
        )
        assert sum(one["batches"] for one in hours if one["at"] == at) == row["batches"]


def test_hours_of_two_widths_are_put_together() -> None:
    batches, records = Hours.of(2, [[0, 0, 100, 1], [2, 0, 50, 1]]), Hours.of(1, [[1, 7, 0, 0], [5, 9, 0, 0]])
    records.join(batches)
    assert (records.width, records.rows()) == (2, [[0, 7, 100, 1], [2, 0, 50, 1], [4, 9, 0, 0]])


def test_codecs_tell_what_they_save(facts: dict[str, Any]) -> None:
    topics = facts["partitions"]["topic"]
    found = {(topics[row["at"]], row["codec"]): row for row in rows_of(facts["codecs"])}
    for (_, codec), row in found.items():
        assert row["compression_ratio"] == pytest.approx(row["uncompressed_bytes"] / row["bytes"], abs=1e-3)
        if codec == "none":
            assert row["uncompressed_bytes"] == row["bytes"]
    named = [codec for _, codec in found]
    assert {"none", "gzip", "snappy", "lz4", "zstd"} <= set(named)


def test_the_same_records_are_as_large_before_each_codec(tmp_path: Path) -> None:
    for number, codec in enumerate(Codec):
        LogBuilder(tmp_path / f"orders-{number}").records(500, per_batch=50, codec=codec).close()
    found = rows_of(gather(tmp_path, records=True)["codecs"])
    assert len({row["uncompressed_bytes"] for row in found}) == 1
    assert all(row["bytes"] < row["uncompressed_bytes"] for row in found if row["codec"] != "none")


def test_nothing_is_decoded_unless_it_is_asked(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "orders-0").records(50, codec=Codec.GZIP).close()
    facts = gather(tmp_path)
    assert not facts["has_records"]
    assert facts["codecs"]["uncompressed_bytes"] == facts["codecs"]["compression_ratio"] == [None]
    assert facts["partitions"]["distinct_keys"] == [None]
    assert facts["keys"]["key"] == []


def test_damage_ends_what_is_told_of_a_segment(tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path / "orders-0").records(100, codec=Codec.GZIP).roll().records(40).close()
    flip_bit(min(directory.glob("*.log")), 200)
    (row,) = rows_of(gather(tmp_path, records=True)["partitions"])
    assert row["keyed_records"] + row["null_keys"] == 40


def test_many_keys_take_bounded_memory_and_counts_are_never_too_high() -> None:
    frequent = FrequentKeys(most=10)
    for turn in range(20):
        keys = [b"often"] * 50 + [b"%d-%d" % (turn, n) for n in range(100)] + [None]
        frequent.add(pa.array(keys, pa.binary()))
        assert len(frequent._counts) <= 40
    (often, *rest) = frequent.rows(5)
    assert often == ["often", 1000]
    assert {count for _, count in rest} == {1}


def test_keys_that_mean_harm_are_told_as_text() -> None:
    frequent = FrequentKeys()
    frequent.add(pa.array([b"\x1b[31mred", b"\xff" * 300], pa.binary()))
    texts = [key for key, _ in frequent.rows()]
    assert all(text.isprintable() and len(text) < 500 for text in texts)
