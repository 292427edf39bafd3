"""Planning grows with the segments there are, and asks an object store as little as it can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tidelog.records import Record
from tidelog.records.builder import encode_batches
from tidelog.records.record import to_arrow
from tidelog.spark.exporting.directory import Done
from tidelog.spark.exporting.job import export_tasks, plan_export
from tidelog.spark.source.batch import plan_batch, read_part
from tidelog.spark.source.offsets import select_partitions
from tidelog.spark.source.options import SourceOptions
from tidelog.spark.source.schemas import Wanted, source_schema

PARTITIONS, SEGMENTS = 300, 4


class CountingStore(MemoryFileSystem):
    """An object store that counts what it is asked for."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    asked: ClassVar[Counter[str]] = Counter()

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self.asked["ls"] += 1
        return super().ls(path, detail, **options)

    def find(self, path: str, **options: Any) -> Any:
        self.asked["find"] += 1
        return super().find(path, **options)

    def info(self, path: str, **options: Any) -> Any:
        self.asked["info"] += 1
        return super().info(path, **options)

    def cat_file(self, path: str, **options: Any) -> Any:
        self.asked["get"] += 1
        return super().cat_file(path, **options)


@pytest.fixture
def bucket() -> Iterator[str]:
    """Many small segments in an object store."""
    fsspec.register_implementation("counted", CountingStore, clobber=True)
    fs = CountingStore(skip_instance_cache=True)
    fs.store.clear()
    for number in range(PARTITIONS):
        where = f"/logs/t-{number}"
        for base in range(SEGMENTS):
            rows = to_arrow([Record(b"%d" % base, b"k", timestamp=1)])
            fs.pipe_file(f"{where}/{base:020}.log", bytes(encode_batches(rows, base_offset=base).data))
            fs.pipe_file(f"{where}/{base:020}.index", b"")
        fs.pipe_file(f"{where}/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    fs.asked.clear()
    yield "counted://logs"
    fs.store.clear()


def test_a_read_is_planned_with_one_listing_and_two_requests_a_partition(bucket: str) -> None:
    """The id and the end of the last segment; sizes come with the listing."""
    options = SourceOptions.parse({"path": bucket})
    parts = plan_batch(options)
    asked = CountingStore.asked
    assert asked["find"] == 1
    assert asked["ls"] + asked["info"] <= 10
    assert asked["get"] <= 2 * PARTITIONS + 5
    assert len(parts) < PARTITIONS / 4
    assert sum(len(split.tasks) for part in parts for split in part.splits) == PARTITIONS * SEGMENTS
    wanted = Wanted.of(source_schema(options))
    rows = sum(batch.num_rows for part in parts for batch in read_part(part, options, wanted))
    assert rows == PARTITIONS * SEGMENTS


def test_what_the_listing_has_not_is_not_asked_for(bucket: str) -> None:
    """Directories of topics whose ids are not known: a store in memory looks at all files for each."""
    fs = CountingStore(skip_instance_cache=True)
    for number in range(PARTITIONS):
        fs.rm_file(f"/logs/t-{number}/partition.metadata")
    CountingStore.asked.clear()
    plan_batch(SourceOptions.parse({"path": bucket}))
    assert CountingStore.asked["ls"] + CountingStore.asked["info"] <= 10
    assert CountingStore.asked["get"] <= PARTITIONS + 5


def test_an_exports_tasks_follow_bytes_and_cores(bucket: str) -> None:
    options = SourceOptions.parse({"path": bucket, "kafka.isolation.level": "read_committed"})
    plan = plan_export(select_partitions(options), Done(), options)
    assert len(plan.ranges) == PARTITIONS
    asked = CountingStore.asked
    assert asked["get"] <= (SEGMENTS + 2) * PARTITIONS + 5  # without snapshots all is read
    assert asked["ls"] + asked["info"] <= 10
    few, many = (export_tasks(plan.ranges, options, cores) for cores in (1, 16))
    assert len(few) <= 8 < len(many) <= 80
    assert sum(len(task.items) for task in many) == PARTITIONS
