"""The offset map: a dictionary with a fixed memory, on both twins of its kernel."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels_twin import TWINS, use_twin
from tidelog.cleanup.offset_map import SLOT_BYTES, FrozenMap, OffsetMap
from tidelog.errors import InvalidInputError

SIPHASH_KEY = bytes(range(16))
SIPHASH = {  # of the bytes 0, 1, 2...: the reference vectors of SipHash-2-4-128
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


@pytest.mark.parametrize("which", TWINS)
def test_long_keys_are_hashed_with_siphash(which: str) -> None:
    with use_twin(which):
        kernel = OffsetMap(1000, hash_key=SIPHASH_KEY).kernel
        found = {size: kernel.siphash(bytes(range(size))).hex() for size in SIPHASH}
        for size in (16, 17, 100):
            assert kernel.digest(bytes(range(size))) == kernel.siphash(bytes(range(size)))
    assert found == SIPHASH


@pytest.mark.parametrize("which", TWINS)
@given(keys=st.sets(st.binary(max_size=17), min_size=1), secret=st.binary(min_size=16, max_size=16))
def test_no_two_short_keys_have_one_hash(which: str, keys: set[bytes], secret: bytes) -> None:
    """Nor do keys that differ in length or zeros alone; both twins say the same."""
    keys |= {key[:14] + bytes(1) for key in keys} | {key[:-1] for key in keys}
    with use_twin(which):
        kernel = OffsetMap(1000, hash_key=secret).kernel
        hashes = {kernel.digest(key): key for key in keys}
    assert len(hashes) == len(keys)
    with use_twin(TWINS[1]):
        other = OffsetMap(1000, hash_key=secret).kernel
        assert {other.digest(key): key for key in keys} == hashes


@pytest.mark.parametrize(
    "name",
    [
        lambda n: n.to_bytes(8, "big"),
        lambda n: n.to_bytes(8, "little"),
        lambda n: (n << 32).to_bytes(8, "big"),
        lambda n: b"user-%09d" % n,
        lambda n: b"%d" % n,
        lambda n: b"a key of a larger size %d" % n,
    ],
)
def test_keys_that_are_alike_spread_over_the_slots(name: Callable[[int], bytes]) -> None:
    """Sequential numbers share no more home slots than chance has it: at most a few keys have one."""
    kernel = OffsetMap(1000, hash_key=SIPHASH_KEY).kernel
    keys = 20_000
    homes = [int.from_bytes(kernel.digest(name(n))[4:8], "little") * keys >> 32 for n in range(keys)]
    counts = Counter(homes)
    assert max(counts.values()) <= 12
    assert 0.60 < len(counts) / keys < 0.66  # 1 - 1/e for random places


@pytest.mark.parametrize("which", TWINS)
@given(
    puts=st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 1 << 62)), max_size=60),
    slots=st.integers(3, 100),
)
def test_it_answers_as_a_dictionary(which: str, puts: list[tuple[bytes, int]], slots: int) -> None:
    """A later offset of a key replaces an earlier one; a new key that there is no room for is refused."""
    with use_twin(which):
        offsets = OffsetMap(slots * SLOT_BYTES, 0.8)
        model: dict[bytes, int] = {}
        assert offsets.slots == slots
        assert offsets.max_entries == int(slots * 0.8)
        for key, offset in puts:
            if key not in model and len(model) == offsets.max_entries:
                with pytest.raises(InvalidInputError):
                    offsets.put(key, offset)
                continue
            offsets.put(key, offset)
            model[key] = max(offset, model.get(key, -1))
        for key, _ in puts:
            assert offsets.get(key) == model.get(key, -1)
        assert offsets.size == len(model) == len(offsets)
        assert offsets.latest_offset == max(model.values(), default=-1)
        offsets.clear()
        assert [offsets.get(key) for key in model] == [-1] * len(model)
        assert offsets.size == 0


@pytest.mark.parametrize("which", TWINS)
@given(st.lists(st.lists(st.integers(0, 30), max_size=30), min_size=1, max_size=4), st.randoms())
def test_parts_merge_to_the_whole(which: str, parts: list[list[int]], order: random.Random) -> None:
    """Maps of parts of a log, shipped and merged in any order, are the map of the log."""
    with use_twin(which):
        whole = OffsetMap(100 * SLOT_BYTES)
        shipped = []
        offset = 0
        for part in parts:
            own = OffsetMap(100 * SLOT_BYTES, hash_key=whole.hash_key)
            for number in part:
                for offsets in (whole, own):
                    offsets.put(b"%d" % number, offset)
                offset += 1
            shipped.append(own.to_bytes())
        order.shuffle(shipped)
        merged = OffsetMap.from_bytes(shipped[0])
        for data in shipped[1:]:
            merged.merge(data)
        assert merged.size == whole.size
        assert merged.latest_offset == whole.latest_offset
        keys = [b"%d" % number for number in range(31)]
        assert [merged.get(key) for key in keys] == [whole.get(key) for key in keys]


@pytest.mark.parametrize("which", TWINS)
@given(st.lists(st.integers(0, 200), max_size=120))
def test_a_frozen_map_tells_what_the_map_told(which: str, numbers: list[int]) -> None:
    with use_twin(which):
        offsets = OffsetMap(300 * SLOT_BYTES)
        for offset, number in enumerate(numbers):
            offsets.put(b"%d" % number, offset)
        data = bytearray().join(offsets.frozen_parts())
        before = bytes(data)
        frozen = FrozenMap(data)
        assert frozen.latest_offset == offsets.latest_offset
        for number in range(201):
            assert frozen.kernel.find_key(b"%d" % number) == offsets.get(b"%d" % number)
        assert data == before
        for bad in (data[:-1], data[:-24], data + bytes(24), bytearray(offsets.to_bytes()), bytearray()):
            with pytest.raises(InvalidInputError):
                FrozenMap(bad)


def test_slots_come_into_use_as_keys_come() -> None:
    """Many keys, in a memory that is much larger than they need, and in one that they just fit."""
    for slots in (1 << 20, 60_000):
        offsets = OffsetMap(slots * SLOT_BYTES)
        for number in range(50_000):
            offsets.put(number.to_bytes(4), number)
        assert offsets.kernel.slots <= 4 * 50_000
        assert offsets.slots == slots
        assert all(offsets.get(number.to_bytes(4)) == number for number in range(0, 50_000, 7))
        assert offsets.get(b"none such") == -1
        assert offsets.utilization == 50_000 / slots


def test_memory_is_fixed() -> None:
    offsets = OffsetMap(1000)
    assert offsets.slots == 41
    assert offsets._table.nbytes == 41 * SLOT_BYTES <= 1000


@pytest.mark.parametrize(("memory", "load_factor"), [(0, 0.9), (47, 0.9), (1000, 0.0), (1000, 1.5)])
def test_a_map_for_no_key_is_refused(memory: int, load_factor: float) -> None:
    with pytest.raises(InvalidInputError):
        OffsetMap(memory, load_factor)


def test_what_is_no_map_is_refused() -> None:
    offsets = OffsetMap(1000)
    offsets.put(b"key", 7)
    data = offsets.to_bytes()
    for bad in (b"", data[:-1], b"x" + data[1:], data + bytes(24)):
        with pytest.raises(InvalidInputError):
            OffsetMap.from_bytes(bad)
    with pytest.raises(InvalidInputError, match="hash keys"):
        OffsetMap(1000).merge(data)
    with pytest.raises(InvalidInputError, match="16 bytes"):
        OffsetMap(1000, hash_key=b"short")
    with pytest.raises(InvalidInputError, match="no offset"):
        offsets.put(b"key", -1)
    small = OffsetMap(3 * SLOT_BYTES, hash_key=offsets.hash_key)
    for number in range(2):
        small.put(b"%d" % number, number)
    with pytest.raises(InvalidInputError, match="more keys"):
        small.merge(data)


def test_the_kernel_checks_what_it_is_given() -> None:
    kernel = OffsetMap(1000).kernel
    with pytest.raises(ValueError, match="slots"):
        kernel.resize(10_000)
    with pytest.raises(ValueError, match="three columns"):
        kernel.add_all(np.zeros((4, 2), dtype=np.int64), 10)
    with pytest.raises(ValueError, match="negative offset"):
        kernel.put_key(b"key", -1)
