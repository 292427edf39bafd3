"""What the strategies give can be used for what it is for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records import Record, decode_records, encode_batches
from tidelog.storage.names import validate_topic
from tidelog.testing.strategies import (
    encoded_batches,
    input_columns,
    log_configs,
    record_lists,
    records,
    topic_names,
)


@given(topic_names())
def test_topics_have_names_that_kafka_takes(name: str) -> None:
    validate_topic(name)


@given(records(keyed=True))
def test_keyed_records_have_keys(record: Record) -> None:
    assert record.key is not None


@given(input_columns(), encoded_batches())
def test_columns_and_batches_decode(columns: pa.RecordBatch, batches: bytes) -> None:
    assert len(list(decode_records(bytes(encode_batches(columns))))) == columns.num_rows
    assert len(list(decode_records(batches))) >= 1


@settings(max_examples=30, deadline=None)
@given(log_configs(), st.lists(record_lists(min_size=1, max_size=5), max_size=8))
def test_what_is_appended_is_read(config: LogConfig, batches: list[list[Record]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "t-0")
        with Log.open(path, config, clean=True, now_ms=lambda: 4_102_444_800_000) as log:
            for batch in batches:
                log.append_as_leader(batch)
        found = tidelog.scan(path, columns=["key", "value"]).read_all().to_pylist()
    assert found == [{"key": one.key, "value": one.value} for batch in batches for one in batch]
