"""Lives of jobs that are killed at any step and run again; run as a program.

    python -m tests.spark.job_kills <directory> <job> <rounds> <seed>

A job is compact, compact-parts (both passes by many tasks), retention, ingest, export or pipeline. Each round
adds data and runs the job in a forked process. Most are killed: at a call of a function of ours, or right
before or after a system call that changes a file. Tasks run in that process too (`LocalSpark`). After each
round all that must be there is looked for, by a reader that takes no lock; the next run recovers the root.
The last run lives, and then nothing is missing, nothing is there twice, and no staged file is left.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tidelog
import tidelog.spark
from tests.spark.conftest import direct
from tests.spark.in_process import LocalSpark
from tests.spark.table_kills import in_child
from tidelog.errors import DataLossError
from tidelog.records import Record
from tidelog.spark import Columns, FileSource
from tidelog.spark.exporting.parquet import ParquetSettings
from tidelog.spark.pipeline.config import read_config
from tidelog.spark.pipeline.run import run_pipeline

OURS = "/tidelog/"
NAMES, BYTES = (
    ("rename", "replace", "unlink", "rmdir", "link", "mkdir", "open"),
    ("write", "pwrite", "pwritev"),
)
CHANGES = frozenset({*NAMES, *BYTES, "writev", "ftruncate", "fsync", "fdatasync", "posix_fallocate"})
MODULES = ("pyspark.sql.pandas.types", "pyarrow.dataset", "pyarrow.compute", "tidelog.manager.store.opener")
PARTITIONS = 2
DAY_MS = 86_400_000
Found = dict[int, list[tuple[int, bytes | None, bytes | None]]]


def scanned(root: Path, topic: str) -> Found:
    """Offset, key and value of each record, by partition, as Spark's source sees them, which takes no lock;
    where it says that it does not see all, after recovery.
    """
    found: Found = {number: [] for number in range(PARTITIONS)}
    if not list(root.glob(f"{topic}-*")):
        return found
    try:
        rows = direct(root, subscribe=topic).to_pylist()
    except DataLossError:
        with tidelog.open(root, recover=True):
            pass
        rows = direct(root, subscribe=topic).to_pylist()
    for row in rows:
        found[row["partition"]].append((row["offset"], row["key"], row["value"]))
    for each in found.values():
        offsets = [offset for offset, _, _ in each]
        assert offsets == sorted(set(offsets)), "offsets go up, and come once"
    return found


class Life(ABC):
    """A root, and what must be in it."""

    topic, config = "t", {"internal.segment.bytes": 2000, "retention.ms": -1}

    def __init__(self, base: Path, dice: random.Random) -> None:
        self.base, self.root, self.dice = base, base / "root", dice
        self.spark: Any = LocalSpark()
        self.written: Found = {number: [] for number in range(PARTITIONS)}
        self.begin()

    def begin(self) -> None:
        """Make the topic."""
        with tidelog.open(self.root, create=True) as store:
            store.create_topic(self.topic, PARTITIONS, self.config)

    def add(self) -> None:
        """More data, of records that grow older from round to round."""
        with tidelog.open(self.root, recover=True) as store:
            for partition in store.topic(self.topic):
                number = partition.topic_partition.partition
                for _ in range(self.dice.randint(1, 8)):
                    records = self._records(number)
                    first = partition.append(records).first_offset
                    self.written[number] += [(first + n, r.key, r.value) for n, r in enumerate(records)]

    def _records(self, number: int) -> list[Record]:
        there = len(self.written[number])
        return [
            Record(
                f"{there + n}".encode() * self.dice.randint(1, 20),
                f"k{self.dice.randint(0, 40)}".encode(),
                timestamp=self.time_ms(),
            )
            for n in range(self.dice.randint(1, 30))
        ]

    def time_ms(self) -> int:
        """The timestamp of a record that is written now."""
        return time.time_ns() // 1_000_000

    @abstractmethod
    def run(self) -> None:
        """Run the job."""

    @abstractmethod
    def check(self, *, finished: bool) -> None:
        """Look for all that must be there; `finished` if a run has lived."""


class Compacting(Life):
    config = Life.config | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    most: int | None = None

    def run(self) -> None:
        tidelog.spark.compact(self.spark, self.root, max_bytes_per_task=self.most, recover=True)

    def check(self, *, finished: bool) -> None:
        """Each key has its last value, at its offset; nothing is there that was not written."""
        for number, rows in scanned(self.root, self.topic).items():
            written = self.written[number]
            assert set(rows) <= set(written)
            last = {key: (offset, value) for offset, key, value in written}
            assert {key: (offset, value) for offset, key, value in rows} == last
            if finished:
                assert len(rows) == len(last), "a key is there twice"


class CompactingParts(Compacting):
    most = 3000


class Expiring(Life):
    """Some of the records are too old when they are written."""

    config = Life.config | {"retention.ms": DAY_MS}

    def time_ms(self) -> int:
        return super().time_ms() - self.dice.choice((0, 2 * DAY_MS, 2 * DAY_MS, 2 * DAY_MS))

    def run(self) -> None:
        tidelog.spark.retention(self.spark, self.root, recover=True)

    def check(self, *, finished: bool) -> None:
        """What is there is the end of what was written; what goes is old."""
        for number, rows in scanned(self.root, self.topic).items():
            assert rows == self.written[number][-len(rows) :] if rows else True
        if not finished:
            return
        due = tidelog.spark.retention(self.spark, self.root, dry_run=True).toArrow()
        assert due.num_rows == 0
        with tidelog.open(self.root) as store:
            for partition in store.topic(self.topic):
                rows = scanned(self.root, self.topic)[partition.topic_partition.partition]
                assert not rows or rows[0][0] == partition.log_start_offset


class Ingesting(Life):
    """Files arrive, a few a round."""

    def begin(self) -> None:
        (self.base / "in").mkdir()
        self.rows: list[int] = []
        self.files = 0

    def add(self) -> None:
        for _ in range(self.dice.randint(0 if self.files else 1, 3)):
            rows = [len(self.rows) + n for n in range(self.dice.randint(0, 300))]
            table = pa.table(
                {
                    "key": pa.array([f"k{n % 50}" for n in rows], pa.string()),
                    "value": pa.array([f"{n}" for n in rows], pa.string()),
                }
            )
            pq.write_table(table, self.base / "in" / f"{self.files:04}.parquet", row_group_size=70)
            self.rows += rows
            self.files += 1

    def run(self) -> None:
        source = FileSource("parquet", str(self.base / "in"))
        options = {"partitions": PARTITIONS, "recover": "true", "internal.segment.bytes": 2000}
        columns = Columns(key="key", value="value")
        tidelog.spark.ingest(
            self.spark,
            source,
            self.root,
            topic=self.topic,
            columns=columns,
            options=options,
            files_at_a_time=2,
        )

    def taken(self) -> list[list[int]]:
        found = scanned(self.root, self.topic) if self.root.exists() else {}
        for rows in found.values():
            assert [offset for offset, _, _ in rows] == list(range(len(rows))), "offsets are dense"
        return [[int(value or b"") for _, _, value in rows] for rows in found.values()]

    def check(self, *, finished: bool) -> None:
        """Each row once, and those of a key in the order of the files."""
        taken = self.taken()
        everything = sorted(number for numbers in taken for number in numbers)
        assert len(everything) == len(set(everything)), "a row came twice"
        assert set(everything) <= set(self.rows)
        assert all(numbers == sorted(numbers) for numbers in taken), "rows are not in the order of the files"
        if finished:
            assert everything == self.rows


class Exporting(Life):
    def run(self) -> None:
        settings = ParquetSettings(file_bytes=2000, row_group_rows=50)
        tidelog.spark.export(
            self.spark, self.root, self.base / "out", value_format="string", settings=settings
        )

    def check(self, *, finished: bool) -> None:
        check_exported(self.base / "out", self.topic, self.written, finished=finished)


def check_exported(target: Path, topic: str, written: Found, *, finished: bool) -> None:
    """Each record at most once, and from the first one on as far as it goes."""
    exported: Found = {number: [] for number in range(PARTITIONS)}
    for file in target.glob(f"topic={topic}/**/*.parquet"):
        number = int(file.parts[-3].removeprefix("partition="))
        table = pq.ParquetFile(file).read(["offset", "key", "value"])
        for row in table.to_pylist():
            exported[number].append((row["offset"], row["key"], row["value"].encode()))
    for number, rows in exported.items():
        assert len(rows) == len(set(rows)), "a record came twice"
        assert set(rows) <= set(written[number])
        if finished:
            assert sorted(rows) == written[number]


PIPELINE = """root: root
recover: true
steps:
  - ingest: {source: in, format: parquet, topic: t, key: key, value: value, partitions: 2,
             config: {internal.segment.bytes: "2000", cleanup.policy: compact, retention.ms: "-1",
                      min.cleanable.dirty.ratio: "0.01"}}
  - verify: {deep: true}
  - export: {to: out, topics: [t], values: string}
  - compact: {topics: [t]}
  - retention: {topics: [t]}
