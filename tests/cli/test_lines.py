"""The line kernels, compiled and as plain Python: what they write of any record, in any buffer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.reference import record_line
from tests.golden import golden_partition
from tests.kernels_twin import TWINS, twin
from tidelog.cli.render import lines
from tidelog.cli.render.lines import LineStyle, LogBytes, LogLines
from tidelog.records import Header, Record, encode_records
from tidelog.types import Codec

BUFFERS = (1, 1100, 5000, 1 << 18)


@pytest.fixture(params=TWINS, scope="module")
def kernel(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "compiled":
            patch.setattr(lines, "_kernel", twin("jsonl"))
        yield lines._kernel


class _Bytes:
    """A file in memory, read in windows that batches do not fit."""

    window_bytes = 1000

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, position: int, n: int) -> memoryview:
        return memoryview(self._data)[position : position + n]


def written(data: bytes, style: LineStyle, *, buffer_bytes: int = 1 << 18) -> str:
    """All lines of a log's bytes; each write is whole lines."""
    parts: list[bytes] = []
    log = LogBytes(_Bytes(data), len(data), "test")
    for _ in LogLines(log, style, lambda part: parts.append(bytes(part)), buffer_bytes=buffer_bytes).run():
        pass
    assert all(part.endswith(b"\n") for part in parts)
    return b"".join(parts).decode()


octets = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
headers = st.lists(
    st.builds(Header, st.text(st.characters(exclude_categories=["Cs"]), max_size=12), octets), max_size=4
)
records = st.builds(
    Record, octets, octets, headers, st.just(-1) | st.integers(0, 2**63 - 1) | st.integers(0, 10**13)
)


@given(st.lists(records, max_size=12), st.integers(0, 2**62), st.sampled_from(Codec), st.integers(1, 5))
def test_json_lines_say_what_was_written(
    kernel: ModuleType, rows: list[Record], base_offset: int, codec: Codec, per_batch: int
) -> None:
    data = encode_records(
        rows,
        base_offset=base_offset,
        codec=codec,
        max_batch_records=per_batch,
        producer_id=2**62,
        producer_epoch=3,
        base_sequence=2**31 - 4,
        leader_epoch=7,
    )
    out = written(data, LineStyle(json=True, deep=True))
    got = [json.loads(line) for line in out.split("\n")[:-1]]
    assert len(got) == len(rows)
    for i, (line, row) in enumerate(zip(got, rows, strict=True)):
        assert line["offset"] == base_offset + i
        assert line["timestamp"] == row.timestamp
        assert _bytes(line["key"]) == row.key
        assert _bytes(line["value"]) == row.value
        assert [(name, _bytes(value)) for name, value in line["headers"]] == [
            (header.key, header.value) for header in row.headers
        ]
        assert line["base_offset"] == base_offset + i // per_batch * per_batch
        assert line["sequence"] == (2**31 - 4 + i) % 2**31
        assert (line["producer_id"], line["producer_epoch"], line["leader_epoch"]) == (2**62, 3, 7)
        assert line["codec"] == codec.label


@given(st.lists(records, min_size=1, max_size=8))
def test_text_lines_are_one_a_record_whatever_it_holds(kernel: ModuleType, rows: list[Record]) -> None:
    data = encode_records(rows)
    facts = [json.loads(line) for line in written(data, LineStyle(json=True, deep=True)).split("\n")[:-1]]
    for record in facts:
        record["headers"] = []  # header keys are escaped too: they are looked at on their own
    out = written(
        encode_records([Record(r.value, r.key, (), r.timestamp) for r in rows]),
        LineStyle(deep=True, payloads=True),
    )
    assert out.split("\n")[1:-1] == [record_line(record, payloads=True) for record in facts]
    with_headers = written(data, LineStyle(deep=True, payloads=True)).split("\n")[:-1]
    assert len(with_headers) == 1 + len(rows)
    assert all(
        line.isprintable() or not set(map(ord, line)) & {*range(32), *range(127, 160)}
        for line in with_headers
    )


