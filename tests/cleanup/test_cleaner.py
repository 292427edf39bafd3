"""The cleaner on logs of all sorts: against a simple model, with small maps, and when it is stopped."""

from __future__ import annotations

import gc
import itertools
import pickle
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cleanup import model
from tests.cleanup.cleaning import batches_of
from tests.kernels_twin import TWINS, use_twin
from tests.log.logs import NOW_MS, Clock, all_records, data_files
from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.cleaner import (
    CleanProgress,
    CleanReport,
    CleanStage,
    LocalPasses,
    clean_log,
    clean_round,
)
from tidelog.cleanup.filtering import ActiveProducers, BatchRules
from tidelog.cleanup.mapping import map_keys
from tidelog.cleanup.offset_map import SLOT_BYTES, OffsetMap
from tidelog.cleanup.progress import Hooks
from tidelog.cleanup.rewriting import Rewriter
from tidelog.config import LogConfig
from tidelog.errors import ChecksumError, CorruptRecordError, InvalidInputError
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.types import Codec

RETENTION_MS = 1000
CONFIG = LogConfig(
    internal_segment_bytes=600,
    index_interval_bytes=100,
    segment_index_bytes=4096,
    delete_retention_ms=RETENTION_MS,
)
BIG = 1 << 20


def open_log(path: Path, config: LogConfig = CONFIG) -> Log:
    return Log.open(path, config, clean=True, now_ms=Clock())


def clean(
    log: Log,
    now_ms: int = NOW_MS,
    memory: int = BIG,
    first_dirty: int = 0,
    checkpoint: Callable[[int], None] | None = None,
    **hooks: Unpack[Hooks],
) -> CleanReport:
    """Clean all of a log, rolled first."""
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    return clean_log(
        log,
        LocalPasses(OffsetMap(memory), **hooks),
        first_dirty_offset=first_dirty,
        upper_bound=log.log_end_offset,
        now_ms=now_ms,
        checkpoint=checkpoint,
    )


def fill(log: Log, count: int = 60, keys: int = 7, seed: int = 1, codec: Codec = Codec.NONE) -> None:
    """Records of a few keys, in small batches; some are tombstones."""
    draw = random.Random(seed)
    for number in range(count):
        value = None if draw.random() < 0.2 else b"value %d" % number
        record = Record(value, b"key %d" % draw.randrange(keys), timestamp=NOW_MS + number)
        log.append_as_leader([record], codec=codec)


def last_values(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in all_records(log) if not record.control}


# Against the model

_KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"cc", b"d" * 40]))
_VALUES = st.one_of(st.none(), st.binary(max_size=30))
_BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(_KEYS, _VALUES, st.integers(-50, 50)), min_size=1, max_size=8),
        st.sampled_from(Codec),
        st.booleans(),
    ),
    max_size=12,
)


@dataclass(frozen=True)
class Round:
    start: int
    wait_ms: int


def _write(log: Log, drawn: Sequence[tuple[list[Any], Codec, bool]]) -> list[model.ModelBatch]:
    """Append batches; what the model knows of them."""
    batches = []
    for fields, codec, roll in drawn:
        base = log.log_end_offset
        records = tuple(
            model.ModelRecord(base + number, key, value, NOW_MS + shift)
            for number, (key, value, shift) in enumerate(fields)
        )
        log.append_as_leader(encode_records([one.record() for one in records], codec=codec))
        batches.append(model.ModelBatch(records, log.log_end_offset - 1, codec))
        if roll:
            log.roll()
    return batches


def _found(log: Log) -> list[model.ModelBatch]:
    """What is in a log."""
    return [
        model.ModelBatch(
            tuple(
                model.ModelRecord(one["offset"], one["key"], one["value"], one["timestamp_ms"])
                for one in batch["records"]
            ),
            batch["last_offset"],
            Codec(batch["attributes"] & 7),
            batch["base_timestamp"] if batch["attributes"] & 0x40 else None,
        )
        for segment in log.segments
        for batch in batches_of(Path(segment.path))
    ]


@pytest.mark.parametrize("which", TWINS)
@settings(max_examples=25)
@given(
    drawn=_BATCHES,
    rounds=st.lists(
        st.builds(Round, st.integers(0, 60), st.sampled_from([0, 1, RETENTION_MS, 3 * RETENTION_MS])),
        min_size=1,
        max_size=3,
    ),
)
def test_cleaning_leaves_what_the_model_leaves(
    which: str, drawn: Sequence[tuple[list[Any], Codec, bool]], rounds: Sequence[Round]
) -> None:
    """Round after round, time passing between them."""
    with tempfile.TemporaryDirectory() as scratch, use_twin(which), open_log(Path(scratch, "t-0")) as log:
        batches = _write(log, drawn)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        end = log.log_end_offset
        now = NOW_MS
        for each in rounds:
            now += each.wait_ms
            start = min(each.start, end)
            report = clean_log(
                log, LocalPasses(OffsetMap(BIG)), first_dirty_offset=start, upper_bound=end, now_ms=now
            )
            assert report.end_offset == end
            if start < end:
                batches = model.clean(batches, start=start, end=end, now_ms=now, retention_ms=RETENTION_MS)
            assert _found(log) == batches
            assert log.log_end_offset == end


