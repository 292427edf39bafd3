"""A small log, from end to end: `make demo`.

1. Write a day of tide gauge readings as Kafka's record batches into a segment file.
2. Read it back as Arrow columns, and as single records.
3. Flip one bit of it, and see that caught.

Everything happens in a temporary directory.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from tidelog.errors import CorruptRecordError
from tidelog.records import Header, Record, decode_records, encode_records, read_record_batches, scan_batches
from tidelog.types import Codec

GAUGES = ("brest", "cuxhaven", "halifax")
MIDNIGHT_MS = 1_700_006_400_000  # 2023-11-15, UTC
SHOWN = 6

console = Console(highlight=False)


def readings() -> list[Record]:
    """A reading of each gauge every five minutes."""
    records = []
    for minute in range(0, 24 * 60, 5):
        for phase, gauge in enumerate(GAUGES):
            level_m = round(3 + 2.5 * math.sin(2 * math.pi * minute / 745 + phase), 2)
            records.append(
                Record(
                    value=json.dumps({"level_m": level_m}).encode(),
                    key=gauge.encode(),
                    headers=[Header("unit", b"m")],
                    timestamp=MIDNIGHT_MS + 60_000 * minute,
                )
            )
    return records


def write(path: Path) -> None:
    """Encode the readings and write them as a segment."""
    records = readings()
    begin = time.perf_counter()
    data = encode_records(records, codec=Codec.ZSTD, max_batch_records=100)
    took_ms = 1000 * (time.perf_counter() - begin)
    path.write_bytes(data)
    batches = len(scan_batches(data).require())
    console.print(f"{len(records)} records in {batches} zstd batches: {len(data):,} bytes, {took_ms:.1f} ms")
    console.print(f"[bold]{path.parent.name}/{path.name}")


def read_columns(path: Path) -> None:
    """All records as Arrow columns, and a question to them."""
    (batch,) = read_record_batches(path.read_bytes(), topic="tides", columns=["key", "value", "timestamp"])
    console.print(f"{batch.num_rows} rows of {', '.join(batch.schema.names)}")
    found = pc.extract_regex(batch["value"].cast("string"), r'"level_m": (?P<metres>[0-9.]+)')
    levels = found.field("metres").cast("double")
    table = Table("gauge", "readings", "lowest", "highest")
    for gauge in GAUGES:
        here = levels.filter(pc.equal(batch["key"], gauge.encode()))
        low, high = pc.min_max(here).as_py().values()
        table.add_row(gauge, str(len(here)), f"{low:.2f} m", f"{high:.2f} m")
    console.print(table)


def read_records(path: Path) -> None:
    """The last records one by one."""
    table = Table("offset", "time", "key", "value", "headers")
    for record in list(decode_records(path.read_bytes()))[-SHOWN:]:
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        table.add_row(
            str(record.offset),
            f"{moment:%Y-%m-%d %H:%M}",
            (record.key or b"").decode(),
            (record.value or b"").decode(),
            ", ".join(f"{header.key}={(header.value or b'').decode()}" for header in record.headers),
        )
    console.print(table)


def damage(path: Path) -> None:
    """One bit is enough, and is found with its place."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x04
    path.write_bytes(data)
    read = 0
    try:
        for _ in decode_records(data, source=path.name):
            read += 1
    except CorruptRecordError as error:
        console.print(f"{read} records, then [red]{type(error).__name__}[/]: {error}")
    else:
        raise SystemExit("a flipped bit went unnoticed: this is a bug in tidelog")


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as scratch:
        path = Path(scratch, "tides-0", "00000000000000000000.log")
        path.parent.mkdir()
        for title, step in (
            ("Write a segment as Kafka would", write),
            ("Read it as Arrow columns", read_columns),
            ("Read it record by record", read_records),
            ("Flip one bit", damage),
        ):
            console.rule(f"[bold]{title}", align="left")
            step(path)
        console.rule(align="left")
        console.print("Try it on a file of your own: [bold].venv/bin/tidelog dump --deep FILE.log")


if __name__ == "__main__":
    main()
