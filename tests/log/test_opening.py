"""Opening a log: what crashes leave behind, wrong indexes, lost files, the offsets it begins with."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from tests.log.logs import (
    NOW_MS,
    SMALL,
    Clock,
    all_records,
    contents,
    data_files,
    numbered,
    open_log,
    record,
    send,
)
from tidelog.config import LogConfig
from tidelog.errors import CorruptRecordError, InvalidIndexError, InvalidInputError
from tidelog.log import Log
from tidelog.log.opening.leftovers import orphans, plan_swaps, temporary_files
from tidelog.storage.names import FileKind, Transient, format_segment_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of seven segments, closed."""
    path = tmp_path / "orders-0"
    with open_log(path) as log:
        for number in range(80):
            send(log, 1, 3 * number, *numbered(3, 3 * number), transactional=False)
        assert len(log.segments) > 5
    return path


def _bases(path: Path) -> list[int]:
    return [int(file.stem) for file in sorted(path.glob("*.log"))]


def _name(offset: int, kind: FileKind, transient: Transient = Transient.NONE) -> str:
    return format_segment_file(offset, kind, transient)


# What a crash leaves


def test_files_on_their_way_out_go(path: Path) -> None:
    before = contents(path)
    for name in ("00000000000000000007.log.deleted", "whatever.deleted"):
        (path / name).write_bytes(b"x")
    (path / "00000000000000000000-0000000000.checkpoint.deleted").write_bytes(b"KRaft's own")
    (path / "00000000000000000999.index").write_bytes(b"an index without a log")
    open_log(path).close()
    after = contents(path)
    assert after.pop("00000000000000000000-0000000000.checkpoint.deleted")
    assert after == before


def test_an_unfinished_replacement_is_undone(path: Path) -> None:
    before = contents(path)
    low, high = _bases(path)[1:3]
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        shutil.copy(path / _name(low, kind), path / _name(low, kind, Transient.CLEANED))
        shutil.copy(path / _name(high, kind), path / _name(high, kind, Transient.SWAP))
    open_log(path).close()
    assert contents(path) == before


def test_a_complete_replacement_is_finished(path: Path) -> None:
    first, second, third = _bases(path)[1:4]
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        (path / _name(second, kind)).rename(path / _name(second, kind, Transient.SWAP))
    with open_log(path) as log:
        assert len(all_records(log)) == 240
    assert _name(second, FileKind.LOG) in contents(path)
    # A swapped segment that reaches over several: those are gone.
    data = b"".join((path / _name(base, FileKind.LOG)).read_bytes() for base in (first, second))
    (path / _name(first, FileKind.LOG, Transient.SWAP)).write_bytes(data)
    with open_log(path) as log:
        assert log.segments.base_offsets[:3] == (0, first, third)
        assert [one.offset for one in all_records(log)] == list(range(240))
    assert _name(second, FileKind.SNAPSHOT) not in contents(path)


def test_what_becomes_of_leftovers_is_a_plan() -> None:
    def name(text: str) -> str:
        offset, _, suffix = text.partition(".")
        return f"{int(offset):020}.{suffix}"

    def names(texts: str) -> list[str]:
        return [name(text) for text in texts.split()]

    files = names("0.log 0.index 5.log.cleaned 5.index.swap 7.log.swap 3.log.swap 9.log.deleted 0.snapshot")
    first, then = temporary_files(files)
    assert sorted(first) == names("5.index.swap 7.log.swap 9.log.deleted")
    assert then == names("5.log.cleaned")
    files = names("0.log 0.index 3.log.swap 3.timeindex.swap 3.log 4.index 4.snapshot 6.log 7.log.swap 9.log")
    renamed = [(name(text), name(text[:-5])) for text in ("3.log.swap", "7.log.swap", "3.timeindex.swap")]
    for first_offset in (0, 2, None):
        plan = plan_swaps(files, {3: 5, 7: 8}.__getitem__, {0: first_offset}.__getitem__)
        assert sorted(plan.delete) == names("3.log 4.index 4.snapshot 6.log")
        assert plan.rename == renamed, "logs first"
    plan = plan_swaps(files, {3: 5, 7: 8}.__getitem__, {0: 3}.__getitem__)
    assert sorted(plan.delete) == names("0.index 0.log 3.log 4.index 4.snapshot 6.log"), "0 was split"
    assert orphans(names("0.log 0.index 1.index 2.txnindex 3.snapshot 4.log 5.timeindex.swap")) == names(
        "1.index 2.txnindex"
    )


