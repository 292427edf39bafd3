"""A second, slow and plain encoder of v2 batches, to compare the kernel with; and made-up records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import google_crc32c
from hypothesis import strategies as st

from tidelog.records.record import Header, Record

INT32_MAX = (1 << 31) - 1


def varint(number: int) -> bytes:
    """A zigzag varint of a long; what is too large for one wraps around, as it does in Java."""
    number = (number + 2**63) % 2**64 - 2**63
    left = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while left > 127:
        out.append(left % 128 + 128)
        left //= 128
    return bytes([*out, left])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record_bytes(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + field(record.key) + field(record.value)
    body += varint(len(record.headers))
    for header in record.headers:
        body += field(header.key.encode()) + field(header.value)
    return varint(len(body)) + body


def cut(records: Sequence[Record], max_bytes: int, max_records: int) -> Iterator[list[tuple[int, Record]]]:
    """Rows of each batch, as Kafka's producer fills them; every record has a timestamp."""
    batch: list[tuple[int, Record]] = []
    size = 61
    for row, record in enumerate(records):
        if batch:
            delta = _time(record) - _time(batch[0][1])
            more = len(record_bytes(record, delta, len(batch)))
            if len(batch) == max_records or size + more > max_bytes:
                yield batch
                batch = []
        if not batch:
            size, more = 61, len(record_bytes(record, 0, 0))
        batch.append((row, record))
        size += more
    if batch:
        yield batch


def batch_bytes(
    rows: Sequence[tuple[int, Record]],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    append_time: int | None = None,
) -> bytes:
    """One uncompressed batch; `rows` carry their row numbers, which offsets and sequences count by."""
    first_row, first = rows[0]
    times = [_time(record) for _, record in rows]
    payload = b"".join(
        record_bytes(record, _time(record) - times[0], row - first_row) for row, record in rows
    )
    sequence = base_sequence if base_sequence < 0 else (base_sequence + first_row) % (1 << 31)
    checked = b"".join(
        (
            attributes.to_bytes(2, "big"),
            (len(rows) - 1).to_bytes(4, "big"),
            _time(first).to_bytes(8, "big", signed=True),
            (max(times) if append_time is None else append_time).to_bytes(8, "big", signed=True),
            producer_id.to_bytes(8, "big", signed=True),
            producer_epoch.to_bytes(2, "big", signed=True),
            sequence.to_bytes(4, "big", signed=True),
            len(rows).to_bytes(4, "big"),
            payload,
        )
    )
    return b"".join(
        (
            (base_offset + first_row).to_bytes(8, "big"),
            (len(checked) + 9).to_bytes(4, "big"),
            leader_epoch.to_bytes(4, "big", signed=True),
            b"\2",
            google_crc32c.value(checked).to_bytes(4, "big"),
            checked,
        )
    )


def _time(record: Record) -> int:
    assert record.timestamp is not None
    return record.timestamp


bytes_or_null = st.one_of(st.none(), st.binary(max_size=200), st.integers(0, 9000).map(lambda n: b"." * n))
headers = st.lists(
    st.builds(Header, st.text(max_size=10), st.one_of(st.none(), st.binary(max_size=20))), max_size=3
)
timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_100_000), st.integers(-1, (1 << 63) - 1), st.just(-1)
)
records = st.builds(
    Record, bytes_or_null, bytes_or_null, st.one_of(st.just([]), headers).map(tuple), timestamps
)
