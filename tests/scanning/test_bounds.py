"""One resolver: what offsets a reader means, and what damage does to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import CorruptRecordError, InvalidInputError
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.scanning.bounds import AtDamage, AtTime, OffsetBound, find_offset, resolve, visible
from tidelog.scanning.partitions import Partition, find_partitions
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.tasks import NO_END

FIRST_MS = 1_700_000_000_000


def written(tmp_path: Path, *, undecided: bool = False) -> Partition:
    """Ten records a second apart, from offset 2 on; then one of an open transaction."""
    with Log.open(tmp_path / "t-0") as log:
        for number in range(10):
            log.append_as_leader([Record(b"value", timestamp=FIRST_MS + number * 1000)])
        log.update_high_watermark(10)
        log.delete_records(2)
        if undecided:
            in_txn = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
            log.append_as_leader(encode_records([Record(b"?", timestamp=FIRST_MS + 10_000)], **in_txn))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    return again(tmp_path)


def again(tmp_path: Path) -> Partition:
    (partition,) = find_partitions(str(tmp_path))
    return partition


def bounds(one: Partition, start: OffsetBound, end: OffsetBound, at_damage: AtDamage) -> tuple[int, int]:
    found = resolve(one, start, end, visible(one, at_damage=at_damage), at_damage)
    return found.start, found.end


@pytest.mark.parametrize("at_damage", AtDamage)
def test_offsets_times_and_the_logs_own_ends(tmp_path: Path, at_damage: AtDamage) -> None:
    one = written(tmp_path)
    assert bounds(one, None, None, at_damage) == (2, 10)
    assert bounds(one, 0, 99, at_damage) == (2, 10)
    assert bounds(one, 4, 7, at_damage) == (4, 7)
    assert bounds(one, AtTime(FIRST_MS + 2500), AtTime(FIRST_MS + 5000), at_damage) == (3, 5)
    assert bounds(one, AtTime(FIRST_MS + 99_000), None, at_damage) == (10, 10)
    with pytest.raises(InvalidInputError, match="0 or more"):
        bounds(one, -1, None, at_damage)


def test_committed_reads_end_at_the_last_stable_offset(tmp_path: Path) -> None:
    one = written(tmp_path, undecided=True)
    seen = visible(one, committed_only=True, at_damage=AtDamage.STOP)
    assert (seen.log_end, seen.end) == (11, 10)
    assert resolve(one, None, None, seen, AtDamage.STOP).end == 10
    assert find_offset(one, AtTime(FIRST_MS + 99_000), 0, seen) == 11


def test_damage_fails_is_met_or_ends_the_range(tmp_path: Path) -> None:
    written(tmp_path)
    log = tmp_path / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[16 - 2 * len(data) // 10] = 9  # the magic of the last batch but one
    log.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        visible(again(tmp_path), at_damage=AtDamage.FAIL)
    assert bounds(again(tmp_path), None, None, AtDamage.STOP) == (2, 8)
    assert bounds(again(tmp_path), None, None, AtDamage.MEET) == (2, NO_END)
    assert bounds(again(tmp_path), None, 5, AtDamage.MEET) == (2, 5)
    assert isinstance(visible(again(tmp_path), at_damage=AtDamage.STOP).fault, CorruptRecordError)


def test_the_last_offsets_of_a_range(tmp_path: Path) -> None:
    whole = OffsetRange(written(tmp_path), 2, 10)
    assert (whole.last(3).start, whole.last(3).end) == (7, 10)
    assert whole.last(99) == whole
