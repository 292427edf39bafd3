"""Whatever records are encoded come back as they were, in any codec, chunking and selection of columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels_twin import TWINS, use_twin
from tests.records.reference import records as made_up
from tidelog.records import RECORD_COLUMNS, read_record_batches
from tidelog.records.builder import encode_batches
from tidelog.records.record import Record, to_arrow
from tidelog.records.schema import Projection
from tidelog.types import Codec


def expected(records: list[Record], base_offset: int) -> dict[str, list[Any]]:
    return {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "offset": [base_offset + i for i in range(len(records))],
        "timestamp_ms": [record.timestamp for record in records],
        "headers": [
            [{"key": header.key, "value": header.value} for header in record.headers] or None
            for record in records
        ],
        "topic": ["t"] * len(records),
        "partition": [5] * len(records),
        "timestampType": [0] * len(records),
    }


@given(
    records=st.lists(made_up, max_size=30),
    codec=st.sampled_from(Codec),
    base_offset=st.sampled_from([0, 1 << 40]),
    batch_records=st.sampled_from([1, 3, 1000]),
    bounds=st.sampled_from([{}, {"max_rows": 1}, {"max_rows": 5}, {"max_bytes": 100}, {"max_bytes": 5000}]),
    columns=st.permutations([name for name in RECORD_COLUMNS if name != "timestamp"] + ["timestamp_ms"]),
    width=st.integers(1, 8),
    which=st.sampled_from(TWINS),
)
def test_encoded_records_are_decoded_again(
    records: list[Record],
    codec: Codec,
    base_offset: int,
    batch_records: int,
    bounds: dict[str, int],
    columns: list[str],
    width: int,
    which: str,
) -> None:
    names = columns[:width]
    data = bytes(
        encode_batches(
            to_arrow(records), base_offset=base_offset, codec=codec, max_batch_records=batch_records
        )
    )
    with use_twin(which):
        chunks = list(read_record_batches(data, topic="t", partition=5, columns=names, **bounds))
    table = pa.Table.from_batches(chunks, schema=Projection.of(names).schema)
    table.validate(full=True)
    everything = expected(records, base_offset)
    assert table.to_pydict() == {name: everything[name] for name in names}
