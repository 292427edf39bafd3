"""One batch a call: the short way does what the long way does, or leaves it to the long way."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels_twin import twin
from tidelog.config import LogConfig
from tidelog.errors import InvalidTimestampError, TidelogError
from tidelog.kernels import single_batch as kernel
from tidelog.kernels.scratch import Scratch
from tidelog.log import AppendOrigin, Log
from tidelog.log.append import appending
from tidelog.log.segments.rolling import RollFacts, roll_bounds, should_roll
from tidelog.records import Record, encode_records
from tidelog.records.libraries import new_scratch
from tidelog.types import Codec

NOW = 1_700_000_000_000

CONFIGS = [
    {},
    {"cleanup.policy": "compact"},
    {"message.timestamp.before.max.ms": "10", "message.timestamp.after.max.ms": "10"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "gzip"},
    {"compression.type": "lz4"},
    {"compression.type": "uncompressed"},
    {"max.message.bytes": "120"},
    {"internal.segment.bytes": "300", "index.interval.bytes": "1"},
    {"segment.ms": "3", "index.interval.bytes": "100"},
    {"segment.index.bytes": "24", "index.interval.bytes": "1"},
]

records = st.lists(
    st.builds(
        Record,
        st.one_of(st.none(), st.binary(max_size=60)),
        st.one_of(st.none(), st.binary(max_size=5)),
        timestamp=st.one_of(st.integers(NOW - 15, NOW + 15), st.just(-1)),
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch; of a producer, in a transaction, compressed or damaged now and then."""
    options: dict[str, Any] = {"codec": draw(st.sampled_from([Codec.NONE, Codec.NONE, *Codec]))}
    if draw(st.booleans()):
        options["producer_id"] = draw(st.sampled_from([7, 7, 7, 8]))
        options["producer_epoch"] = draw(st.sampled_from([0, 0, 0, 0, 1]))
        options["base_sequence"] = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 2**31 - 2, 2**31 - 1]))
        options["transactional"] = draw(st.integers(0, 9)) == 0
    data = bytearray(encode_records(draw(records), **options))
    if draw(st.integers(0, 9)) == 0:
        data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
    return bytes(data)


def _open(path: Path, config: dict[str, str]) -> Log:
    return Log.open(path, LogConfig.from_properties(config), now_ms=lambda: NOW, seed=1)


def _told(log: Log, data: bytes | bytearray, epoch: int) -> tuple[object, ...]:
    try:
        return (log.append_as_leader(data, leader_epoch=epoch), log.log_end_offset)
    except TidelogError as error:
        return (type(error), str(error), log.log_end_offset)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=150,
)
@given(
    appends=st.lists(st.tuples(batches(), st.sampled_from([0, 0, 0, 1])), max_size=8),
    config=st.sampled_from(CONFIGS),
)
def test_the_short_way_is_the_long_way(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[bytes, int]], config: dict[str, str]
) -> None:
    """`bytes` may go the short way, a `bytearray` goes the long one: the same answers, the same files."""
    root = tmp_path_factory.mktemp("plain")
    (root / "long").mkdir()
    (root / "short").mkdir()
    with _open(root / "short" / "t-0", config) as short, _open(root / "long" / "t-0", config) as long:
        for data, epoch in appends:
            assert _told(short, data, epoch) == _told(long, bytearray(data), epoch)
            assert short.offset_snapshot() == long.offset_snapshot()
            assert short.active_producers == long.active_producers
    files = sorted(path.name for path in (root / "long" / "t-0").iterdir())
    assert files == sorted(path.name for path in (root / "short" / "t-0").iterdir())
    for name in files:
        assert (root / "short" / "t-0" / name).read_bytes() == (root / "long" / "t-0" / name).read_bytes()


