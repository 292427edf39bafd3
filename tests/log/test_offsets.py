"""The offsets of a log never leave their order, however they move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidelog.errors import InvalidInputError, OffsetOutOfRangeError
from tidelog.log.offsets import LogOffsetMetadata, LogOffsets

At = LogOffsetMetadata


def test_metadata_knows_its_segment_or_not() -> None:
    bare, old, new = At(5), At(5, 0, 100), At(5, 5, 0)
    assert bare.message_offset_only
    assert not old.message_offset_only
    assert old.on_older_segment(new)
    assert not new.on_older_segment(old)
    assert not bare.on_older_segment(new)
    assert not old.on_older_segment(bare)
    assert old.on_same_segment(At(9, 0, 300))
    assert not old.on_same_segment(new)
    assert At(9, 0, 300).position_diff(old) == 200
    assert str(old) == "(offset=5, segment=[0:100])"


@pytest.mark.parametrize("other", [At(5), At(5, 5, 0)])
def test_positions_of_different_segments_do_not_compare(other: At) -> None:
    with pytest.raises(InvalidInputError):
        At(5, 0, 100).position_diff(other)


@pytest.mark.parametrize(
    ("start", "unstable", "mark", "end"),
    [(-1, None, 0, 0), (3, None, 2, 5), (0, None, 6, 5), (3, 2, 4, 5)],
)
def test_offsets_out_of_order_cannot_be_made(start: int, unstable: int | None, mark: int, end: int) -> None:
    with pytest.raises(InvalidInputError, match="out of order"):
        LogOffsets(start, None if unstable is None else At(unstable), At(mark), At(end))


def test_last_stable_is_the_first_unstable_below_the_high_watermark() -> None:
    def stable(unstable: int | None) -> int:
        return LogOffsets(0, None if unstable is None else At(unstable), At(5), At(9)).last_stable_offset

    assert [stable(None), stable(3), stable(5), stable(7)] == [5, 3, 5, 5]


@pytest.mark.parametrize(("to", "becomes"), [(-7, 3), (3, 3), (5, 5), (9, 9), (20, 9)])
def test_update_high_watermark_stays_within_the_log(to: int, becomes: int) -> None:
    offsets = LogOffsets(3, None, At(6), At(9, 0, 900)).update_high_watermark(to)
    assert offsets.high_watermark.message_offset == becomes
    if becomes == 9:
        assert offsets.high_watermark == At(9, 0, 900)


def test_maybe_increment_high_watermark() -> None:
    offsets = LogOffsets(0, None, At(5, 0, 50), At(9, 5, 40))
    grown = offsets.maybe_increment_high_watermark(At(7, 5, 20))
    assert grown is not None
    assert grown.high_watermark == At(7, 5, 20)
    assert offsets.maybe_increment_high_watermark(At(4, 0, 40)) is None
    assert offsets.maybe_increment_high_watermark(At(5, 0, 50)) is None
    assert offsets.maybe_increment_high_watermark(At(5)) is None
    newer = offsets.maybe_increment_high_watermark(At(5, 5, 0))
    assert newer is not None
    assert newer.high_watermark == At(5, 5, 0)
    with pytest.raises(OffsetOutOfRangeError):
        offsets.maybe_increment_high_watermark(At(10))


def test_the_log_end_takes_a_high_watermark_at_it_along() -> None:
    offsets = LogOffsets.at(5).with_log_end(At(5, 5, 0))
    assert offsets.high_watermark == At(5, 5, 0)
    appended = offsets.with_log_end(At(9, 5, 90))
    assert appended.high_watermark == At(5, 5, 0)
    cut = appended.update_high_watermark(9).with_first_unstable(At(8)).with_log_end(At(7, 5, 50))
    assert cut == LogOffsets(5, None, At(7, 5, 50), At(7, 5, 50))
    assert cut.with_log_end(At(2, 0, 0)).log_start == 2


def test_the_log_start_only_rises_and_not_above_the_high_watermark() -> None:
    offsets = LogOffsets(2, At(3), At(6), At(9))
    assert offsets.with_log_start(1) is offsets
    risen = offsets.with_log_start(5)
    assert (risen.log_start, risen.last_stable_offset) == (5, 5)
    assert offsets.with_log_start(3).first_unstable == At(3)
    with pytest.raises(OffsetOutOfRangeError):
        offsets.with_log_start(7)


def test_places_are_filled_in_only_where_the_offset_is_still_the_same() -> None:
    offsets = LogOffsets(0, At(3), At(6), At(9))
    assert offsets.with_places(At(6, 0, 60), At(3, 0, 30)) == LogOffsets(0, At(3, 0, 30), At(6, 0, 60), At(9))
    assert offsets.with_places(At(5, 0, 50), At(2, 0, 20)) == offsets


class Offsets(RuleBasedStateMachine):
    """Every movement in every order; `LogOffsets` checks itself, this checks what each one may move."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = LogOffsets.at(0)

    @rule(by=st.integers(1, 9))
    def append(self, by: int) -> None:
        before = self.offsets
        self.offsets = before.with_log_end(At(before.log_end[0] + by))
        assert self.offsets.high_watermark == before.high_watermark

    @rule(to=st.integers(-5, 60))
    def update(self, to: int) -> None:
        self.offsets = self.offsets.update_high_watermark(to)
        assert self.offsets.high_watermark[0] == max(self.offsets.log_start, min(to, self.offsets.log_end[0]))

    @rule(share=st.floats(0, 1))
    def increment(self, share: float) -> None:
        before = self.offsets
        to = int(before.log_end[0] * share)
        self.offsets = before.maybe_increment_high_watermark(At(to)) or before
        assert self.offsets.high_watermark[0] == max(to, before.high_watermark[0])

    @rule(at=st.none() | st.integers(0, 60))
    def transaction(self, at: int | None) -> None:
        self.offsets = self.offsets.with_first_unstable(None if at is None else At(at))

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        before = self.offsets
        to = int(before.high_watermark[0] * share)
        self.offsets = before.with_log_start(to)
        assert self.offsets.log_start == max(to, before.log_start)
        assert self.offsets.high_watermark == before.high_watermark

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.offsets = self.offsets.with_log_end(At(int(self.offsets.log_end[0] * share)))

    @invariant()
    def in_order(self) -> None:
        o = self.offsets
        assert 0 <= o.log_start <= o.last_stable_offset <= o.high_watermark[0] <= o.log_end[0]


TestOffsets = Offsets.TestCase


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_an_order_is_taken_or_refused(start: int, unstable: int, mark: int, end: int) -> None:
    good = start <= min(unstable, mark) and start <= mark <= end
    if good:
        LogOffsets(start, At(unstable), At(mark), At(end))
    else:
        with pytest.raises(InvalidInputError):
            LogOffsets(start, At(unstable), At(mark), At(end))
