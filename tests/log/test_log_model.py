"""A log against a plain list: whatever is done to it, in any order, both hold the same."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.log.logs import NOW_MS, Clock, abort, all_records, commit, send
from tidelog.config import LogConfig
from tidelog.errors import OffsetOutOfRangeError
from tidelog.log import Log
from tidelog.records import Record
from tidelog.types import Codec, FetchIsolation, TimestampOffset

CONFIG = LogConfig(
    internal_segment_bytes=1200, index_interval_bytes=150, segment_index_bytes=4096, segment_ms=60_000
)
PRODUCERS = (11, 12)

records = st.builds(
    Record,
    value=st.none() | st.binary(max_size=60),
    key=st.none() | st.binary(max_size=10),
    timestamp=st.integers(NOW_MS - 100_000, NOW_MS + 100_000),
)
batches = st.lists(records, min_size=1, max_size=6)


@dataclass
class Entry:
    """A record, or a marker's place, at its offset."""

    batch_start: int
    timestamp: int
    record: Record | None
    producer: int | None = None
    aborted: bool = False
    decided_at: int | None = None
    """Where its transaction's marker is; None while that is open."""
    epoch: int = 0


@dataclass
class Model:
    """What a log is: a list of entries by offset, and a few numbers."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    high_watermark: int = 0
    base: int = 0
    """The offset of the first entry."""
    epochs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    def at(self, offset: int) -> Entry:
        return self.entries[offset - self.base]

    def add(
        self, epoch: int, timestamps: list[int], found: list[Record | None], producer: int | None = None
    ) -> None:
        first = self.end
        for timestamp, one in zip(timestamps, found, strict=True):
            self.entries.append(Entry(first, timestamp, one, producer, epoch=epoch))
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs.append((epoch, first))

    def truncate(self, offset: int) -> None:
        """Cut at an offset: the batch that holds it goes with all that follow."""
        cut = self.at(offset).batch_start if offset < self.end else offset
        del self.entries[cut - self.base :]
        for entry in self.entries:
            if entry.decided_at is not None and entry.decided_at >= cut:
                entry.decided_at, entry.aborted = None, False

    def open_since(self, producer: int) -> int | None:
        return next(
            (
                self.base + at
                for at, entry in enumerate(self.entries)
                if entry.producer == producer and entry.decided_at is None and entry.record is not None
            ),
            None,
        )

    def last_stable(self, decided_below: int, known_from: int = 0) -> int:
        """The first offset from `known_from` on whose fate no marker below `decided_below` has decided."""
        for at, entry in enumerate(self.entries):
            if entry.producer is None or entry.record is None or self.base + at < known_from:
                continue
            if entry.decided_at is None or entry.decided_at >= decided_below:
                return max(min(self.base + at, self.high_watermark), self.start)
        return self.high_watermark

    def visible(self, limit: int) -> list[int]:
        """The offsets of whole batches that a read from the log start sees, control records included."""
        if limit < self.end:
            limit = max(self.at(limit).batch_start, self.base)
        return list(range(self.start, limit))


class LogMachine(RuleBasedStateMachine):
    """Does things to a log and to the list."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.path = self.root / "model-0"
        self.clock = Clock()
        self.model = Model()
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.epoch = 0
        self.reloaded = False
        self.log = self._open(clean=True)

    def _open(self, *, clean: bool) -> Log:
        model = self.model
        return Log.open(
            self.path,
            CONFIG,
            clean=clean,
            log_start_offset=model.start,
            recovery_point=0,
            high_watermark=model.high_watermark,
            now_ms=self.clock,
        )

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.root)

    # Writing

    @rule(found=batches, codec=st.sampled_from(Codec))
    def append(self, found: list[Record], codec: Codec) -> None:
        info = self.log.append_as_leader(found, leader_epoch=self.epoch, codec=codec)
        assert info.first_offset == self.model.end
        self.model.add(self.epoch, [one.timestamp or 0 for one in found], list(found))

    @rule(found=batches, producer=st.sampled_from(PRODUCERS))
    def append_in_transaction(self, found: list[Record], producer: int) -> None:
        sequence = self.sequences[producer]
        info = send(self.log, producer, sequence, *found, leader_epoch=self.epoch)
        assert not info.is_duplicate
        assert info.first_offset == self.model.end
        if len(found) > 1 or sequence:
            again = send(self.log, producer, sequence, *found)
            assert (again.is_duplicate, again.first_offset) == (True, info.first_offset)
        self.sequences[producer] += len(found)
        self.model.add(self.epoch, [one.timestamp or 0 for one in found], list(found), producer)

    @rule(producer=st.sampled_from(PRODUCERS), commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        if self.model.open_since(producer) is None:
            return
        info = (commit if commits else abort)(self.log, producer, leader_epoch=self.epoch)
        self.model.add(self.epoch, [NOW_MS], [None], producer)
        for entry in self.model.entries:
            if entry.producer == producer and entry.record is not None and entry.decided_at is None:
                entry.decided_at, entry.aborted = info.first_offset, not commits

    @rule()
    def lead_anew(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.model.end

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        model = self.model
        at = model.start + int(part * (model.end - model.start))
        if at < model.end:
            at = max(model.at(at).batch_start, model.base)  # where a leader would tell a follower to
        at = max(at, model.start) if at >= model.start else at
        if at < model.start:
            return
        self.log.truncate_to(at)
        self.reloaded = True
        model.truncate(at)
        model.high_watermark = min(model.high_watermark, model.end)
        model.epochs = [entry for entry in model.epochs if entry[1] < model.end]
        for producer in PRODUCERS:
            state = self.log.active_producers.get(producer)
            self.sequences[producer] = state.last_sequence + 1 if state else 0

    @rule(offset=st.integers(0, 10))
    def start_anew(self, offset: int) -> None:
        new = self.model.end + offset
        self.log.truncate_fully_and_start_at(new)
        self.model = Model(base=new, start=new, high_watermark=new)
        self.reloaded = False
        self.sequences = dict.fromkeys(PRODUCERS, 0)

    # Offsets

    @rule(part=st.floats(0, 1))
    def move_high_watermark(self, part: float) -> None:
        model = self.model
        mark = model.start + int(part * (model.end - model.start))
        assert self.log.update_high_watermark(mark) == mark
        self.reloaded |= mark < model.high_watermark  # what was replicated stays decided
        model.high_watermark = mark

    @rule(part=st.floats(0, 1))
    def raise_log_start(self, part: float) -> None:
        model = self.model
        start = model.start + int(part * (model.high_watermark - model.start))
        self.log.delete_records(start)
        model.start = start
        self._trim_epochs()

    def _trim_epochs(self) -> None:
        model = self.model
        below = [entry for entry in model.epochs if entry[1] <= model.start]
        if below:
            model.epochs = [(below[-1][0], model.start)] + [e for e in model.epochs if e[1] > model.start]

    @rule()
    def delete_old_segments(self) -> None:
        bases = self.log.segments.base_offsets
        old = [
            segment
            for segment, following in zip(self.log.segments, bases[1:], strict=False)
            if following <= self.model.start
        ]
        assert self.log.delete_segments(old) == len(old)

    # Ends

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.log.close()
        before = sorted(file.name for file in self.path.iterdir())
        self._load(clean=clean)
        after = sorted(file.name for file in self.path.iterdir())
        assert [name for name in before if name.endswith(".log")] == [
            name for name in after if name.endswith(".log")
        ]

    @rule()
    def crash(self) -> None:
        """Everything written is there, nothing is closed."""
        self.log.close_handlers()
        self._load(clean=False)

    def _load(self, *, clean: bool) -> None:
        model = self.model
        first = self.log.segments.base_offsets[0]
        self.log = self._open(clean=clean)
        self.reloaded = True
        if not clean:  # the batches that are there still tell their epochs, those below the log start too
            for offset in range(max(first, model.base), model.end):
                entry = model.at(offset)
                if entry.batch_start == offset and entry.epoch > (
                    model.epochs[-1][0] if model.epochs else -1
                ):
                    model.epochs.append((entry.epoch, offset))
        model.epochs = [entry for entry in model.epochs if entry[1] < model.end]
        self._trim_epochs()
        for producer in PRODUCERS:
            state = self.log.active_producers.get(producer)
            told = state.last_sequence + 1 if state else 0
            batches = (
                entry for entry in model.entries[model.start - model.base :] if entry.record is not None
            )
            if any(entry.producer == producer for entry in batches):
                assert told == self.sequences[producer]
            self.sequences[producer] = told  # all that it sent may be gone, and be forgotten, as by Kafka

    # Reading

    @invariant()
    def offsets_agree(self) -> None:
        log, model = self.log, self.model
        assert log.log_end_offset == model.end
        assert log.log_start_offset == model.start
        assert log.high_watermark == model.high_watermark
        stable = model.last_stable(model.high_watermark)
        if not self.reloaded:
            assert log.last_stable_offset == stable
        else:  # where transactions had ended, and began below the log start, need not be remembered
            assert stable <= log.last_stable_offset <= model.last_stable(model.end, model.start)
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert [(entry.epoch, entry.start_offset) for entry in log.epoch_entries] == model.epochs

    @rule(isolation=st.sampled_from(FetchIsolation))
    def read_all(self, isolation: FetchIsolation) -> None:
        found = all_records(self.log, isolation)
        offsets = self.log.offsets
        limit = {
            FetchIsolation.LOG_END: offsets.log_end.message_offset,
            FetchIsolation.HIGH_WATERMARK: offsets.high_watermark.message_offset,
            FetchIsolation.TXN_COMMITTED: offsets.last_stable_offset,
        }[isolation]
        assert [one.offset for one in found] == self.model.visible(limit)
        for one in found:
            entry = self.model.at(one.offset)
            assert one.control is (entry.record is None)
            assert one.timestamp == entry.timestamp
            if entry.record is not None:
                assert one.to_record() == dataclasses.replace(entry.record, headers=())

    @rule(part=st.floats(0, 1), size=st.integers(1, 3000))
    def read_committed(self, part: float, size: int) -> None:
        log, model = self.log, self.model
        offset = model.start + int(part * (log.last_stable_offset - model.start))
        fetched = log.read(offset, size, FetchIsolation.TXN_COMMITTED)
        end = fetched.batches()
        last = int(end.last_offset[-1]) + 1 if len(end) else offset
        seen = log.read_arrow(offset, size, FetchIsolation.TXN_COMMITTED, ["offset"]).column(0).to_pylist()
        assert seen == [
            at for at in range(offset, last) if (e := model.at(at)).record is not None and not e.aborted
        ]

    @rule(part=st.floats(0, 1))
    def read_one(self, part: float) -> None:
        model = self.model
        offset = model.start + int(part * (model.end - model.start))
        if offset == model.end:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read_record(offset)
            return
        one = self.log.read_record(offset)
        entry = model.at(offset)
        assert one is not None
        assert one.control is (entry.record is None)
        assert entry.record is None or one.to_record() == dataclasses.replace(entry.record, headers=())

    @rule(timestamp=st.integers(NOW_MS - 110_000, NOW_MS + 110_000))
    def look_up_time(self, timestamp: int) -> None:
        model = self.model
        expected = next(
            (
                TimestampOffset(model.at(offset).timestamp, offset)
                for offset in range(model.start, model.end)
                if model.at(offset).timestamp >= timestamp
            ),
            None,
        )
        assert self.log.first_offset_at(timestamp) == expected
        assert self.log.offset_for_timestamp(timestamp) in (expected, None)  # looks at one segment alone

    @rule(epoch=st.integers(-1, 8))
    def ask_epoch(self, epoch: int) -> None:
        entries = self.model.epochs
        told = self.log.end_offset_for(epoch)
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            assert told == (-1, -1)
        elif epoch == entries[-1][0]:
            assert told == (epoch, self.model.end)
        else:
            following = next(start for number, start in entries if number > epoch)
            below = [number for number, _ in entries if number <= epoch]
            assert told == (below[-1] if below else epoch, following)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
