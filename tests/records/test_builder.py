"""Encoding columns: byte for byte as the reference writes it, read back whole, bad input named."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.kernels_twin import twin
from tests.records import reference
from tidelog.errors import (
    InvalidInputError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from tidelog.kernels import batch_headers as kernel_headers
from tidelog.kernels import encode as kernel
from tidelog.records import builder, decode_batches, inputs, scan_batches
from tidelog.records.builder import encode_batches
from tidelog.records.record import Header, Record, decode_records, to_arrow
from tidelog.types import Codec, TimestampType

NOW = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(params=["compiled", "plain Python"])
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The encoder on the compiled kernel and on the same file uncompiled."""
    module = kernel if request.param == "compiled" else twin("encode")
    monkeypatch.setattr(builder, "_kernel", module)
    monkeypatch.setattr(inputs, "Column", module.Column)
    monkeypatch.setattr(inputs, "Records", module.Records)
    return module


options = st.fixed_dictionaries(
    {
        "base_offset": st.sampled_from([0, 77, (1 << 62) - 1]),
        "leader_epoch": st.sampled_from([-1, 0, reference.INT32_MAX]),
        "max_batch_bytes": st.sampled_from([1, 100, 244, 245, 1000, 16384, reference.INT32_MAX]),
        "max_batch_records": st.sampled_from([1, 2, 7, reference.INT32_MAX]),
    }
)
producers = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "producer_id": st.integers(0, (1 << 63) - 1),
            "producer_epoch": st.integers(0, 32767),
            "base_sequence": st.sampled_from([0, 5, reference.INT32_MAX - 3, reference.INT32_MAX]),
        }
    ),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=150,
)
@given(
    rows=st.lists(reference.records, max_size=12),
    options=options,
    producer=producers,
    stamped=st.booleans(),
    transactional=st.booleans(),
)
@example(  # a timestamp further from the first than a long can say
    rows=[Record(None, timestamp=-1), Record(None, timestamp=2**63 - 1)],
    options={"base_offset": 0, "leader_epoch": -1, "max_batch_bytes": 1000, "max_batch_records": 7},
    producer={},
    stamped=False,
    transactional=False,
)
def test_bytes_are_those_of_the_reference(
    each_twin: Any,
    rows: list[Record],
    options: dict[str, int],
    producer: dict[str, int],
    stamped: bool,
    transactional: bool,
) -> None:
    transactional = transactional and bool(producer)
    encoded = encode_batches(
        to_arrow(rows),
        timestamp_type=TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
        now_ms=NOW,
        transactional=transactional,
        **options,
        **producer,
    )
    expected = [
        reference.batch_bytes(
            batch,
            base_offset=options["base_offset"],
            leader_epoch=options["leader_epoch"],
            attributes=8 * stamped + 16 * transactional,
            append_time=NOW if stamped else None,
            **producer,
        )
        for batch in reference.cut(rows, options["max_batch_bytes"], options["max_batch_records"])
    ]
    assert [bytes(batch) for batch in encoded] == expected
    assert bytes(encoded) == b"".join(expected)
    scanned = scan_batches(encoded.data).require()
    assert np.array_equal(scanned.rows[:, :14], encoded.table.rows[:, :14])


@given(
    rows=st.lists(reference.records, max_size=12),
    codec=st.sampled_from(Codec),
    max_bytes=st.sampled_from([1, 1000, 1 << 20]),
)
def test_round_trip_through_every_codec(rows: list[Record], codec: Codec, max_bytes: int) -> None:
    encoded = encode_batches(
        to_arrow(rows), codec=codec, base_offset=5, max_batch_bytes=max_bytes, leader_epoch=3
    )
    assert np.array_equal(scan_batches(encoded.data).require().rows[:, :14], encoded.table.rows[:, :14])
    found = list(decode_records(encoded.data))
    assert [record.to_record() for record in found] == rows
    assert [record.offset for record in found] == list(range(5, 5 + len(rows)))
    assert {record.leader_epoch for record in found} <= {3}