"""


class Piping(Ingesting):
    """All of them, one after the other."""

    def begin(self) -> None:
        super().begin()
        (self.base / "p.yaml").write_text(PIPELINE)

    def run(self) -> None:
        told = run_pipeline(lambda: self.spark, read_config(self.base / "p.yaml"))
        assert {one.status for one in told} <= {"done", "skipped"}, [one for one in told if one.detail]

    def check(self, *, finished: bool) -> None:
        """Each row was exported once, though the topic itself keeps only the last of each key."""
        exported = [
            int(value)
            for file in (self.base / "out").glob("topic=t/**/*.parquet")
            for value in pq.ParquetFile(file).read(["value"]).column("value").to_pylist()
        ]
        assert len(exported) == len(set(exported)), "a row came twice"
        assert set(exported) <= set(self.rows)
        there = scanned(self.root, self.topic) if self.root.exists() else {}
        last = {key: value for rows in there.values() for _, key, value in rows}
        assert {int(value or b"") for value in last.values()} <= set(self.rows)
        if finished:
            assert sorted(exported) == self.rows
            assert {key: int(value or b"") for key, value in last.items()} == {
                f"k{n % 50}".encode(): n for n in self.keyed()
            }

    def keyed(self) -> list[int]:
        return self.rows


LIVES: dict[str, type[Life]] = {
    "compact": Compacting,
    "compact-parts": CompactingParts,
    "retention": Expiring,
    "ingest": Ingesting,
    "export": Exporting,
    "pipeline": Piping,
}


def run_until(life: Life, aim: int, last: int) -> list[int]:
    """Run the job, and kill this process at an event: the so-manieth (0) call or return of our code, (1)
    begin or end of a system call that changes something. How many there were of each.
    """
    counts = [0, 0]

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event in ("call", "return"):
            counts[0] += OURS in frame.f_code.co_filename
        elif getattr(called, "__module__", "") == "posix":
            counts[1] += called.__name__ in CHANGES
        if last and counts[aim] == last:
            os.kill(os.getpid(), 9)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        life.run()
    finally:
        sys.setprofile(None)
    return counts


def main() -> None:
    base, job, rounds, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for name in MODULES:  # once, not in each process
        import_module(name)
    dice = random.Random(f"{job} {seed}")
    life = LIVES[job](base, dice)
    steps: list[int] = []
    killed = 0
    for number in range(rounds):
        life.add()
        aim = int(dice.random() < 0.7)
        last = dice.randint(1, steps[aim]) if steps and dice.random() < 0.9 else 0
        lived, told = in_child(lambda chosen=(aim, last): run_until(life, *chosen))
        steps = json.loads(told) if lived else steps
        killed += not lived
        checked(life, number, finished=lived)
    assert in_child(lambda: run_until(life, 0, 0))[0]
    checked(life, rounds, finished=True)
    staging = base / ".tidelog-staging-root"
    left = sorted(path.name for path in staging.iterdir()) if staging.exists() else []
    print(json.dumps({"steps": steps, "killed": killed, "left": left}))


def checked(life: Life, number: int, *, finished: bool) -> None:
    try:
        life.check(finished=finished)
    except AssertionError as error:
        raise AssertionError(f"round {number}, {'lived' if finished else 'killed'}: {error}") from error


if __name__ == "__main__":
    main()
