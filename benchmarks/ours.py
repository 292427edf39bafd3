"""tidelog's side of the record benchmarks, as its users would write it."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from tidelog.records import read_record_batches, walk_batches
from tidelog.records.builder import encode_batches
from tidelog.records.schema import Projection
from tidelog.records.windows import read_windows
from tidelog.scanning.tasks import NO_END, ScanTask, run_task
from tidelog.storage import LOCAL, FileReader
from tidelog.types import Codec

__all__ = ["decode", "decode_file", "encode", "load", "mapped", "scan", "scan_file"]


@contextlib.contextmanager
def mapped(log: Path) -> Iterator[mmap.mmap]:
    """The file, open and mapped as a log keeps its segments."""
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def decode(data: mmap.mmap) -> int:
    """Checks and decodes all of it to Arrow, chunk by chunk, with the default columns; how many records."""
    rows = 0
    for batch in read_record_batches(data, topic="bench"):
        rows += batch.num_rows
        del batch  # or it would live beside the next one
    return rows


def scan(data: mmap.mmap) -> int:
    """Checks every batch's header and CRC; how many batches."""
    return sum(len(table) for table in walk_batches(data))


def decode_file(log: Path) -> int:
    """Opens a file and decodes all of it, as a task of `tidelog.scan` does; how many records."""
    task = ScanTask(str(log.parent), log.name, "bench", 0, 0, log.stat().st_size, 0, NO_END)
    rows = 0
    for batch in run_task(task, Projection.of(None)):
        rows += batch.num_rows
        del batch  # or it would live beside the next one
    return rows


def scan_file(log: Path) -> int:
    """Opens a file and checks every batch's header and CRC; how many batches."""
    reader = FileReader.open(LOCAL, log)
    return sum(len(table) for _, _, table in read_windows(reader, 0, reader.size, check_crc=True))


def load(log: Path) -> pa.Table:
    """The keys, values and timestamps of a file, to encode them again."""
    data = log.read_bytes()
    return pa.Table.from_batches(read_record_batches(data, columns=["key", "value", "timestamp"]))


def encode(records: pa.Table, codec: str, per_batch: int) -> Callable[[], int]:
    """Encodes Arrow columns into v2 batches."""
    batches = records.to_batches()
    parsed = Codec.parse(codec)

    def work() -> int:
        return sum(
            len(encode_batches(batch, codec=parsed, max_batch_records=per_batch).data) for batch in batches
        )

    return work
