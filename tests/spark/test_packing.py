"""Small splits share a task; order, the number of tasks asked for and the limit of records are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.scanning.splits import Split
from tidelog.scanning.tasks import ScanTask
from tidelog.spark.compaction.job import whole_tasks
from tidelog.spark.compaction.whole import WholeSplit
from tidelog.spark.runtime.packing import pack_splits, split_cost

MB = 1 << 20


def split(number: int, size: int, records: int = 1, url: str = "/root") -> Split:
    where = f"{url}/t-{number}"
    return Split((ScanTask(where, f"{0:020}.log", "t", number, 0, size, 0, records),))


def test_two_thousand_small_ones_make_a_few_tasks() -> None:
    packed = pack_splits([split(n, 100) for n in range(2000)], max_bytes=64 * MB)
    assert 10 <= len(packed) <= 20
    assert len(pack_splits([split(n, 100) for n in range(2000)], max_bytes=64 * MB, bundled=True)) == 2
    remote = pack_splits([split(n, 100, url="s3://bucket") for n in range(2000)], max_bytes=64 * MB)
    assert len(remote) > len(packed) - 10


def test_large_ones_go_alone() -> None:
    assert len(pack_splits([split(n, 40 * MB) for n in range(10)], max_bytes=64 * MB)) == 10
    assert len(pack_splits([split(n, 6 * MB) for n in range(8)], max_bytes=64 * MB)) == 8


def test_nothing_makes_no_task() -> None:
    assert pack_splits([], max_bytes=64 * MB, min_tasks=5) == []


@given(
    sizes=st.lists(st.tuples(st.integers(1, 80 * MB), st.integers(1, 50)), max_size=60),
    max_bytes=st.integers(1, 64 * MB),
    min_tasks=st.none() | st.integers(1, 100),
    max_records=st.none() | st.integers(50, 200),
    bundled=st.booleans(),
)
def test_every_split_once_in_order_within_the_limits(
    sizes: list[tuple[int, int]],
    max_bytes: int,
    min_tasks: int | None,
    max_records: int | None,
    bundled: bool,
) -> None:
    splits = [split(n, size, records) for n, (size, records) in enumerate(sizes)]
    packed = pack_splits(
        splits, max_bytes=max_bytes, min_tasks=min_tasks, max_records=max_records, bundled=bundled
    )
    assert [one for group in packed for one in group] == splits
    assert len(packed) >= min(min_tasks or 0, len(splits))
    for group in packed:
        assert len(group) == 1 or sum(split_cost(one, bundled=bundled) for one in group) <= max_bytes
        if max_records is not None:
            assert sum(one.tasks[0].end_offset for one in group) <= max_records


def test_the_tasks_of_a_compaction_follow_bytes_and_cores_not_partitions() -> None:
    def tasks(partitions: int, size: int, cores: int, most: int | None = None) -> int:
        split = WholeSplit("", {}, 0, 0, 0, 0, 0, 0, size)
        found = whole_tasks([split] * partitions, cores, most)
        assert sum(len(one.items) for one in found) == partitions
        return len(found)

    assert tasks(10_000, 700, 4) == 40
    assert tasks(100, 700, 400) < 10
    assert tasks(20, 200 << 20, 4) == 20
    assert tasks(20, 10 << 20, 4, 30 << 20) == 10
