"""Rewrites of what Kafka wrote: everything that was not meant is as it was, with its offset."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.rewriting.rewritten import COLUMNS, DATA, LEGACY, files, records, root_with, run, without
from tidelog.config import LogConfig
from tidelog.doctor.fixing import empty_quarantine, undo_last
from tidelog.log import Log
from tidelog.manager.verification import Kind, verify_partition
from tidelog.records.batches import scan_batches
from tidelog.rewriting.edits import Edits, Span
from tidelog.scanning.filters import RecordFilter
from tidelog.storage import LOCAL
from tidelog.types import Codec

BY_KEY = RecordFilter(key_match="[37]$")


def is_meant(table: pa.Table) -> pa.Array:
    return pc.match_substring_regex(table["key"], "[37]$")


def check(root: Path, name: str) -> None:
    """The partition is sound."""
    found = [one for one in verify_partition(LOCAL, str(root / name)).findings if one.kind is Kind.DAMAGE]
    assert found == []


def log_end(root: Path, name: str) -> int:
    with Log.open(root / name, LogConfig(), clean=True) as log:
        return log.log_end_offset


@pytest.mark.parametrize("name", DATA + LEGACY)
def test_erased_records_leave_all_others_as_they_were(tmp_path: Path, name: str) -> None:
    root = root_with(tmp_path / "root", name)
    before, end = records(root, name), log_end(root, name)
    done = run(root, Edits(BY_KEY, erase=True), name)
    columns = [one for one in COLUMNS if one != "timestampType"] if name in LEGACY else list(COLUMNS)
    assert records(root, name).select(columns) == without(before, is_meant(before)).select(columns)
    assert log_end(root, name) == end
    check(root, name)
    erased = done.partitions[0].stats.records_erased
    assert erased == pc.sum(pc.fill_null(is_meant(before), False)).as_py() > 0
    again = run(root, Edits(BY_KEY, erase=True), name)
    assert again.partitions[0].changed == 0
    assert again.run is None


@pytest.mark.parametrize("name", ["golden-none-0", "golden-zstd-0", "golden-txn-0", *LEGACY])
def test_redacted_values_leave_all_else_as_it_was(tmp_path: Path, name: str) -> None:
    root = root_with(tmp_path / "root", name)
    before = records(root, name)
    edits = Edits(BY_KEY, redact=("value", "headers"), replacement=b"gone")
    run(root, edits, name)
    after, meant = records(root, name), pc.fill_null(is_meant(before), False)
    same = [one for one in COLUMNS if one not in ("value", "headers", "timestampType")]
    assert after.select(same) == before.select(same)
    assert set(after.filter(meant)["value"].to_pylist()) == {b"gone"}
    assert set(map(bool, after.filter(meant)["headers"].to_pylist())) == {False}
    assert without(after, meant).select(["value", "headers"]) == without(before, meant).select(
        ["value", "headers"]
    )
    check(root, name)
    assert run(root, edits, name).partitions[0].changed == 0


def test_a_redacted_key_or_value_can_be_null(tmp_path: Path) -> None:
    root = root_with(tmp_path / "root", "golden-multi-0")
    before = records(root, "golden-multi-0")
    span = Span(start_offset=100, end_offset=200)
    run(root, Edits(span=span, redact=("key", "value")), "golden-multi-0")
    after = records(root, "golden-multi-0")
    inside = pc.and_(pc.greater_equal(before["offset"], 100), pc.less(before["offset"], 200))
    assert after.filter(inside)["key"].null_count == after.filter(inside)["value"].null_count == 100
    assert without(after, inside) == without(before, inside)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_becomes_another(tmp_path: Path, codec: Codec) -> None:
    names = ("golden-none-0", "golden-trimmed-0", "golden-appendtime-0", "golden-txn-0", LEGACY[0])
    root = root_with(tmp_path / "root", *names)
    before = {name: records(root, name) for name in names}
    edits = Edits(codec=codec, level=3 if codec is Codec.ZSTD else None)
    done = run(root, edits, *names)
    assert sum(one.changed for one in done.partitions) > 0
    for name in names:
        columns = [one for one in COLUMNS if one != "timestampType"] if name in LEGACY else list(COLUMNS)
        assert records(root, name).select(columns) == before[name].select(columns)
        check(root, name)
        for log in (root / name).glob("*.log"):
            table = scan_batches(log.read_bytes()).require()
            assert set(table.codec[(table.count > 0) & ~table.is_control].tolist()) <= {codec}
            assert set(table.codec[table.is_control].tolist()) <= {0}
    assert sum(one.changed for one in run(root, edits, *names).partitions) == 0


@pytest.mark.parametrize("name", LEGACY)
def test_old_formats_become_new(tmp_path: Path, name: str) -> None:
    root = root_with(tmp_path / "root", name)
    before = records(root, name, ["offset", "timestamp_ms", "key", "value", "headers"])
    run(root, Edits(upgrade=True), name)
    assert records(root, name, ["offset", "timestamp_ms", "key", "value", "headers"]) == before
    tables = [scan_batches(log.read_bytes()).require() for log in (root / name).glob("*.log")]
    assert {magic for table in tables for magic in table.magic.tolist()} == {2}
    assert sum(len(table) for table in tables) < len(before)
    check(root, name)
    assert run(root, Edits(upgrade=True), name).partitions[0].changed == 0


@pytest.mark.parametrize("name", ["golden-outoforder-0", "golden-appendtime-0", "golden-txn-0", *LEGACY])
def test_timestamps_are_brought_within_bounds(tmp_path: Path, name: str) -> None:
    root = root_with(tmp_path / "root", name)
    before = records(root, name)
    data = before.filter(pc.invert(before["control"]))["timestamp_ms"].to_pylist()
    earliest, latest = sorted(data)[len(data) // 4] + 1, sorted(data)[len(data) * 3 // 4] - 1
    if earliest > latest:
        earliest = latest = data[0] + 1
    if earliest < 1:
        earliest = latest = 1_700_000_000_000
    edits = Edits(earliest_ms=earliest, latest_ms=latest)
    run(root, edits, name)
    after = records(root, name)
    same = [one for one in COLUMNS if one not in ("timestamp_ms", "timestampType")]
    assert after.select(same) == before.select(same)
    for old, new, control in zip(
        before["timestamp_ms"].to_pylist(),
        after["timestamp_ms"].to_pylist(),
        before["control"].to_pylist(),
        strict=True,
    ):
        assert new == (old if control else min(max(old, earliest), latest))
    check(root, name)
    assert run(root, edits, name).partitions[0].changed == 0


@pytest.mark.parametrize("name", ["golden-txn-0", "golden-none-0", "golden-txncompact-0"])
def test_producers_and_transactions_are_remembered(tmp_path: Path, name: str) -> None:
    """Also when all records are erased and the state is built from the batches that are left."""
    root = root_with(tmp_path / "root", name)

    def state(path: Path) -> tuple[object, ...]:
        with Log.open(path, LogConfig(), clean=True, now_ms=lambda: 1_763_200_000_000) as log:
            log.update_high_watermark(log.log_end_offset)
            producers = {
                one.producer_id: (
                    one.producer_epoch,
                    one.last_sequence,
                    one.last_data_offset,
                    one.txn_first_offset,
                )
                for one in log.active_producers.values()
            }
            aborted = log.aborted_transactions(0, log.log_end_offset)
            return producers, log.last_stable_offset, log.log_end_offset, aborted

    before = state(root / name)
    run(root, Edits(span=Span(start_offset=0), erase=True), name)
    left = records(root, name)
    assert pc.all(left["control"]).as_py() is not False
    for path in (root / name).glob("*.snapshot"):
        path.unlink()
    assert state(root / name) == before


def test_nothing_that_is_meant_changes_nothing(tmp_path: Path) -> None:
    root = root_with(tmp_path / "root", "golden-none-0")
    before = files(root)
    times = {path: path.stat().st_mtime_ns for path in (root / "golden-none-0").iterdir()}
    done = run(root, Edits(RecordFilter(key_match="no such key"), erase=True), "golden-none-0")
    assert done.partitions[0].changed == 0
    assert files(root) == before
    assert {path: path.stat().st_mtime_ns for path in (root / "golden-none-0").iterdir()} == times


def test_a_rewrite_is_undone_byte_for_byte(tmp_path: Path) -> None:
    names = ("golden-txn-0", "golden-trimmed-0")
    root = root_with(tmp_path / "root", *names)
    before = files(root)
    done = run(root, Edits(BY_KEY, erase=True), *names)
    assert done.run is not None
    assert files(root) != before
    undo_last(LOCAL, [str(root)])
    assert files(root) == before


def test_snapshots_that_were_missing_are_missing_again_after_an_undo(tmp_path: Path) -> None:
    """Opening the log makes them, at other segments than those that change, too."""
    root = root_with(tmp_path / "root", "golden-none-0", "golden-txn-0")
    for path in root.glob("golden-*/*.snapshot"):
        path.unlink()
    before = files(root)
    run(root, Edits(BY_KEY, erase=True), "golden-none-0", "golden-txn-0")
    undo_last(LOCAL, [str(root)])
    assert files(root) == before


def test_an_emptied_quarantine_holds_nothing(tmp_path: Path) -> None:
    root = root_with(tmp_path / "root", "golden-none-0")
    secret = records(root, "golden-none-0")["value"][5].as_py()
    run(root, Edits(span=Span(5, 6), erase=True), "golden-none-0")
    assert any(secret in data for data in files(root).values())
    assert empty_quarantine(LOCAL, [str(root)])[0] == 1
    assert not any(secret in data for data in files(root).values())
    assert not list(root.rglob(".tidelog*"))


def test_discarded_originals_are_nowhere(tmp_path: Path) -> None:
    root = root_with(tmp_path / "root", "golden-none-0")
    secret = records(root, "golden-none-0")["value"][1559].as_py()
    run(root, Edits(span=Span(1559), erase=True), "golden-none-0", discard=True)
    assert not any(secret in data for data in files(root).values())
    assert not list(root.rglob(".tidelog*"))


def test_missing_and_wrong_indexes_do_not_matter(tmp_path: Path) -> None:
    root = root_with(tmp_path / "root", "golden-none-0")
    before = records(root, "golden-none-0")
    first, second, *_, last = sorted((root / "golden-none-0").glob("*.index"))
    first.unlink()
    second.write_bytes(second.read_bytes()[::-1])
    last.unlink()
    run(root, Edits(BY_KEY, erase=True), "golden-none-0")
    assert records(root, "golden-none-0") == without(before, is_meant(before))
    check(root, "golden-none-0")
