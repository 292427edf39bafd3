"""Hypothesis strategies for what logs hold: records, batches, names and configurations.

    @given(batches=st.lists(record_lists(min_size=1)))
    def test_what_is_appended_is_read(batches): ...

Needs the hypothesis package.
"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from tidelog.config import LogConfig
from tidelog.records import Header, Record, encode_batches
from tidelog.records.record import to_arrow
from tidelog.types import Codec, TimestampType

__all__ = [
    "codecs",
    "encoded_batches",
    "headers",
    "input_columns",
    "log_configs",
    "payloads",
    "record_lists",
    "records",
    "timestamps",
    "topic_names",
]

_LATEST_MS = 4_102_444_800_000  # 2100; what Kafka takes depends on the clock
_KEY_CHARACTERS = st.characters(codec="utf-8")


def payloads(max_size: int = 64) -> st.SearchStrategy[bytes | None]:
    """Keys and values: bytes, none at all, and text, which finds other faults."""
    text = st.text(max_size=max_size // 4).map(str.encode)
    return st.none() | st.binary(max_size=max_size) | text


def timestamps(latest_ms: int = _LATEST_MS) -> st.SearchStrategy[int]:
    """Milliseconds since 1970."""
    return st.integers(0, latest_ms)


def headers(max_size: int = 3) -> st.SearchStrategy[tuple[Header, ...]]:
    """Headers of a record; keys may come twice, as Kafka lets them."""
    one = st.builds(Header, st.text(_KEY_CHARACTERS, max_size=8), payloads(16))
    return st.lists(one, max_size=max_size).map(tuple)


def records(*, keyed: bool = False, max_payload: int = 64) -> st.SearchStrategy[Record]:
    """Records to write; with `keyed` each has a key, which a compacted topic wants."""
    keys = payloads(max_payload)
    return st.builds(
        Record,
        payloads(max_payload),
        keys.filter(lambda key: key is not None) if keyed else keys,
        headers(),
        timestamps(),
    )


def record_lists(
    *, min_size: int = 0, max_size: int = 20, keyed: bool = False
) -> st.SearchStrategy[list[Record]]:
    """Several records, such as one append has."""
    return st.lists(records(keyed=keyed), min_size=min_size, max_size=max_size)


def input_columns(*, min_size: int = 0, max_size: int = 20) -> st.SearchStrategy[pa.RecordBatch]:
    """Arrow columns that can be appended or encoded."""
    return record_lists(min_size=min_size, max_size=max_size).map(to_arrow)


def codecs() -> st.SearchStrategy[Codec]:
    """Every codec."""
    return st.sampled_from(list(Codec))


@st.composite
def encoded_batches(draw: st.DrawFn, *, min_size: int = 1, max_size: int = 20) -> bytes:
    """Ready batches, as a producer sends them: any codec, one record a batch or several."""
    rows = draw(input_columns(min_size=min_size, max_size=max_size))
    per_batch = draw(st.integers(1, max(1, rows.num_rows)))
    return bytes(encode_batches(rows, codec=draw(codecs()), max_batch_records=per_batch))


def topic_names() -> st.SearchStrategy[str]:
    """Names that Kafka takes."""
    return st.from_regex(r"\A[a-zA-Z0-9._-]{1,40}\Z").filter(lambda name: name not in (".", ".."))


def log_configs() -> st.SearchStrategy[LogConfig]:
    """Configurations under which a test rolls, indexes and compresses a lot."""
    return st.builds(
        LogConfig,
        internal_segment_bytes=st.integers(2_000, 20_000),
        segment_index_bytes=st.integers(60, 1_000),
        index_interval_bytes=st.integers(0, 2_000),
        segment_ms=st.sampled_from([1_000, 3_600_000, 604_800_000]),
        compression_type=st.sampled_from(["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]),
        message_timestamp_type=st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
        preallocate=st.booleans(),
    )
