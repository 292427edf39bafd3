"""Which partition a row goes to: Kafka's murmur2, on both twins of the kernel."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels_twin import TWINS, twin
from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.kernels import murmur as compiled
from tidelog.manager.publishing.existing import TopicFacts
from tidelog.manager.publishing.partitioner import Partitioner, TopicPlan, hash_keys

# From Kafka's own test of Utils.murmur2.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def hashed(keys: list[bytes], which: str) -> list[int]:
    kernel = compiled if which == "compiled" else twin("murmur")
    data = np.frombuffer(b"".join(keys) or b"\0", dtype=np.uint8)
    offsets = np.cumsum([0, *map(len, keys)]).astype(np.int64)
    out = np.zeros(len(keys), dtype=np.uint32)
    assert kernel.murmur2(data, offsets, out) == len(keys)
    found: list[int] = out.astype(np.int32).tolist()
    return found


@pytest.mark.parametrize("which", TWINS)
def test_the_hash_is_kafkas(which: str) -> None:
    assert hashed(list(KNOWN), which) == list(KNOWN.values())


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_both_twins_say_the_same(keys: list[bytes]) -> None:
    assert hashed(keys, "compiled") == hashed(keys, "plain Python")
    assert hash_keys(pa.array(keys, pa.binary())).astype(np.int32).tolist() == hashed(keys, "compiled")


@pytest.mark.parametrize("which", TWINS)
def test_offsets_outside_of_the_data_are_not_followed(which: str) -> None:
    kernel = compiled if which == "compiled" else twin("murmur")
    data = np.zeros(4, dtype=np.uint8)
    for offsets, good in (([0, 2, 5], 1), ([-1, 2, 3], 0), ([0, 3, 2], 1), ([0, 4, 4], 2)):
        out = np.zeros(2, dtype=np.uint32)
        assert kernel.murmur2(data, np.array(offsets, dtype=np.int64), out) == good


def test_a_slice_of_a_column_is_hashed_from_where_it_begins() -> None:
    keys = pa.array(list(KNOWN), pa.binary())
    assert hash_keys(keys.slice(2, 3)).astype(np.int32).tolist() == list(KNOWN.values())[2:5]


def plan(**topics: int) -> TopicPlan:
    facts = {name: TopicFacts(count, LogConfig()) for name, count in topics.items()}
    return TopicPlan(facts, TopicFacts(1, LogConfig()))


def test_rows_keep_their_order_within_a_partition() -> None:
    batch = pa.record_batch({"topic": ["b", "a", "b", "a"] * 50, "value": [str(n) for n in range(200)]})
    seen: dict[str, list[int]] = {}
    for name, rows in Partitioner(plan(a=2, b=3), None, 0).split(batch):
        seen[str(name)] = [int(value) for value in rows.column("value").to_pylist()]
    assert set(seen) == {"a-0", "a-1", "b-0", "b-1", "b-2"}
    assert all(values == sorted(values) for values in seen.values())
    assert sorted(itertools.chain(*seen.values())) == list(range(200))


def test_keyless_rows_are_spread_evenly_over_batches_too() -> None:
    batch = pa.record_batch({"value": ["v"] * 10})
    partitioner = Partitioner(plan(t=4), "t", 3)
    counts = [0] * 4
    for _ in range(6):
        for name, rows in partitioner.split(batch):
            counts[name.partition] += rows.num_rows
    assert counts == [15] * 4


def test_a_partition_that_is_not_there_is_named() -> None:
    batch = pa.record_batch({"partition": pa.array([0, None, 3], pa.int32()), "value": ["v"] * 3})
    with pytest.raises(InvalidInputError, match="'t' has 3 partitions; a record names partition 3"):
        list(Partitioner(plan(t=3), "t", 0).split(batch))
