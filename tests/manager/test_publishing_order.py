"""Staged data is published in the order of its tasks, whatever is linked and whatever is copied."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager.publishing import ROOT, Values, contents, open_root, publish_values, stage
from tidelog.config import LogConfig
from tidelog.manager.publishing.committing import Write, publish
from tidelog.testing.crash import CrashFileSystem
from tidelog.types import TopicPartition

COUNTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4)
"""How many records each task has for each of two partitions."""


@settings(max_examples=40, deadline=None)
@given(
    writes=st.lists(COUNTS, min_size=1, max_size=2),
    staged_bytes=st.sampled_from([300, 500, 1500, 6000, 1 << 20]),
    segment_bytes=st.sampled_from([500, 1500, 6000, 1 << 20]),
    value_bytes=st.sampled_from([0, 30, 150]),
)
def test_records_come_in_the_order_of_the_tasks(
    writes: list[list[tuple[int, int]]], staged_bytes: int, segment_bytes: int, value_bytes: int
) -> None:
    """Tasks may have taken the segments for larger or smaller than the log's are."""
    fs = CrashFileSystem()
    config = LogConfig.from_properties({"internal.segment.bytes": staged_bytes, "segment.index.bytes": 600})
    number = 0
    wanted: dict[TopicPartition, list[bytes]] = {TopicPartition("t", n): [] for n in range(2)}
    with open_root(ROOT, fs) as store:
        store.create_topic("t", 2, {"internal.segment.bytes": segment_bytes})
        for turn, counts in enumerate(writes):
            tasks: list[Values] = []
            for both in counts:
                values = {}
                for partition, count in enumerate(both):
                    some = [b"%06d" % (number + n) + bytes(value_bytes) for n in range(count)]
                    values["t", partition] = some
                    wanted[TopicPartition("t", partition)] += some
                    number += count
                tasks.append(values)
            publish_values(store, fs, f"/staging/{turn}", tasks, log_config=config)
        assert contents(store) == wanted
    with open_root(ROOT, fs) as store:
        assert contents(store) == wanted


def test_a_tasks_rest_comes_before_the_next_tasks_segments() -> None:
    fs = CrashFileSystem()
    config = LogConfig.from_properties({"internal.segment.bytes": 1500, "segment.index.bytes": 600})
    values = [b"%06d" % n + bytes(40) for n in range(240)]
    with open_root(ROOT, fs) as store:
        store.create_topic("t", 2, {"internal.segment.bytes": 1500, "segment.index.bytes": 600})
        shares = [values[:110], values[110:220], values[220:]]
        names = tuple(
            stage(fs, "/staging/w", f"task-{n}", {("t", 0): share}, {"t": 2}, config)
            for n, share in enumerate(shares)
        )
        publish(store, Write("/staging/w", names), fs)
        assert contents(store)[TopicPartition("t", 0)] == values


def test_more_batches_than_an_index_has_entries() -> None:
    fs = CrashFileSystem()
    config = LogConfig.from_properties({"internal.segment.bytes": 1 << 20, "segment.index.bytes": 600})
    values = [b"%06d" % n + bytes(150) for n in range(300)]
    with open_root(ROOT, fs) as store:
        store.create_topic("t", 2, {"internal.segment.bytes": 1 << 20})
        publish_values(
            store, fs, "/staging/w", [{("t", 0): values[:1]}, {("t", 0): values[1:]}], log_config=config
        )
        assert contents(store)[TopicPartition("t", 0)] == values