@given(batches(), st.booleans(), st.integers(0, 400))
def test_twins_agree(data: bytes, keyed: bool, max_bytes: int) -> None:
    """Compiled or not, the same batches are plain, and stamped alike."""
    found = []
    for module in (twin("single_batch"), kernel):
        scratch = Scratch if found else twin("scratch").Scratch
        batch = _single(module, max_bytes, keyed, scratch)
        copy = batch.take(data, 1234, 5, NOW)
        facts = (batch.size, batch.last_offset, batch.max_timestamp, batch.producer_id, batch.base_sequence)
        found.append(copy and (copy, facts))
    if found[0] is not None or not data[22] & 7:  # what is not compiled leaves most codecs to the long way
        assert found[0] == found[1]


def _single(module: Any, max_bytes: int, keyed: bool, scratch: Any = Scratch) -> Any:
    def new_scratch(room: int) -> Any:
        return scratch(np.empty(room + 32, np.uint8))

    return module.SingleBatch(max_bytes, 5, 10, keyed, -1, new_scratch, [])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_is_taken(codec: Codec) -> None:
    """The short way is really taken: by what benchmarks append."""
    new_scratch(1 << 20)  # which lends the kernels the codecs' libraries
    given = [Record(b"v", b"k", timestamp=NOW), Record(b"w", b"k", timestamp=NOW + 1)]
    data = encode_records(given, codec=codec, producer_id=7, producer_epoch=1, base_sequence=5)
    batch = _single(kernel, 1000, True)
    assert batch.take(bytes(data), 10, 3, NOW) is not None
    assert (batch.size, batch.last_offset, batch.max_timestamp) == (len(data), 11, NOW + 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 5)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("replicated", [False, True])