# Rounds


@pytest.mark.parametrize("slots", [3, 5, 8])
def test_a_map_that_is_too_small_takes_more_rounds(slots: int, tmp_path: Path) -> None:
    """Not more memory, and what is left is the same when all rounds are done."""
    with open_log(tmp_path / "a-0") as small, open_log(tmp_path / "b-0") as large:
        for log in (small, large):
            fill(log)
        ends: list[int] = []
        report = clean(small, memory=slots * SLOT_BYTES, checkpoint=ends.append)
        clean(large)
        assert report.rounds == len(ends) > 3
        assert ends == sorted(set(ends))
        assert ends[-1] == report.end_offset == report.upper_bound == 60
        assert last_values(small) == last_values(large)
        assert [one.offset for one in all_records(small)] == [one.offset for one in all_records(large)]


def test_keys_mapped_in_parts_are_the_keys_mapped_at_once(tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0") as log:
        fill(log, codec=Codec.LZ4)
        segments = list(log.segments)
        whole = OffsetMap(BIG)
        merged = OffsetMap(BIG, hash_key=whole.hash_key)
        for segment, following in itertools.pairwise(segments):
            part = OffsetMap(BIG, hash_key=whole.hash_key)
            for offsets in (whole, part):
                map_keys(
                    segment.buffer(),
                    offsets,
                    start_offset=0,
                    next_offset=following.base_offset,
                    transactions=CleanedTransactions(),
                )
            merged.merge(part.to_bytes())
        assert merged.latest_offset == whole.latest_offset == segments[-1].base_offset - 1
        assert merged.size == whole.size == 7
        for number in range(7):
            assert merged.get(b"key %d" % number) == whole.get(b"key %d" % number) >= 0


def test_nothing_to_clean_is_nothing_done(tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0") as log:
        fill(log)
        clean(log)
        before = data_files(tmp_path / "t-0")
        report = clean_log(
            log, LocalPasses(OffsetMap(BIG)), first_dirty_offset=60, upper_bound=60, now_ms=NOW_MS
        )
        assert (report.rounds, report.end_offset, report.stats.records_read) == (0, 60, 0)
        assert data_files(tmp_path / "t-0") == before
        with pytest.raises(InvalidInputError):
            clean_log(log, LocalPasses(OffsetMap(BIG)), first_dirty_offset=-1, upper_bound=60, now_ms=NOW_MS)


def test_the_segment_that_holds_the_upper_bound_is_not_touched(tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0") as log:
        fill(log, keys=1)
        log.update_high_watermark(log.log_end_offset)
        third = list(log.segments)[2]
        report = clean_log(
            log,
            LocalPasses(OffsetMap(BIG)),
            first_dirty_offset=0,
            upper_bound=third.base_offset + 1,
            now_ms=NOW_MS,
        )
        assert report.upper_bound == report.end_offset == third.base_offset
        assert third in list(log.segments)
        assert {one.offset for one in all_records(log)} >= set(range(third.base_offset - 1, 60))
        assert len(all_records(log)) == 60 - third.base_offset + 1


# Segments


def test_small_segments_become_one_and_keep_the_time_of_the_last(tmp_path: Path) -> None:
    config = LogConfig(internal_segment_bytes=1 << 20, index_interval_bytes=100, segment_index_bytes=4096)
    with open_log(tmp_path / "t-0") as log:
        fill(log, keys=60, count=40)
    with open_log(tmp_path / "t-0", config) as log:
        log.roll()
        segments = list(log.segments)
        for number, segment in enumerate(segments):
            log.directory.fs.set_mtime(segment.path, NOW_MS + number)
        report = clean(log)
        assert (report.segments_before, report.segments_after) == (len(segments), 2)
        assert log.segments.first.mtime_ms == NOW_MS + len(segments) - 2
        assert log.segments.first.index_fault() is None
        assert report.bytes_after == log.size < report.bytes_before


def test_a_segment_of_which_everything_stays_is_left_alone(tmp_path: Path) -> None:
    """Unless its indexes are not what they should be."""
    with open_log(tmp_path / "t-0") as log:
        fill(log, keys=1000, count=40)
        clean(log)
        clean(log, NOW_MS + 2 * RETENTION_MS)  # tombstones are gone
        before = list(log.segments)[:-1]
        report = clean(log, NOW_MS + 3 * RETENTION_MS)
        assert list(log.segments)[: len(before)] == before
        assert report.stats.changed_nothing
        assert report.records_after == report.records_before == report.stats.records_kept > 0
        assert not list((tmp_path / "t-0").glob("*.cleaned"))
    index = tmp_path / "t-0" / f"{0:020}.timeindex"
    expected = index.read_bytes()
    index.unlink()
    with open_log(tmp_path / "t-0") as log:
        clean(log)
    assert index.read_bytes() == expected


@pytest.mark.parametrize("superseded", [49, 30, 0])
@pytest.mark.parametrize("together", [False, True])
def test_a_segment_is_written_from_its_start_once_a_batch_changes(
    tmp_path: Path, superseded: int, together: bool
) -> None:
    """Whether that batch goes, or is rewritten (`together`), at the end of several megabytes or before."""
    config = LogConfig(internal_segment_bytes=5_100_000, index_interval_bytes=4096)
    with open_log(tmp_path / "t-0", config) as log:
        for number in range(50):
            keys = [b"%d" % number, b"and %d" % number] if together else [b"%d" % number]
            records = [Record(bytes(100_000 // len(keys)), key, timestamp=NOW_MS + number) for key in keys]
            log.append_as_leader(encode_records(records, max_batch_bytes=1 << 20))
        log.append_as_leader([Record(bytes(200_000), b"%d" % superseded, timestamp=NOW_MS + 50)])
        assert len(log.segments) == 2
        path = tmp_path / "t-0" / f"{0:020}.log"
        before = batches_of(path)
        clean(log)
        assert log.segments.first.index_fault() is None
        after = batches_of(path)
        assert len(log.segments) == 3
        assert after[:superseded] == before[:superseded]
        if together:
            assert after[superseded]["records"] == before[superseded]["records"][1:]
        assert after[superseded + together :] == before[superseded + 1 :]


def test_the_buffers_of_a_group_go_with_it(tmp_path: Path) -> None:
    """Not when garbage is next collected: each has megabytes, and a round may have thousands of groups."""
    with open_log(tmp_path / "t-0") as log:
        fill(log)
        gc.collect()
        gc.disable()
        try:
            clean(log)
            assert not [found for found in gc.get_objects() if isinstance(found, Rewriter)]
        finally:
            gc.enable()


def test_what_is_shipped_to_other_processes_can_be(tmp_path: Path) -> None:
    """The second pass in parts: a map, rules and transactions that have been shipped leave the same."""
    with open_log(tmp_path / "t-0") as log:
        fill(log, keys=20, codec=Codec.ZSTD)
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        segments = list(log.segments)[:-1]
        offsets = OffsetMap(BIG)
        for segment in segments:
            map_keys(segment.buffer(), offsets, start_offset=0, next_offset=segment.next_offset())
        rules = BatchRules(NOW_MS, RETENTION_MS, log.log_end_offset, ActiveProducers.of({}))
        shipped = pickle.dumps((offsets.to_bytes(), rules, CleanedTransactions()))
        written: list[bytes] = []
        for segment in segments:
            data, there, transactions = pickle.loads(shipped)
            rewriter = Rewriter(
                OffsetMap.from_bytes(data), there, lambda part, table, changed: written.append(bytes(part))
            )
            rewriter.rewrite(segment.buffer(), transactions, keep_legacy_deletes=False)
        clean_log(
            log, LocalPasses(offsets), first_dirty_offset=0, upper_bound=log.log_end_offset, now_ms=NOW_MS
        )
        assert b"".join(written) == b"".join(bytes(segment.buffer()) for segment in list(log.segments)[:-1])


def test_what_an_earlier_attempt_left_is_replaced(tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0") as log:
        fill(log)
        for suffix in ("log", "index", "timeindex", "txnindex"):
            (tmp_path / "t-0" / f"{0:020}.{suffix}.cleaned").write_bytes(b"left behind")
        clean(log)
        assert not list((tmp_path / "t-0").glob("*.cleaned"))
        assert not (tmp_path / "t-0" / f"{0:020}.txnindex").exists()


def test_a_batch_larger_than_any_buffer_is_cleaned(tmp_path: Path) -> None:
    """Uncompressed, and compressed so that it is small on disk; many tiny records too."""
    config = LogConfig(internal_segment_bytes=1 << 30, max_message_bytes=1 << 30, segment_index_bytes=4096)
    value = random.Random(1).randbytes(6 << 20)
    with open_log(tmp_path / "t-0", config) as log:
        for codec in (Codec.NONE, Codec.ZSTD, Codec.GZIP):
            many = [
                Record(bytes(1000), b"k%d" % (number % 9000), timestamp=NOW_MS) for number in range(10_000)
            ]
            log.append_as_leader(encode_records(many, codec=codec, max_batch_bytes=1 << 30))
            old, new = (Record(value, codec.label.encode(), timestamp=NOW_MS) for _ in range(2))
            log.append_as_leader(encode_records([old, new], codec=codec, max_batch_bytes=1 << 30))
        tiny = [Record(b"", b"%d" % (number % 1000), timestamp=NOW_MS) for number in range(200_000)]
        log.append_as_leader(encode_records(tiny, codec=Codec.LZ4, max_batch_bytes=1 << 30))
        report = clean(log)
        assert report.records_after == 9000 + 3 + 1000
        assert report.stats.batches_rewritten == 5
        assert sum(len(record.value or b"") for record in all_records(log)) == 3 * len(value) + 9000 * 1000


# Being stopped


class StopError(Exception):
    """Told to stop."""


@pytest.mark.parametrize("calls", [0, 1, 3, 6, 9])
def test_a_check_that_raises_stops_and_leaves_a_sound_log(calls: int, tmp_path: Path) -> None:
    """Segments that were swapped in stay, all others are as they were, and nothing else is left behind."""
    left = calls

    def check() -> None:
        nonlocal left
        if left == 0:
            raise StopError
        left -= 1

    with open_log(tmp_path / "t-0") as log:
        fill(log)
        expected = last_values(log)
        with pytest.raises(StopError):
            clean(log, check=check)
        assert last_values(log) == expected
        assert not list((tmp_path / "t-0").glob("*.cleaned"))
        clean(log)
        assert last_values(log) == expected
        assert len(all_records(log)) == 7


def test_bytes_and_progress_are_told(tmp_path: Path) -> None:
    told: list[int] = []
    steps: list[CleanProgress] = []
    with open_log(tmp_path / "t-0") as log:
        fill(log)
        before = log.size
        report = clean(log, throttle=told.append, progress=steps.append)
        assert sum(told) == 2 * before + report.stats.size_written
        assert report.stats.size_read == before
        assert [step.stage for step in steps] == sorted((s.stage for s in steps), key=list(CleanStage).index)
        for stage in CleanStage:
            mine = [step for step in steps if step.stage is stage]
            assert mine[0].done == 0
            assert mine[-1].done == mine[-1].total == before
        assert report.records_read == 60
        assert report.keys_mapped == 7
        assert report.stats.records_kept == report.records_after == 7


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY, Codec.GZIP])
def test_damage_is_found_and_nothing_is_changed(codec: Codec, tmp_path: Path) -> None:
    """A key that was damaged would hide another, and a batch written anew would get a right checksum."""
    with open_log(tmp_path / "t-0") as log:
        fill(log, codec=codec)
    victim = sorted((tmp_path / "t-0").glob("*.log"))[2]
    _flip(victim, victim.stat().st_size - 3)
    with open_log(tmp_path / "t-0") as log:
        log.roll()
        before = data_files(tmp_path / "t-0")
        with pytest.raises(ChecksumError, match=victim.name):
            clean(log)
        after = data_files(tmp_path / "t-0")
        assert {name: after[name] for name in before} == before
        assert not list((tmp_path / "t-0").glob("*.cleaned"))
        with pytest.raises(CorruptRecordError, match=victim.name):
            clean(log, first_dirty=55)  # below the dirty part, where only the second pass looks


def test_segments_that_retention_deletes_meanwhile_stay_deleted(tmp_path: Path) -> None:
    """The first group is gone when it is written; of the others nothing is lost."""
    with open_log(tmp_path / "t-0") as log:
        fill(log)
        expected = last_values(log)
        first = log.segments.first
        done = False

        def progress(step: CleanProgress) -> None:
            nonlocal done
            if step.stage is CleanStage.REWRITING and not done:
                done = True
                log.delete_segments([first])

        clean(log, progress=progress)
        assert log.log_start_offset > first.base_offset
        assert last_values(log).items() <= expected.items()
        assert log.segments.first.base_offset == log.log_start_offset
        assert not list((tmp_path / "t-0").glob("*.cleaned"))


def test_a_reader_goes_on_while_its_segment_is_replaced(tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0") as log:
        fill(log, count=30)
        before = all_records(log)
        fetched = log.read(0, 1 << 20)
        clean(log)
        assert len(fetched.batches()) > 1
        assert bytes(fetched.data)
        assert len(all_records(log)) == 7 < len(before)


@pytest.mark.parametrize("make", [clean_log, clean_round])
def test_both_ways_to_clean_agree_when_one_round_is_enough(make: Callable[..., Any], tmp_path: Path) -> None:
    with open_log(tmp_path / "t-0") as log:
        fill(log)
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        report = make(
            log, LocalPasses(OffsetMap(BIG)), first_dirty_offset=0, upper_bound=1 << 40, now_ms=NOW_MS
        )
        assert (report.rounds, report.end_offset) == (1, 60)
