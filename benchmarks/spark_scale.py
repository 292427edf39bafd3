"""Spark at scale, past the bytes: many partitions, many segments, many topics.

trigger/partitions  a trigger of a stream over 2,000 partitions of one new record each, against one over 20
trigger/segments    a trigger over one partition of 3,000 segments, against one of 20
plan/...            planning a read, an export and a compaction of 100,000 segments in 10,000 partitions, in a
                    directory and in fsspec's memory file system; time, and the memory of the process
topics              1,500 new topics in one write; elapsed time
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.report import Row
from benchmarks.spark_runs import SETTINGS, run_jobs
from tidelog.records import Record
from tidelog.records.builder import encode_batches
from tidelog.records.record import to_arrow

__all__ = ["grow", "make_root", "one_record", "rows", "write_rows"]

PARTITIONS_BAR = 1 / 3
"""A hundred times the partitions in at most three times the time."""
SEGMENTS_BAR = 1 / 1.2
TOPICS_S = 20.0
PLAN_S = 30.0
PLAN_MB = 1000.0

_ID = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def rows(bench: Bench) -> Iterator[Row]:
    """The rows on reading and planning, in order."""
    name = "spark/trigger/partitions"
    if bench.selected(name):
        small, large = _triggers(bench, (20, 1), (2_000, 1))
        yield Row(name, "ms", large, "20 partitions", small, PARTITIONS_BAR, lower_is_better=True)
    name = "spark/trigger/segments"
    if bench.selected(name):
        small, large = _triggers(bench, (1, 20), (1, 3_000))
        yield Row(name, "ms", large, "20 segments", small, SEGMENTS_BAR, lower_is_better=True)
    yield from _plans(bench)


def write_rows(bench: Bench) -> Iterator[Row]:
    """The row on new topics."""
    name = "spark-write/topics"
    if bench.selected(name):
        bench.say("writing to 1,500 new topics")
        job = {"job": "topics", "target": str(bench.scratch / "topics"), "topics": 1_500}
        (run,) = run_jobs(bench, SETTINGS, [job], once=True)
        yield Row.against_a_bar(name, "s", run.seconds, TOPICS_S, lower_is_better=True)


def one_record(offset: int) -> bytes:
    """A batch of one record."""
    return bytes(encode_batches(to_arrow([Record(b"value", b"k", timestamp=1)]), base_offset=offset).data)


def make_root(root: Path, partitions: int, segments: int) -> None:
    """Partitions of so many segments of one record each."""
    batches = [one_record(base) for base in range(segments)]
    for number in range(partitions):
        directory = root / f"t-{number}"
        directory.mkdir(parents=True)
        (directory / "partition.metadata").write_bytes(_ID)
        for base, batch in enumerate(batches):
            (directory / f"{base:020}.log").write_bytes(batch)
            (directory / f"{base:020}.index").touch()
            (directory / f"{base:020}.timeindex").touch()


def grow(root: Path, partitions: int, segments: int) -> None:
    """Add a record to the last segment of each partition."""
    last = f"{segments - 1:020}.log"
    there = (root / "t-0" / last).stat().st_size // len(one_record(0))
    batch = one_record(segments - 1 + there)
    for number in range(partitions):
        with (root / f"t-{number}" / last).open("ab") as log:
            log.write(batch)


def _triggers(bench: Bench, *sizes: tuple[int, int]) -> list[float]:
    """The median time of a trigger over roots of so many partitions and segments each, in milliseconds."""
    jobs = []
    for partitions, segments in sizes:
        root = bench.scratch / f"trigger-{partitions}-{segments}"
        bench.say(f"making {partitions:,} partitions of {segments:,} segments")
        make_root(root, partitions, segments)
        turns = bench.effort.scale(4, 10)
        job = {"job": "trigger", "path": str(root), "partitions": partitions, "segments": segments}
        jobs.append(job | {"turns": turns, "checkpoint": str(bench.scratch / f"{root.name}.checkpoint")})
    return [run.seconds * 1000 for run in run_jobs(bench, SETTINGS, jobs, once=True)]


def _plans(bench: Bench) -> Iterator[Row]:
    kinds = ("read", "export", "compact", "read-memory", "export-memory")
    wanted = [kind for kind in kinds if bench.selected(f"spark/plan/{kind}")]
    if not wanted:
        return
    partitions = bench.effort.scale(1_000, 10_000)
    root = bench.scratch / "plan"
    bench.say(f"making {partitions:,} partitions of 10 segments")
    make_root(root, partitions, 10)
    for kind in wanted:
        command = [sys.executable, "-m", "benchmarks.spark_plans", kind, str(root), str(partitions)]
        answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=1800).stdout)
        bench.say(f"{kind}: {answer['tasks']} tasks")
        seconds = answer["cpu_seconds" if bench.effort.cpu_time else "seconds"]
        megabytes = answer["megabytes"]
        name = f"spark/plan/{kind}"
        yield Row.against_a_bar(name, "s", seconds, PLAN_S, lower_is_better=True)
        yield Row.against_a_bar(f"{name}/memory", "MB", megabytes, PLAN_MB, lower_is_better=True)
