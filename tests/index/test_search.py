"""The search kernel against the plainest possible code."""

from __future__ import annotations

import struct
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.index.twins import TWINS, module

LAYOUTS = {8: ">ii", 12: ">qi"}
KEYS = {8: st.integers(-(2**31), 2**31 - 1), 12: st.integers(-(2**63), 2**63 - 1)}
VALUES = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

both_twins = pytest.mark.parametrize("twin", TWINS)
both_layouts = pytest.mark.parametrize("size", LAYOUTS)


def packed(size: int, entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(LAYOUTS[size], *entry) for entry in entries)


def kafka_search(column: list[int], size: int, target: int, upper: bool) -> int:
    """Kafka's search, as its source tells it."""
    count = len(column)

    def halve(lo: int, hi: int) -> int:
        while lo < hi:
            mid = (lo + hi + 1) >> 1
            if column[mid] > target:
                hi = mid - 1
            elif column[mid] < target:
                lo = mid
            else:
                return mid
        if not upper:
            return lo
        return -1 if lo == count - 1 else lo + 1

    if not count:
        return -1
    warm = max(0, count - 1 - 8192 // size)
    if column[warm] < target:
        return halve(warm, count - 1)
    if column[0] > target:
        return 0 if upper else -1
    return halve(0, warm)


@both_twins
@both_layouts
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_entries_are_stored_and_read_back(twin: str, size: int, data: st.DataObject) -> None:
    entries = data.draw(st.lists(st.tuples(KEYS[size], VALUES), max_size=30))
    split = data.draw(st.integers(0, len(entries)))
    buffer = bytearray(size * 20 + 5)
    table = module(twin).Entries(buffer, size, 0, True)
    stored = []
    for key, value in entries[:split]:
        if table.append(key, value):
            stored.append((key, value))
    rest = np.array(entries[split:], np.int64).reshape(-1, 2)
    fits = len(stored) + len(rest) <= 20
    assert table.append_many(rest[:, 0].copy(), rest[:, 1].copy()) == fits
    stored += entries[split:] if fits else []
    assert table.capacity == 20
    assert table.count == len(stored) == min(len(entries), 20) or not fits
    assert [table.entry(slot) for slot in range(table.count)] == stored
    assert bytes(buffer[: size * len(stored)]) == packed(size, stored)
    assert not any(buffer[size * len(stored) :]), "nothing is written behind the entries"
    assert table.last() == (stored[-1] if stored else None)
    assert table.entry(-1) is None
    assert table.entry(len(stored)) is None


@both_twins
@both_layouts
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_any_entries_give_kafkas_answer(twin: str, size: int, data: st.DataObject) -> None:
    """Sorted or not, with repeats or not."""
    some = st.integers(-5, 30) if data.draw(st.booleans()) else KEYS[size]
    entries = data.draw(st.lists(st.tuples(some, some if size == 8 else st.integers(-5, 30)), max_size=40))
    if data.draw(st.booleans()):
        entries.sort()
    table = module(twin).Entries(packed(size, entries), size, len(entries), False)
    keys, values = [key for key, _ in entries], [value for _, value in entries]
    for target in data.draw(st.lists(st.one_of(INT64, st.integers(-7, 32)), min_size=1, max_size=10)):
        slot = kafka_search(keys, size, target, False)
        assert table.floor_slot(target, False) == slot
        assert table.floor(target) == (entries[slot] if slot >= 0 else None)
        assert table.floor_slot(target, True) == kafka_search(values, size, target, False)
        ceiling = kafka_search(values, size, target, True)
        assert table.ceiling_by_value(target) == (entries[ceiling] if ceiling >= 0 else None)


@both_twins
@both_layouts
@pytest.mark.parametrize("count", [1, 682, 683, 684, 1024, 1025, 1026, 5000])
def test_around_the_warm_section(twin: str, size: int, count: int) -> None:
    entries = [(3 * i + 1, 5 * i + 2) for i in range(count)]
    table = module(twin).Entries(packed(size, entries), size, count, False)
    keys = [key for key, _ in entries]
    step = 1 if twin == "compiled" else max(1, count // 200)
    for target in range(-1, 3 * count + 4, step):
        slot = bisect_right(keys, target) - 1
        assert table.floor_slot(target, False) == slot
        ceiling = (
            -(-(target - 2) // 5) if target > 2 else int(target == 2)
        )  # the first entry itself is passed over
        assert table.ceiling_by_value(target) == (entries[ceiling] if ceiling < count else None)


@both_twins
@settings(deadline=None, max_examples=200)
@given(keys=st.lists(INT64, unique=True, max_size=70).map(sorted), targets=st.lists(INT64, max_size=40))
def test_bulk_search(twin: str, keys: list[int], targets: list[int]) -> None:
    wanted = np.array(targets + keys, np.int64)
    values = np.arange(len(keys), dtype=np.int64) * 7
    found_keys, found_values = np.empty_like(wanted), np.empty_like(wanted)
    module(twin).floor_many(np.array(keys, np.int64), values, wanted, found_keys, found_values, -11, -22)
    for target, key, value in zip(wanted.tolist(), found_keys.tolist(), found_values.tolist(), strict=True):
        slot = bisect_right(keys, target) - 1
        assert (key, value) == ((keys[slot], 7 * slot) if slot >= 0 else (-11, -22))


@both_twins
@settings(deadline=None)
@given(keys=st.lists(st.integers(0, 50), max_size=30), targets=st.lists(st.integers(-5, 60), max_size=20))
def test_one_by_one_search(twin: str, keys: list[int], targets: list[int]) -> None:
    entries = [(key, slot) for slot, key in enumerate(keys)]
    table = module(twin).Entries(packed(8, entries), 8, len(entries), False)
    wanted = np.array(targets, np.int64)
    found_keys, found_values = np.empty_like(wanted), np.empty_like(wanted)
    table.floor_each(wanted, found_keys, found_values, -11, -22)
    found = list(zip(found_keys.tolist(), found_values.tolist(), strict=True))
    assert found == [table.floor(target) or (-11, -22) for target in targets]


@both_twins
def test_decode_stops_at_the_shortest(twin: str) -> None:
    table = module(twin).Entries(packed(12, [(1, 2), (3, 4), (5, 6)]), 12, 3, False)
    keys, values = np.zeros(4, np.int64), np.zeros(2, np.int64)
    assert table.decode(keys, values) == 2
    assert keys.tolist() == [1, 3, 0, 0]
    assert values.tolist() == [2, 4]


@both_twins
def test_bounds_are_checked(twin: str) -> None:
    kernel = module(twin)
    with pytest.raises(ValueError, match="8 or 12"):
        kernel.Entries(bytes(16), 4, 0, False)
    for count in (-1, 3):
        with pytest.raises(ValueError, match="more entries"):
            kernel.Entries(bytes(23), 8, count, False)
    table = kernel.Entries(bytes(16), 8, 1, False)
    assert not table.append(1, 1), "read-only"
    assert not table.append_many(np.ones(1, np.int64), np.ones(1, np.int64))
    assert table.count == 1
    for count in (-1, 2):
        with pytest.raises(ValueError, match="cannot truncate"):
            table.truncate(count)
    two, three = np.zeros(2, np.int64), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="as many"):
        table.append_many(two, three)
    with pytest.raises(ValueError, match="as many"):
        table.floor_each(two, two, three, 0, 0)
    with pytest.raises(ValueError, match="as many"):
        kernel.floor_many(two, three, two, two, two, 0, 0)
    with pytest.raises(ValueError, match="as many"):
        kernel.floor_many(two, two, two, two, three, 0, 0)


@both_twins
def test_swap(twin: str) -> None:
    table = module(twin).Entries(packed(8, [(1, 1)]), 8, 1, False)
    buffer = bytearray(packed(8, [(2, 2), (3, 3), (0, 0)]))
    table.swap(buffer, 2, True)
    assert table.append(4, 4)
    assert [table.entry(slot) for slot in range(3)] == [(2, 2), (3, 3), (4, 4)]
    table.swap(b"", 0, False)
    assert (table.count, table.capacity, table.floor(5)) == (0, 0, None)
    buffer.extend(b"the first buffer was let go, or this would raise BufferError")