# Indexes


@pytest.mark.parametrize("clean", [True, False])
def test_indexes_that_do_not_fit_are_rebuilt(path: Path, clean: bool) -> None:
    before = data_files(path)
    last = _bases(path)[-1]
    (path / _name(last, FileKind.OFFSET_INDEX)).write_bytes(bytes(800))
    (path / _name(last, FileKind.TIME_INDEX)).write_bytes(b"\xff" * 120)
    if not clean:
        (path / _name(0, FileKind.OFFSET_INDEX)).write_bytes(bytes(8192))
    with open_log(path, clean=clean, recovery_point=last) as log:
        assert len(all_records(log)) == 240
    assert data_files(path) == before


def test_a_transaction_index_that_cannot_be_read_is_rebuilt(path: Path) -> None:
    before = data_files(path)
    (path / _name(0, FileKind.TXN_INDEX)).write_bytes(b"x" * 35)
    open_log(path).close()
    after = data_files(path)
    assert after.pop(_name(0, FileKind.TXN_INDEX)) == b""
    assert after == before


def test_a_killed_writer_leaves_nothing_that_recovery_cannot_mend(path: Path) -> None:
    """The indexes are preallocated and full of zeros, the last snapshot is missing."""
    before = contents(path)
    log = open_log(path)
    log.append_as_leader([record(1)])
    killed = path.with_name("killed-0")
    shutil.copytree(path, killed)
    log.truncate_to(240)
    log.close()
    assert contents(path).keys() == before.keys()
    with (killed / _name(_bases(killed)[-1], FileKind.LOG)).open("ab") as file:
        file.write(b"a torn batch")
    with open_log(killed, clean=False, recovery_point=240) as log:
        assert log.log_end_offset == 241
        assert log.active_producers[1].last_sequence == 239
        assert len(all_records(log)) == 241


# Lost and damaged files


def test_without_snapshots_the_batches_are_asked(path: Path) -> None:
    """Also after an orderly stop, where Kafka assumes that there were no producers."""
    for file in path.glob("*.snapshot"):
        file.unlink()
    with open_log(path) as log:
        assert log.active_producers[1].last_sequence == 239


def test_damaged_snapshots_are_passed_over(path: Path) -> None:
    newest = sorted(path.glob("*.snapshot"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1] + b"\0")
    with open_log(path) as log:
        assert log.active_producers[1].last_sequence == 239


def test_stray_snapshots_go(path: Path) -> None:
    before = contents(path)
    for offset in (2, 100, 9999):
        shutil.copy(sorted(path.glob("*.snapshot"))[0], path / _name(offset, FileKind.SNAPSHOT))
    with open_log(path):
        pass
    assert contents(path) == before


@pytest.mark.parametrize("how", [{"clean": False}, {"as_kafka": True}])
def test_a_log_that_ends_below_its_start_is_emptied_by_recovery_and_by_kafka(
    path: Path, how: dict[str, bool]
) -> None:
    with open_log(path, log_start_offset=500, **how) as log:
        assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (500, 500, (500,))
        assert not log.epoch_entries
        assert not log.active_producers
        log.append_as_leader([record(0)])
    assert _bases(path) == [500]
    assert [file.name for file in path.glob("*.snapshot")] == [_name(501, FileKind.SNAPSHOT)]


def test_a_log_that_was_closed_in_order_below_its_start_is_refused_and_left_as_it_is(path: Path) -> None:
    before = data_files(path)
    with pytest.raises(InvalidInputError, match=r"ends at offset 240, .* starts at 500.*`tidelog recover"):
        open_log(path, log_start_offset=500)
    assert data_files(path) == before


def test_damage_that_recovery_may_not_cut_is_reported(path: Path) -> None:
    base = _bases(path)[2]
    file = path / _name(base, FileKind.LOG)
    data = bytearray(file.read_bytes())
    data[8:12] = b"\xff" * 4
    file.write_bytes(data)
    for snapshot in path.glob("*.snapshot"):
        snapshot.unlink()
    with pytest.raises(CorruptRecordError, match=file.name):
        open_log(path, clean=False, recovery_point=_bases(path)[-1])
    # After an orderly stop Kafka takes a log without snapshots for one without producers, and opens it.
    for snapshot in path.glob("*.snapshot"):
        snapshot.unlink()
    with open_log(path) as log:
        assert log.read_record(0) is not None
    assert file.read_bytes() == data