def test_producers_go_the_short_way_from_their_second_batch_on(
    tmp_path: Path, codec: Codec, replicated: bool
) -> None:
    """Not one of them by accident: the long way is taken away."""
    with _open(tmp_path / "t-0", {}) as log, pytest.MonkeyPatch.context() as patch:
        for sequence in range(12):
            data = encode_records(
                [Record(b"v", timestamp=NOW)],
                codec=codec,
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
            if sequence == 1:
                patch.setattr(appending, "append_as_leader", None)
            if replicated:
                log.append_as_only_replica(bytes(data), 0, AppendOrigin.CLIENT, -1, {})
                assert log.high_watermark == log.log_end_offset
            else:
                log.append_as_leader(bytes(data))
        assert log.log_end_offset == 12
        assert [batch.last_offset for batch in log.active_producers[7].batches] == [7, 8, 9, 10, 11]


@given(
    limits=st.tuples(st.integers(1, 1000), st.integers(0, 100), st.integers(0, 50)),
    append=st.tuples(st.integers(0, 1000), st.integers(-1, 200), st.integers(0, 2**31 + 5)),
    segment=st.tuples(st.integers(0, 5), st.integers(0, 1000), st.integers(-1, 100)),
)
def test_the_bounds_are_the_rule(
    limits: tuple[int, int, int], append: tuple[int, int, int], segment: tuple[int, int, int]
) -> None:
    """An append within the bounds is one before which the segment need not roll."""
    max_bytes, max_ms, jitter_ms = limits
    size, timestamp, last_offset = append
    base_offset, segment_bytes, first_timestamp = segment
    facts = RollFacts(
        max_bytes,
        max_ms,
        size,
        timestamp,
        base_offset + last_offset,
        base_offset,
        segment_bytes,
        first_timestamp,
        0,
        jitter_ms,
        False,
        NOW,
    )
    bounds = roll_bounds(facts)
    if bounds is None:
        assert segment_bytes == 0 or first_timestamp < 0
        return
    within = (
        segment_bytes + size <= bounds.segment_bytes
        and timestamp <= bounds.timestamp
        and base_offset + last_offset <= bounds.offset
    )
    assert within == (should_roll(facts) is None)


def test_a_write_that_the_disk_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    """The kernel writes without Python; what fails is told by the file, and the next append goes on."""
    batch = encode_records([Record(b"value" * 100, timestamp=NOW)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Log.open(tmp_path / "t-0") as log:
        log.append_as_leader(batch)
        log.append_as_leader(batch)
        file = tmp_path / "t-0" / f"{0:020}.log"
        size, view = file.stat().st_size, log.offset_snapshot()
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        try:
            with pytest.raises(OSError, match=file.name):
                log.append_as_leader(batch)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (file.stat().st_size, log.offset_snapshot()) == (size, view)
        assert log.append_as_leader(batch).first_offset == 2
        assert log.read_arrow(0)["offset"].to_pylist() == [0, 1, 2]


def _dated(timestamp: int) -> bytes:
    return bytes(encode_records([Record(b"value", timestamp=timestamp)]))


def test_a_segment_that_began_anew_rolls_by_its_new_first_batch(tmp_path: Path) -> None:
    """What was worked out for the segment before it was cut to nothing holds no more."""
    with _open(tmp_path / "t-0", {"segment.ms": "3"}) as log:
        for timestamp in (NOW, NOW + 1):
            log.append_as_leader(_dated(timestamp))
        log.truncate_to(0)
        for timestamp in (NOW - 10, NOW - 9, NOW - 5):
            log.append_as_leader(_dated(timestamp))
        assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_new_segment_takes_the_short_way_from_its_second_batch_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bounds are not known before it has a first batch."""
    with _open(tmp_path / "t-0", {}) as log:
        log.append_as_leader(_dated(NOW))
        log.append_as_leader(_dated(NOW))
        log.roll()
        log.append_as_leader(_dated(NOW))
        monkeypatch.setattr(appending, "append_as_leader", None)
        assert log.append_as_leader(_dated(NOW)).first_offset == 3


def test_leader_epochs_that_are_taken_back_are_seen(tmp_path: Path) -> None:
    """A batch of an epoch that is the latest no more is noted as the beginning of one again."""
    with _open(tmp_path / "t-0", {}) as log:
        for epoch in (0, 0, 1, 1):
            log.append_as_leader(_dated(NOW), leader_epoch=epoch)
        log.truncate_to(1)
        for epoch in (1, 1):
            log.append_as_leader(_dated(NOW), leader_epoch=epoch)
        assert [(entry.epoch, entry.start_offset) for entry in log.epoch_entries] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("way", [bytes, bytearray])
def test_the_machines_clock_bounds_timestamps(tmp_path: Path, way: type[bytes | bytearray]) -> None:
    """Both ways, an hour ahead is the limit; how far behind is the topic's."""
    config = {"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "3600000"}
    now = time.time_ns() // 1_000_000
    with Log.open(tmp_path / "t-0", LogConfig.from_properties(config)) as log:
        log.append_as_leader(_dated(now))
        for minutes in (-50, 50):
            log.append_as_leader(way(_dated(now + minutes * 60_000)))
        for minutes in (-61, 300):
            with pytest.raises(InvalidTimestampError):
                log.append_as_leader(way(_dated(now + minutes * 60_000)))
        assert log.log_end_offset == 3


def test_readers_see_each_append_and_keep_what_they_saw(tmp_path: Path) -> None:
    """A view is made when it is asked for, of one moment, with the high watermark where the append put it."""
    batch = encode_records([Record(b"value", timestamp=NOW)])
    with Log.open(tmp_path / "t-0") as log:
        log.append_as_leader(batch)
        before = log._state.view
        log.append_as_only_replica(batch, 0, AppendOrigin.CLIENT, 0, {})
        log.append_as_leader(batch)
        seen = log._state.view
        assert seen is log._state.view
        assert (before.offsets.log_end.message_offset, seen.offsets.log_end.message_offset) == (1, 3)
        assert seen.offsets.high_watermark.message_offset == 2
        assert seen.offsets.log_end == (3, 0, log.size)
