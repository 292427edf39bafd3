"""Grouping: by cases, and against the rule told in one sentence for segments of all sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidelog.cleanup.grouping import group_segments_by_size

FAR = 2**31 - 1


@dataclass(frozen=True)
class Index:
    size_in_bytes: int = 0


@dataclass(frozen=True)
class Missing:
    @property
    def size_in_bytes(self) -> int:
        raise FileNotFoundError("00000000000000000000.index")


@dataclass(frozen=True)
class Facts:
    base_offset: int
    size: int = 100
    offset_index: Index | Missing = field(default_factory=Index)
    time_index: Index | Missing = field(default_factory=Index)


def grouped(
    segments: list[Facts], max_size: int = 10**9, max_index_size: int = 10**9, end: int | None = None
) -> list[list[int]]:
    if end is None:
        end = segments[-1].base_offset + 1 if segments else 0
    found = group_segments_by_size(
        segments, max_size=max_size, max_index_size=max_index_size, first_uncleanable_offset=end
    )
    return [[segment.base_offset for segment in group] for group in found]


def test_nothing_makes_no_group() -> None:
    assert grouped([]) == []


def test_logs_are_joined_up_to_the_size() -> None:
    three = [Facts(0), Facts(10), Facts(20)]
    assert grouped(three, max_size=300) == [[0, 10, 20]]
    assert grouped(three, max_size=299) == [[0, 10], [20]]
    assert grouped(three, max_size=99) == [[0], [10], [20]], "one that is too large is a group"
    assert grouped([Facts(0, 200), Facts(10, 100), Facts(20, 100)], max_size=200) == [[0], [10, 20]]


def test_each_index_is_held_to_its_own_size() -> None:
    offsets = [Facts(0, offset_index=Index(16)), Facts(5, offset_index=Index(16)), Facts(9)]
    assert grouped(offsets, max_index_size=32) == [[0, 5, 9]]
    assert grouped(offsets, max_index_size=31) == [[0], [5, 9]]
    times = [Facts(0, time_index=Index(12)), Facts(5, time_index=Index(24)), Facts(9, offset_index=Index(30))]
    assert grouped(times, max_index_size=36) == [[0, 5, 9]], "the two are not added up"
    assert grouped(times, max_index_size=35) == [[0], [5, 9]]


def test_a_missing_index_takes_no_room() -> None:
    assert grouped([Facts(0, offset_index=Missing()), Facts(5, time_index=Missing())], max_index_size=0) == [
        [0, 5]
    ]


def test_the_last_offset_stays_within_reach_of_the_first() -> None:
    assert grouped([Facts(7), Facts(100)], end=7 + FAR + 1) == [[7, 100]]
    assert grouped([Facts(7), Facts(100)], end=7 + FAR + 2) == [[7], [100]]
    # where a segment ends is known from the next one
    assert grouped([Facts(7), Facts(100), Facts(7 + FAR + 1)]) == [[7, 100], [7 + FAR + 1]]
    assert grouped([Facts(7), Facts(100), Facts(7 + FAR + 2)]) == [[7], [100, 7 + FAR + 2]]


def test_an_empty_segment_joins_however_far_it_reaches() -> None:
    assert grouped([Facts(0), Facts(FAR - 5, 0)], end=2 * FAR) == [[0, FAR - 5]]
    # the range is that of the group's first segment, an empty one too
    assert grouped([Facts(0, 0), Facts(FAR + 5)], end=FAR + 10) == [[0], [FAR + 5]]


SEGMENTS = st.lists(
    st.tuples(
        st.integers(1, 2**31), st.integers(0, 40), st.integers(0, 5).map(Index), st.integers(0, 5).map(Index)
    ),
    max_size=12,
).map(
    lambda rows: [
        Facts(sum(row[0] for row in rows[: index + 1]), *rows[index][1:]) for index in range(len(rows))
    ]
)


@given(
    segments=SEGMENTS, max_size=st.integers(1, 100), max_index=st.integers(0, 12), more=st.integers(1, 2**31)
)
def test_groups_hold_what_fits_and_the_next_would_not(
    segments: list[Facts], max_size: int, max_index: int, more: int
) -> None:
    end = (segments[-1].base_offset if segments else 0) + more
    found = group_segments_by_size(
        segments, max_size=max_size, max_index_size=max_index, first_uncleanable_offset=end
    )
    assert [segment for group in found for segment in group] == segments
    ends = {one.base_offset: two.base_offset for one, two in pairwise(segments)}

    def fits(group: list[Facts]) -> bool:
        last = group[-1]
        reach = ends.get(last.base_offset, end) - 1 - group[0].base_offset
        return (
            sum(segment.size for segment in group) <= max_size
            and sum(segment.offset_index.size_in_bytes for segment in group) <= max_index
            and sum(segment.time_index.size_in_bytes for segment in group) <= max_index
            and (last.size == 0 or reach <= FAR)
        )

    for group in found:
        assert len(group) == 1 or fits(group)
    for group, following in pairwise(found):
        assert not fits([*group, following[0]])