def test_what_lies_behind_damage_past_the_recovery_point_goes(path: Path) -> None:
    first, second = _bases(path)[1:3]
    file = path / _name(first, FileKind.LOG)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with open_log(path, clean=False, recovery_point=first) as log:
        assert first < log.log_end_offset < second
        assert [one.offset for one in all_records(log)] == list(range(log.log_end_offset))
    assert _bases(path) == [0, first]


def test_a_batch_that_was_cut_off_hides_only_what_follows_in_its_segment(path: Path) -> None:
    file = path / _name(_bases(path)[1], FileKind.LOG)
    file.write_bytes(file.read_bytes()[:-7])
    for snapshot in path.glob("*.snapshot"):
        snapshot.unlink()
    with open_log(path, clean=False, recovery_point=_bases(path)[-1]) as log:
        assert log.segments.base_offsets == tuple(_bases(path))
        assert log.active_producers


def test_a_damaged_epoch_file_is_an_error(path: Path) -> None:
    (path / "leader-epoch-checkpoint").write_text("0\n1\nnonsense\n")
    with pytest.raises(InvalidIndexError, match="leader-epoch-checkpoint, line 3"):
        open_log(path)


# What it begins with


def test_offsets_of_an_opened_log(path: Path) -> None:
    with open_log(path, log_start_offset=7) as log:
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 7, 240)
        assert log.recovery_point == 240
    with open_log(path, high_watermark=100) as log:
        assert log.high_watermark == 100
    with open_log(path, clean=False, recovery_point=5, log_start_offset=9) as log:
        assert log.recovery_point == 5, "nothing was flushed"
    for base in _bases(path)[:2]:
        for file in path.glob(f"{base:020}.*"):
            file.unlink()
    third = _bases(path)[0]
    with open_log(path) as log:
        assert log.log_start_offset == third


def test_a_new_log(tmp_path: Path) -> None:
    path = tmp_path / "new.topic-12"
    with open_log(path, log_start_offset=40) as log:
        assert (log.topic_partition.topic, log.topic_partition.partition) == ("new.topic", 12)
        assert (log.log_start_offset, log.log_end_offset) == (40, 40)
        assert log.append_as_leader([record(0)]).first_offset == 40
    for name in ("nothing", "topic-x", "-1"):
        with pytest.raises(InvalidInputError):
            Log.open(tmp_path / name)


def test_opening_maps_nothing_but_the_last_segment(path: Path) -> None:
    with open_log(path) as log:
        *sealed, _ = log.segments
        assert not any(one.offset_index.is_loaded or one.time_index.is_loaded for one in sealed)
        maps = Path("/proc/self/maps").read_text()
        assert not [one for one in sealed if f"{one.base_offset:020}." in maps]


def test_the_topic_id_stays(path: Path) -> None:
    identity = uuid.uuid4()
    with open_log(path) as log:
        assert log.topic_id is None
    with open_log(path, topic_id=identity) as log:
        assert log.topic_id == identity
    with open_log(path) as log:
        assert log.topic_id == identity
    with pytest.raises(InvalidInputError, match="topic"):
        open_log(path, topic_id=uuid.uuid4())


def test_preallocated_segments(tmp_path: Path) -> None:
    config = LogConfig(internal_segment_bytes=2000, preallocate=True, index_interval_bytes=100)
    path = tmp_path / "orders-0"
    with open_log(path, config) as log:
        for number in range(40):
            log.append_as_leader([record(number)])
        assert (path / _name(log.segments.last.base_offset, FileKind.LOG)).stat().st_size == 2000
        expected = all_records(log)
        killed = tmp_path / "killed-0"
        shutil.copytree(path, killed)
    assert all(file.stat().st_size < 2000 for file in path.glob("*.log"))
    for where, clean in ((path, True), (killed, False)):
        with Log.open(where, SMALL, clean=clean, now_ms=Clock(NOW_MS)) as log:
            assert all_records(log) == expected
