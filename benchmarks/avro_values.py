"""Avro values to Arrow, against fastavro: the same bytes, one thread, by CPU time."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from benchmarks.harness import Bench
from benchmarks.report import Row
from tidelog.values.avro import AvroVersions
from tidelog.values.schemas import AVRO, DirectorySchemas, Schema
from tidelog.values.spec import ColumnDecoder
from tidelog.values.wire import Framing

__all__ = ["rows"]

BAR = 5.0
ROWS = 20_000
ROUNDS = 5
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "currency", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        },
    ],
}


def rows(bench: Bench) -> Iterator[Row]:
    """The row of Avro values."""
    if not bench.selected("tables/avro"):
        return
    import fastavro

    parsed = fastavro.parse_schema(ORDER)
    payloads = [_encoded(fastavro, parsed, number) for number in range(ROWS)]
    framed = pa.array([b"\0\0\0\0\1" + one for one in payloads], pa.binary())
    text = json.dumps(ORDER)
    versions = AvroVersions(DirectorySchemas("", {"1.avsc": text}), [Schema(AVRO, text, 1)], {}, False)
    decoder = ColumnDecoder("value", Framing.CONFLUENT, versions)

    def theirs() -> None:
        for one in payloads:
            fastavro.schemaless_reader(io.BytesIO(one), parsed, None)

    speeds = [ROWS / _cpu_seconds(work) / 1e6 for work in (lambda: decoder.decode(framed), theirs)]
    yield Row("tables/avro", "M values/s", speeds[0], "fastavro", speeds[1], BAR)


def _encoded(fastavro: Any, parsed: Any, number: int) -> bytes:
    pick = random.Random(number)
    out = io.BytesIO()
    order = {
        "id": number,
        "customer": f"customer-{pick.randrange(10_000)}",
        "total": pick.randrange(100_000) / 100,
        "currency": pick.choice(("EUR", "USD")),
        "note": pick.choice((None, "leave it at the door")),
        "at": datetime.fromtimestamp(1_700_000_000 + number, UTC),
        "items": [{"sku": f"sku-{pick.randrange(999)}", "count": n} for n in range(pick.randrange(4))],
    }
    fastavro.schemaless_writer(out, parsed, order)
    return out.getvalue()


def _cpu_seconds(work: Callable[[], Any]) -> float:
    """The least of several rounds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)
