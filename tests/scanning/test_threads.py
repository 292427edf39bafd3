"""Scans on several threads: as much ahead of the reader as was promised, and no more."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pyarrow as pa

import tidelog
from tidelog.records import Record

SEGMENTS, VALUE = 60, 400_000


def test_a_reader_that_stops_is_not_outrun(tmp_path: Path) -> None:
    """Sixty tasks of a batch each: all of them would fit their queues, but only a few may be begun."""
    with tidelog.Log.open(tmp_path / "t-0") as log:
        for n in range(SEGMENTS):
            log.append_as_leader([Record(bytes([n]) * VALUE)])
            log.roll()
    gc.collect()  # or what others have left goes meanwhile
    before = pa.total_allocated_bytes()
    reader = tidelog.scan(tmp_path / "t-0", threads=2)
    first = reader.read_next_batch()
    held = 0
    for _ in range(20):
        time.sleep(0.02)
        held = max(held, pa.total_allocated_bytes() - before)
    assert VALUE < held < 8 * VALUE
    offsets = [*first.column("offset").to_pylist(), *reader.read_all().column("offset").to_pylist()]
    assert offsets == list(range(SEGMENTS))