def test_sequences_count_on_over_batches_and_wrap() -> None:
    encoded = encode_batches(
        pa.table({"value": [b"x"] * 10}),
        max_batch_records=4,
        producer_id=9,
        producer_epoch=0,
        base_sequence=reference.INT32_MAX - 5,
    )
    assert encoded.table.base_sequence.tolist() == [reference.INT32_MAX - 5, reference.INT32_MAX - 1, 2]
    assert [record.sequence for record in decode_records(encoded.data)] == [
        *range(reference.INT32_MAX - 5, reference.INT32_MAX + 1),
        *range(4),
    ]


def test_delete_horizon_takes_the_base_timestamps_place(each_twin: Any) -> None:
    rows = to_arrow([Record(None, b"k", (), NOW + 5), Record(b"v", b"k", (), NOW - 5)])
    encoded = encode_batches(rows, delete_horizon_ms=NOW + 1000)
    assert encoded.table.base_timestamp.tolist() == [NOW + 1000]
    assert encoded.table.max_timestamp.tolist() == [NOW + 5]
    assert encoded.table.has_delete_horizon.all()
    assert [record.timestamp for record in decode_records(encoded.data)] == [NOW + 5, NOW - 5]


def test_a_record_over_the_limit_comes_alone() -> None:
    values = [b"a", b"b" * 500, b"c", b"d"]
    encoded = encode_batches(pa.table({"value": values}), max_batch_bytes=200)
    assert encoded.table.count.tolist() == [1, 1, 2]


def test_no_records_make_no_batches() -> None:
    for columns in (pa.table({"value": pa.array([], pa.binary())}), to_arrow([]), pa.table({})):
        encoded = encode_batches(columns, codec=Codec.ZSTD)
        assert (bytes(encoded), len(encoded), list(encoded)) == (b"", 0, [])


# ---- Arrow in all its forms


def _values(columns: pa.Table | pa.RecordBatch, **kwargs: Any) -> list[tuple[bytes | None, bytes | None]]:
    encoded = encode_batches(columns, **kwargs)
    return [(record.key, record.value) for record in decode_records(encoded.data)]


KEYS = [b"k0", None, b"", b"k3", b"k4", None, b"k6", b"k7", b"k8", b"k9"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.binary()),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_every_kind_of_bytes(each_twin: Any, kind: pa.DataType) -> None:
    column = (
        pa.array(KEYS).cast(kind) if not pa.types.is_dictionary(kind) else pa.array(KEYS).dictionary_encode()
    )
    column = column.cast(kind)
    expected = [(key, key) for key in KEYS]
    assert _values(pa.record_batch({"key": column, "value": column})) == expected
    for start, size in ((1, 5), (3, 7), (9, 1), (4, 0)):
        part = pa.record_batch({"key": column, "value": column}).slice(start, size)
        assert _values(part) == expected[start : start + size]


def test_fixed_size_binary() -> None:
    column = pa.array([b"abcd", None, b"efgh"], pa.binary(4))
    assert _values(pa.record_batch({"value": column}).slice(1)) == [(None, None), (None, b"efgh")]


def test_missing_and_null_columns() -> None:
    assert _values(pa.table({"key": [b"k"]})) == [(b"k", None)]
    assert _values(pa.table({"key": pa.nulls(2), "value": [b"v", None]})) == [(None, b"v"), (None, None)]
    table = pa.table({"value": [b"v"], "headers": pa.nulls(1), "timestamp": pa.nulls(1)})
    (record,) = decode_records(encode_batches(table, now_ms=NOW).data)
    assert (record.headers, record.timestamp) == ((), NOW)
    empty = pa.Table.from_batches([], schema=pa.schema([("value", pa.binary())]))
    assert _values(empty) == []


