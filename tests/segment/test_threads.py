"""One writer and many readers, here and in another process: whole batches, each record where it belongs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.segment.crafting import NOW_MS, append, batch, clock, config, created, table_of
from tests.waiting import PATIENCE_S
from tidelog.errors import LogClosedError
from tidelog.kernels import COMPILED
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage import Directory
from tidelog.types import Codec

pytestmark = pytest.mark.skipif(not COMPILED, reason="uncompiled, a question is many steps: one thread")

SECONDS = 1.5
PER_BATCH = 5


class Life:
    """A segment that a writer changes, and the offset up to which there was something for sure."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.segment: Segment = created(directory, segment_index_bytes=1 << 16)
        self.stable = 0  # never truncated below
        self.stop = threading.Event()
        self.failures: list[BaseException] = []

    def batch(self, offset: int) -> bytes:
        codec = Codec.LZ4 if offset % 3 == 0 else Codec.NONE
        stamps = range(NOW_MS + offset, NOW_MS + offset + PER_BATCH)
        return batch(offset, stamps, size=50 + offset % 700, codec=codec)

    def write(self) -> None:
        offset, kept = 0, 0
        for step in range(1_000_000):
            if self.stop.is_set():
                return
            active = self.segment
            assert isinstance(active, ActiveSegment)
            many = 1 if step % 5 else 20
            append(active, b"".join(self.batch(offset + i * PER_BATCH) for i in range(many)))
            offset += many * PER_BATCH
            if step % 40 == 39:
                self.segment = active.seal()
                active = ActiveSegment.reopen(self.segment, config(segment_index_bytes=1 << 16), clock=clock)
                self.segment = active
            if step % 17 == 16:
                offset = kept + (offset - kept) // (2 * PER_BATCH) * PER_BATCH
                active.truncate_to(offset)
            if step % 60 == 59:
                kept = self.stable = offset
            if active.size > 3_000_000:
                self.stable = kept = offset = 0
                active.truncate_to(0)

    def guarded(self, action: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while not self.stop.is_set():
                    action()
            except BaseException as failure:
                self.failures.append(failure)
                self.stop.set()

        return threading.Thread(target=run)

    def run(self, *actions: Callable[[], None]) -> None:
        threads = [self.guarded(action) for action in (self.write, *actions)]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        self.stop.set()
        for thread in threads:
            thread.join(60)
        if self.failures:
            raise self.failures[0]

    # Readers

    def read_records(self) -> None:
        segment, end = self.segment, self.stable
        for offset in range(0, max(end, 1), max(1, end // 50)):
            try:
                record = segment.read_record(offset)
            except LogClosedError:
                return  # sealed and active again meanwhile
            if record is None:
                assert self.stable < end or not end
                return
            assert (record.offset, record.timestamp) == (offset, NOW_MS + offset)
            assert record.value is not None
            assert record.value.rstrip(b".") == b"%d" % offset

    def read_times(self) -> None:
        segment, end = self.segment, self.stable
        for offset in range(0, end, max(1, end // 50)):
            try:
                found = segment.find_offset_by_timestamp(NOW_MS + offset, 0)
            except LogClosedError:
                return
            if found is None:
                assert self.stable < end
                return
            assert found.offset == offset
            assert found.timestamp == NOW_MS + offset

    def look(self) -> None:
        try:
            view = self.segment.buffer()
        except LogClosedError:
            return
        before = bytes(view)
        table = table_of(view)
        if len(table):
            assert table.end == len(view), "whole batches"
            assert table.base_offset.tolist() == list(range(0, len(table) * PER_BATCH, PER_BATCH))
        time.sleep(0.005)
        assert view == before, "what is seen stays as it is"


def test_readers_of_a_segment_that_lives(directory: Directory) -> None:
    life = Life(directory)
    life.run(life.read_records, life.read_records, life.read_times, life.look)
    assert life.segment.size > 0


READER = """
import sys, time
from tidelog.records import scan_batches
from tidelog.segment import SealedSegment
from tidelog.storage import Directory

directory, seconds = Directory(sys.argv[1]), float(sys.argv[2])
stop, last, looks = time.monotonic() + seconds, -1, 0
while time.monotonic() < stop or looks < 2:
    segment = SealedSegment.snapshot(directory, 0)
    table = scan_batches(segment.buffer(), max_batches=1 << 20).require()
    end = segment.next_offset()
    assert end >= last, (end, last)
    if len(table):
        assert table.end == segment.size
        assert int(table.last_offset[-1]) + 1 == end
        for offset in range(0, end, max(1, end // 20)):
            record = segment.read_record(offset)
            assert record.value.rstrip(b".") == b"%d" % offset
        found = segment.find_offset_by_timestamp(segment.max_timestamp_so_far.timestamp, 0)
        assert found.offset == end - 1
    last, looks = end, looks + 1
print(looks, last)
"""


def test_a_reader_in_another_process(directory: Directory) -> None:
    segment = created(directory, segment_index_bytes=1 << 21)
    append(segment, batch(0, [NOW_MS]))
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, directory.path, str(SECONDS)], stdout=subprocess.PIPE, text=True
    )
    offset = 1
    while reader.poll() is None:
        for _ in range(100):
            append(segment, batch(offset, [NOW_MS + offset], size=2 + offset % 5000))
            offset += 1
        time.sleep(0.02)
        if segment.size > 1 << 26:
            break
    out, _ = reader.communicate(timeout=PATIENCE_S)
    assert reader.returncode == 0
    looks, seen = map(int, out.split())
    assert looks > 1
    assert 0 < seen <= offset


def test_flushing_while_it_is_sealed(directory: Directory) -> None:
    segment = created(directory)
    append(segment, batch(0))
    errors: list[BaseException] = []

    def flush() -> None:
        try:
            for _ in range(20):
                segment.flush()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=flush)
    thread.start()
    sealed = segment.seal()
    thread.join(60)
    assert not errors
    assert isinstance(sealed, SealedSegment)
    assert Path(sealed.path).exists()
