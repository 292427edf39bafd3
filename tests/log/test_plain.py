"""One plain batch a call: the short way does what the long way does, or leaves it to the long way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels_twin import twin
from tidelog.config import LogConfig
from tidelog.errors import TidelogError
from tidelog.kernels import plain as kernel
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.types import Codec

NOW = 1_700_000_000_000

CONFIGS = [
    {},
    {"cleanup.policy": "compact"},
    {"message.timestamp.before.max.ms": "10", "message.timestamp.after.max.ms": "10"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "gzip"},
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
    """A batch; of a producer, compressed or damaged now and then."""
    options: dict[str, Any] = draw(
        st.sampled_from(
            [{}, {}, {"codec": Codec.LZ4}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}]
        )
    )
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
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
    files = sorted(path.name for path in (root / "long" / "t-0").iterdir())
    assert files == sorted(path.name for path in (root / "short" / "t-0").iterdir())
    for name in files:
        assert (root / "short" / "t-0" / name).read_bytes() == (root / "long" / "t-0" / name).read_bytes()


@given(batches(), st.booleans(), st.integers(0, 400))
def test_twins_agree(data: bytes, keyed: bool, max_bytes: int) -> None:
    """Compiled or not, the same batches are plain, and stamped alike."""
    found = []
    for module in (kernel, twin("plain")):
        plain = module.PlainBatch(max_bytes, 5, 10, keyed)
        copy = plain.take(data, 1234, 5, NOW)
        found.append(copy and (copy, plain.size, plain.last_offset, plain.max_timestamp))
    assert found[0] == found[1]


def test_a_plain_batch_is_taken() -> None:
    """The short way is really taken: by what benchmarks append."""
    data = encode_records([Record(b"v", b"k", timestamp=NOW), Record(b"w", b"k", timestamp=NOW + 1)])
    plain = kernel.PlainBatch(1000, 1 << 62, 1000, True)
    assert plain.take(bytes(data), 10, 3, NOW) is not None
    assert (plain.size, plain.last_offset, plain.max_timestamp) == (len(data), 11, NOW + 1)