def test_chunked_tables_are_one_run_of_rows() -> None:
    pieces = [pa.table({"value": KEYS[:3]}), pa.table({"value": KEYS[3:4]}), pa.table({"value": KEYS[4:]})]
    table = pa.concat_tables(pieces).slice(1, 8)
    assert table.column("value").num_chunks == 3
    assert _values(table) == [(None, key) for key in KEYS[1:9]]
    assert len(encode_batches(table)) == 1


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([NOW, None, -1, 0]), [NOW, 7, -1, 0]),
        (pa.array([5, None], pa.int32()), [5, 7]),
        (pa.array([5, None], pa.uint64()), [5, 7]),
        (pa.array([NOW, None], pa.timestamp("ms")), [NOW, 7]),
        (pa.array([NOW * 1000 + 999, None], pa.timestamp("us", tz="UTC")), [NOW, 7]),
        (pa.array([NOW * 1_000_000 + 999_999], pa.timestamp("ns", tz="Europe/Berlin")), [NOW]),
        (pa.array([1_700_000_000, None], pa.timestamp("s")), [1_700_000_000_000, 7]),
        (pa.array([-1, 0], pa.timestamp("us")), [-1, 0]),
        (pa.array([datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)]), [NOW]),
        (pa.nulls(2, pa.timestamp("us")), [7, 7]),
        (pa.nulls(2), [7, 7]),
    ],
)
def test_every_kind_of_timestamp(column: pa.Array, expected: list[int]) -> None:
    for start in range(len(column)):
        rows = pa.record_batch({"timestamp": column}).slice(start)
        found = decode_records(encode_batches(rows, now_ms=7).data)
        assert [record.timestamp for record in found] == expected[start:]


def test_log_append_time_keeps_the_deltas_but_answers_the_append_time() -> None:
    rows = pa.record_batch({"timestamp": pa.array([100, 50, 200])})
    encoded = encode_batches(rows, timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=NOW)
    assert encoded.table.base_timestamp.tolist() == [100]
    assert encoded.table.max_timestamp.tolist() == [NOW]
    found = list(decode_records(encoded.data))
    assert [(record.timestamp, record.timestamp_type) for record in found] == [(NOW, 1)] * 3


HEADER_ROWS: list[list[tuple[str, bytes | None]] | None] = [
    [("a", b"1"), ("a", None)],
    None,
    [],
    [("größe", b""), ("b", b"2"), ("", b"3")],
    [("c", b"4")],
]


def _as_pairs(rows: list[list[tuple[str, bytes | None]] | None]) -> list[Any]:
    return [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(_as_pairs(HEADER_ROWS), HEADERS),
        pa.array(_as_pairs(HEADER_ROWS), pa.large_list(HEADERS.value_type)),
        pa.array(
            _as_pairs(HEADER_ROWS),
            pa.list_(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])),
        ),
        pa.array(HEADER_ROWS, pa.map_(pa.string(), pa.binary())),
    ],
    ids=["list", "large list", "value first", "map"],
)
def test_every_kind_of_headers(each_twin: Any, column: pa.Array) -> None:
    expected = [tuple(Header(*pair) for pair in row or ()) for row in HEADER_ROWS]
    for start, size in ((0, 5), (1, 4), (2, 2), (3, 1)):
        rows = pa.record_batch({"headers": column}).slice(start, size)
        found = [record.headers for record in decode_records(encode_batches(rows).data)]
        assert found == expected[start : start + size]
    twice = pa.chunked_array([column.slice(3), column.slice(0, 3)])
    found = [record.headers for record in decode_records(encode_batches(pa.table({"headers": twice})).data)]
    assert found == expected[3:] + expected[:3]


def test_what_is_decoded_can_be_encoded_again() -> None:
    rows = [Record(b"v", b"k", (Header("h", b"x"),), NOW), Record(None, None, (), NOW + 1)]
    first = encode_batches(to_arrow(rows))
    columns = decode_batches(first.data, first.table).select(["key", "value", "timestamp", "headers"])
    assert bytes(encode_batches(columns)) == bytes(first)


def test_large_columns_of_several_chunks_grow_to_large_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_INT32_MAX", 10)
    chunked = pa.chunked_array([[b"abc", None], [b"defghijkl"]])
    assert _values(pa.table({"value": chunked})) == [(None, b"abc"), (None, None), (None, b"defghijkl")]


