"""A segment through a life of appends, truncations, seals, closes and recoveries, against a plain list."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.segment.crafting import Nothing, batch, clock, config, created, opened, table_of
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage import Directory
from tidelog.types import Codec, TimestampOffset


@dataclass(frozen=True)
class Batch:
    """A batch in the plain list."""

    base: int
    times: tuple[int, ...]
    data: bytes

    @property
    def last(self) -> int:
        return self.base + len(self.times) - 1


times = st.lists(st.integers(-1, 50) | st.just(2**40), min_size=1, max_size=6).map(tuple)
gaps = st.sampled_from([0, 0, 0, 1, 20])
sizes = st.sampled_from([1, 30, 200, 3000])
codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP])


class SegmentMachine(RuleBasedStateMachine):
    """The segment at `base`, the list it must agree with, and views that must never change."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.directory = Directory(self.path)
        self.views: list[tuple[memoryview, bytes]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.path)

    @initialize(
        base=st.sampled_from([0, 5, 2**40]),
        interval=st.sampled_from([0, 100, 4096]),
        magic=st.sampled_from([2, 2, 2, 1]),
        preallocate=st.booleans(),
    )
    def begin(self, base: int, interval: int, magic: int, preallocate: bool) -> None:
        self.base = base
        self.magic = magic
        self.values = {"index_interval_bytes": interval, "preallocate": preallocate}
        self.values["internal_segment_bytes"] = 100_000
        self.segment: Segment = created(self.directory, base, **self.values)
        self.batches: list[Batch] = []

    @property
    def active(self) -> ActiveSegment:
        if isinstance(self.segment, SealedSegment):
            self.segment = ActiveSegment.reopen(self.segment, config(**self.values), clock=clock)
        assert isinstance(self.segment, ActiveSegment)
        return self.segment

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.base

    # Changes

    @rule(more=st.lists(st.tuples(times, gaps, sizes, codecs), min_size=1, max_size=5))
    def append(self, more: list[tuple[tuple[int, ...], int, int, Codec]]) -> None:
        added, offset = [], self.end
        for stamps, gap, size, codec in more:
            offset += gap
            data = batch(offset, stamps, size=size, codec=codec, magic=self.magic)
            if self.magic == 2 or codec:
                added.append(Batch(offset, stamps, data))
            else:
                added += [Batch(offset + i, (stamp,), b"") for i, stamp in enumerate(stamps)]
                added[-1] = Batch(added[-1].base, added[-1].times, data)  # their bytes, together
            offset += len(stamps)
        together = b"".join(each.data for each in added)
        if self.segment.size + len(together) > 90_000:
            return
        self.active.append(together, table_of(together))
        self.batches += added

    @rule(back=st.integers(-1, 30))
    def truncate(self, back: int) -> None:
        if self.magic < 2:
            return  # bytes of lone messages are not told apart above
        target = max(self.base, self.end - back)
        before = self.segment.size
        self.batches = [each for each in self.batches if each.last < target]
        assert self.active.truncate_to(target) == before - self.segment.size

    @rule()
    def seal(self) -> None:
        if isinstance(self.segment, ActiveSegment):
            self.segment = self.segment.seal()

    @rule()
    def reopen(self) -> None:
        self.segment.close()
        self.segment = opened(self.directory, self.base, **self.values)

    @rule()
    def reopen_sealed(self) -> None:
        self.segment.close()
        self.segment = SealedSegment.open(self.directory, self.base)

    @rule(tail=st.binary(max_size=70))
    def crash_and_recover(self, tail: bytes) -> None:
        """Whatever follows the last batch, and whatever the indexes hold."""
        self.active.abandon()
        file = self.directory.open(f"{self.base:020}.log", writable=True)
        size = sum(len(each.data) for each in self.batches)
        file.truncate(size)
        file.pwrite(tail, size)
        for name in ("index", "timeindex"):
            (self.path / f"{self.base:020}.{name}").write_bytes(bytes(4096) if len(tail) % 2 else tail)
        self.segment = opened(self.directory, self.base, **self.values)
        assert self.active.recover(Nothing()) == len(tail)

    # Questions

    @rule(at=st.integers(0, 200))
    def find_by_offset(self, at: int) -> None:
        target = self.base + at % (self.end - self.base + 2)
        found = self.segment.translate_offset(target)
        held = next((each for each in self.batches if each.last >= target), None)
        assert (None if found is None else found.offset) == (None if held is None else held.base)
        record = self.segment.read_record(target)
        if held is None or held.base > target:
            assert record is None
            return
        assert record is not None
        assert record.offset == target
        assert record.timestamp == held.times[target - held.base]
        assert (record.value or b"").rstrip(b".") == b"%d" % target
        read = self.segment.read(target, 50, min_one_message=True)
        assert read is not None
        assert read.data[: len(held.data)] == held.data or self.magic < 2

    @rule(timestamp=st.integers(-2, 51) | st.just(2**40), at=st.integers(0, 200))
    def find_by_time(self, timestamp: int, at: int) -> None:
        start = self.base + at % (self.end - self.base + 2)
        expected = None
        for each in self.batches:
            stamps = [(stamp, each.base + i) for i, stamp in enumerate(each.times)]
            late = [TimestampOffset(*one) for one in stamps if one[0] >= timestamp and one[1] >= start]
            if late:
                expected = late[0]
                break
        assert self.segment.find_offset_by_timestamp(timestamp, start) == expected

    @rule()
    def look(self) -> None:
        view = self.segment.buffer()
        self.views.append((view, bytes(view)))

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "segment"):
            return
        assert self.segment.size == sum(len(each.data) for each in self.batches)
        assert self.segment.next_offset() == self.end
        largest = max((max(each.times) for each in self.batches), default=-1)
        assert self.segment.max_timestamp_so_far.timestamp == largest
        assert self.segment.index_fault() is None
        for view, copy in self.views:
            assert view == copy


SegmentMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestASegmentsLife = SegmentMachine.TestCase