@pytest.mark.parametrize(
    "name", ["golden-txn-0", "golden-unicode.topic_name-with-dash-0", "legacy-v1-gzip-0"]
)
@pytest.mark.parametrize(
    "style",
    [LineStyle(json=True, deep=True), LineStyle(json=True), LineStyle(deep=True, payloads=True), LineStyle()],
    ids=str,
)
def test_the_buffers_size_does_not_show(kernel: ModuleType, name: str, style: LineStyle) -> None:
    data = golden_partition(name).logs()[0].read_bytes()
    whole = written(data, style, buffer_bytes=1 << 20)
    for size in BUFFERS:
        assert written(data, style, buffer_bytes=size) == whole


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 9, 10, 99_999_999, 10**8, 10**16 - 1, 10**16, 2**63 - 1])
def test_numbers_of_every_length(kernel: ModuleType, value: int) -> None:
    row = np.zeros((1, 16), dtype=np.int64)
    row[0, [2, 5, 8]] = (value, 2, value)
    line = json.loads(_fill(kernel, row, json=True))
    assert line["base_offset"] == value
    assert line["max_timestamp"] == value


def test_a_codec_that_does_not_exist_is_unknown(kernel: ModuleType) -> None:
    row = np.zeros((1, 16), dtype=np.int64)
    row[0, 5:7] = (2, 7)
    assert json.loads(_fill(kernel, row, json=True))["codec"] == "unknown"
    assert " compresscodec: unknown " in _fill(kernel, row, json=False)


@pytest.mark.parametrize(
    "ends", [(0, 9), (5, 2), (-1, 3), (0, 2**31 - 1)], ids=["past the end", "backwards", "before 0", "far"]
)
@pytest.mark.parametrize("column", ["key", "value", "header_key", "header_value", "headers"])
def test_columns_that_lie_are_found(kernel: ModuleType, column: str, ends: tuple[int, int]) -> None:
    one = np.zeros(1, dtype=np.int64)
    sound = kernel.Column(np.array([0, 3], dtype=np.int32), None, b"abc")
    columns = dict.fromkeys(("key", "value", "header_key", "header_value"), sound)
    lists = np.array(ends if column == "headers" else (0, 1), dtype=np.int32)
    if column in columns:
        columns[column] = kernel.Column(np.array(ends, dtype=np.int32), None, b"abc")
    table = np.zeros((1, 16), dtype=np.int64)
    table[0, 5] = 2
    for style in ((True, False), (False, True)):
        found = kernel.Lines(
            table,
            one,
            one,
            one,
            columns["key"],
            columns["value"],
            lists,
            columns["header_key"],
            columns["header_value"],
            style[0],
            False,
            style[1],
            True,
        )
        assert found.fill(bytearray(1 << 16)) == 0
        assert found.status == kernel.BAD


def test_records_without_their_batch_are_found(kernel: ModuleType) -> None:
    column = kernel.Column(np.array([0, 0], dtype=np.int32), None, b" ")
    ends = np.zeros(2, dtype=np.int32)
    none = kernel.Column(np.zeros(1, dtype=np.int32), None, b" ")
    row = np.zeros((1, 16), dtype=np.int64)
    elsewhere = np.array([61], dtype=np.int64)
    found = kernel.Lines(
        row, elsewhere, elsewhere, elsewhere, column, column, ends, none, none, True, False, False, True
    )
    found.fill(bytearray(4096))
    assert (found.status, found.row) == (kernel.BAD, 0)


def test_columns_of_different_lengths_are_refused(kernel: ModuleType) -> None:
    one, none = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    column = kernel.Column(np.zeros(2, dtype=np.int32), None, b" ")
    ends = np.zeros(2, dtype=np.int32)
    table = np.zeros((1, 16), dtype=np.int64)
    with pytest.raises(ValueError, match="different lengths"):
        kernel.Lines(table, one, none, one, column, column, ends, column, column, True, False, False, True)
    with pytest.raises(ValueError, match="validity bits"):
        kernel.Column(np.zeros(10, dtype=np.int32), np.zeros(1, dtype=np.uint8), b" ")


def _fill(kernel: ModuleType, table: np.ndarray, *, json: bool) -> str:
    """The lines of batches without records."""
    none = np.zeros(0, dtype=np.int64)
    column = kernel.Column(np.zeros(1, dtype=np.int32), None, b" ")
    ends = np.zeros(1, dtype=np.int32)
    found = kernel.Lines(
        table, none, none, none, column, column, ends, column, column, json, True, False, True
    )
    out = bytearray(4096)
    used = found.fill(out)
    assert found.status == kernel.DONE
    return out[:used].decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