# ---- bad input


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"val": [b"x"]}, "column 'val' cannot be written"),
        ({"value": [1]}, "column 'value' has type int64"),
        ({"key": [1.5], "value": [b"x"]}, "column 'key' has type double"),
        ({"value": [b"x"], "timestamp": ["today"]}, "column 'timestamp' has type string"),
        ({"timestamp": pa.array([1.5])}, "column 'timestamp' has type double"),
        ({"value": [b"x"], "headers": ["h"]}, "column 'headers' has type string"),
        ({"headers": [[b"h"]]}, "column 'headers' has type list"),
        ({"headers": [[{"key": "a", "other": b""}]]}, "column 'headers' has type list"),
        ({"headers": [[{"key": b"a", "value": b""}]]}, "column 'headers' has type list"),
        ({"headers": [[{"key": "a", "value": 1}]]}, "column 'headers.value' has type int64"),
    ],
)
def test_wrong_columns_are_named(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        encode_batches(pa.table(columns))


def test_other_wrong_inputs() -> None:
    with pytest.raises(InvalidInputError, match="RecordBatch or Table is expected, not list"):
        encode_batches([{"value": b"x"}])
    double = pa.record_batch([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])
    with pytest.raises(InvalidInputError, match="'value' is there twice"):
        encode_batches(double)


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"timestamp": pa.array([0, -1, -2])}, InvalidTimestampError, "'timestamp', row 2"),
        ({"timestamp": pa.array([0, -1], pa.timestamp("s"))}, InvalidTimestampError, "'timestamp', row 1"),
        ({"timestamp": pa.array([1 << 62], pa.timestamp("s"))}, InvalidTimestampError, "does not fit"),
        ({"timestamp": pa.array([1 << 63], pa.uint64())}, InvalidTimestampError, "does not fit"),
        ({"headers": pa.array([None, [{"key": None, "value": b""}]], HEADERS)}, InvalidRecordError, "row 1"),
        ({"headers": pa.array([[], [None]], HEADERS)}, InvalidRecordError, "'headers', row 1"),
    ],
)
def test_wrong_rows_are_named(
    each_twin: Any, columns: dict[str, pa.Array], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        encode_batches(pa.table(columns))


@pytest.mark.parametrize("ends", [[0, 2, 1, 3], [0, -1, 2, 3], [0, 4, 3, 3], [0, 1 << 30, 2, 3]], ids=str)
@pytest.mark.parametrize("valid", [None, b"\x00"], ids=["no nulls", "all null"])
def test_offsets_outside_the_data_are_refused(each_twin: Any, ends: list[int], valid: bytes | None) -> None:
    buffers = [valid and pa.py_buffer(valid), pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(b"abc")]
    column = pa.Array.from_buffers(pa.binary(), 3, buffers)
    with pytest.raises(InvalidInputError, match=r"row \d: a column's offsets"):
        encode_batches(pa.record_batch({"value": column}))


def test_header_offsets_outside_the_values_are_refused() -> None:
    pairs = pa.array([{"key": "a", "value": b""}], HEADERS.value_type)
    ends = pa.py_buffer(np.array([0, 1, 0, 1], np.int32))
    column = pa.Array.from_buffers(HEADERS, 3, [None, ends], children=[pairs])
    with pytest.raises(InvalidInputError, match="row 1: a column's offsets"):
        encode_batches(pa.record_batch({"headers": column}))


@pytest.mark.parametrize("size", [reference.INT32_MAX, reference.INT32_MAX - 61])
def test_a_record_over_two_gibibytes_is_refused(size: int) -> None:
    ends = np.array([0, 0, size], np.int64)
    data = np.zeros(size, np.uint8)  # not touched, so not in memory
    column = pa.Array.from_buffers(
        pa.large_binary(), 2, [None, pa.py_buffer(ends), pa.py_buffer(data)], null_count=0
    )
    with pytest.raises(RecordTooLargeError, match="row 1"):
        encode_batches(pa.record_batch({"value": column}))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base_offset": -1}, "base_offset"),
        ({"base_offset": (1 << 63) - 1}, "base_offset"),
        ({"leader_epoch": 1 << 31}, "leader_epoch"),
        ({"max_batch_bytes": 0}, "max_batch_bytes"),
        ({"max_batch_bytes": 1 << 31}, "max_batch_bytes"),
        ({"max_batch_records": 0}, "max_batch_records"),
        ({"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "timestamp type"),
        ({"now_ms": -2}, "now_ms"),
        ({"delete_horizon_ms": -1}, "delete_horizon_ms"),
        ({"transactional": True}, "producer id"),
        ({"producer_id": 1}, "producer epoch"),
        ({"producer_id": 1, "producer_epoch": 1}, "base sequence"),
        ({"producer_id": 1, "producer_epoch": 1 << 15, "base_sequence": 0}, "producer_epoch"),
        ({"producer_id": 1 << 63, "producer_epoch": 0, "base_sequence": 0}, "producer_id"),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": 1 << 31}, "base_sequence"),
        ({"codec": Codec.LZ4, "level": 99}, "level"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        encode_batches(pa.table({"value": [b"x", b"y"]}), **arguments)


# ---- the kernel's own guards


def _records(module: Any, values: list[bytes]) -> Any:
    ends = np.cumsum([0, *map(len, values)]).astype(np.int64)
    data = np.frombuffer(b"".join(values), np.uint8)
    return module.Records(len(values), 0, None, None, module.Column(ends, data, None, 0, len(data)), None)


def test_the_kernel_never_writes_past_its_room(each_twin: Any) -> None:
    records = _records(each_twin, [b"abc" * n for n in range(1, 6)])
    template = np.zeros(16, np.int64)
    rows = np.zeros((5, 16), np.int64)
    full = np.zeros(1000, np.uint8)
    batches, used, fault, _ = each_twin.encode(records, template, 2, 1000, True, full, rows)
    assert (batches, fault) == (3, 0)
    for room in range(1, used):
        out = np.full(used, 0xAA, np.uint8)
        answer = each_twin.encode(records, template, 2, 1000, True, out[:room], rows)
        assert answer[2] == 1
        assert (out[room:] == 0xAA).all()
    out = np.zeros(used, np.uint8)
    assert each_twin.encode(records, template, 2, 1000, True, out, rows)[1:3] == (used, 0)
    assert bytes(out) == bytes(full[:used])
    guarded = np.full((5, 16), -7, np.int64)
    assert each_twin.encode(records, template, 2, 1000, True, out, guarded[:2])[2] == 1
    assert (guarded[2:] == -7).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda module, ends, data: module.Column(ends, data, None, 0, len(data) + 1),
        lambda module, ends, data: module.Column(ends, data, None, -1, len(data)),
        lambda module, ends, data: module.Column(ends, data, np.zeros(1, np.uint8), 7, len(data)),
        lambda module, ends, data: module.Column(ends[:0], data, None, 0, len(data)),
        lambda module, ends, data: module.Records(
            1, 0, None, module.Column(ends, data, None, 0, 3), None, None
        ),
        lambda module, ends, data: module.Records(2, 0, ends[:1], None, None, None),
        lambda module, ends, data: module.Records(
            2, 0, None, None, None, (module.Column(ends, None, None, 0, 3),) * 3
        ),
        lambda module, ends, data: module.Records(
            2, 0, None, module.Column(ends, None, None, 0, 3), None, None
        ),
    ],
)
def test_the_kernel_refuses_what_does_not_fit_together(each_twin: Any, make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"limit|bits|lengths|fewer|outside|data"):
        make(each_twin, np.array([0, 1, 3], np.int64), np.zeros(3, np.uint8))


@pytest.mark.parametrize("module", [kernel_headers, twin("batch_headers")], ids=["compiled", "plain Python"])
def test_sealing_writes_what_the_scan_reads(module: Any) -> None:
    encoded = encode_batches(pa.table({"value": [b"a", b"b", b"c"]}), max_batch_records=2, now_ms=NOW)
    rows = encoded.table.rows.copy()
    rows[:, 4] = [1, reference.INT32_MAX]
    rows[:, 9:12] = [[1 << 40, 12, 77], [-1, -1, -1]]
    out = np.frombuffer(bytes(encoded), np.uint8).copy()
    module.seal(out, rows)
    assert np.array_equal(scan_batches(out.data).require().rows[:, :14], rows[:, :14])
    with pytest.raises(ValueError, match="outside"):
        module.seal(out[:-1], rows)
    with pytest.raises(ValueError, match="16 columns"):
        module.seal(out, np.zeros((1, 15), np.int64))
