"""A process that writes, or reads in one of many ways, a root that others use at the same time.

`python -m tests.durability.readers KIND ROOT SECONDS SEED`. Each value says of which topic (by its id),
offset and generation (how often the log was cut) it is, under a checksum. A reader ends with 0 unless it
saw something that never was, and prints how often it read and how often it was told to read again.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import tidelog
from tests.waiting import PATIENCE_S
from tidelog.errors import DataLossError, InvalidInputError, LogError, OffsetOutOfRangeError
from tidelog.manager import BrokerConfig
from tidelog.records import Record
from tidelog.records.schema import Projection
from tidelog.scanning import run_task
from tidelog.scanning.log_end import log_end_offset
from tidelog.scanning.partitions import find_partitions, look_steadily
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.salvage import salvage_task
from tidelog.scanning.splits import plan_splits
from tidelog.types import FetchIsolation

TOPICS = ("t0", "t1", "t2")
_COLUMNS = ["topic", "partition", "offset", "value"]


def make_value(topic_id: uuid.UUID, offset: int, generation: int, payload: bytes) -> bytes:
    """A value that tells what it is."""
    body = b"%s|%d|%d|" % (topic_id.hex.encode(), offset, generation) + payload
    return b"%08x|" % zlib.crc32(body) + body


@dataclass(slots=True)
class Check:
    """What one reading of a partition has seen so far."""

    offset: int = -1
    generation: int = -1
    topic_id: bytes = b""

    def take(self, offset: int, value: bytes) -> None:
        """Raise AssertionError for a record that cannot follow."""
        checksum, body = value[:8], value[9:]
        assert int(checksum, 16) == zlib.crc32(body), f"offset {offset}: a wrong checksum"
        topic_id, own_offset, generation, _ = body.split(b"|", 3)
        assert int(own_offset) == offset, f"the record of {int(own_offset)} at offset {offset}"
        assert offset > self.offset, f"offset {offset} after {self.offset}"
        assert int(generation) >= self.generation, f"offset {offset}: an older generation after a newer"
        assert topic_id == (self.topic_id or topic_id), f"offset {offset}: of another topic"
        self.offset, self.generation, self.topic_id = offset, int(generation), topic_id


def check_rows(rows: Iterable[dict[str, object]]) -> None:
    """Rows of partitions, each in order."""
    seen: dict[object, Check] = {}
    for row in rows:
        check = seen.setdefault((row["topic"], row["partition"]), Check())
        check.take(int(str(row["offset"])), row["value"] if isinstance(row["value"], bytes) else b"")


class Writer:
    """Appends, cuts, compacts, trims, deletes and makes topics anew."""

    def __init__(self, root: str, seed: int) -> None:
        settings = {
            "log.cleaner.dedupe.buffer.size": str(1 << 20),
            "log.segment.delete.delay.ms": "20",
            "log.index.interval.bytes": "500",
        }
        self._dice = random.Random(seed)
        self._store = tidelog.open(root, config=BrokerConfig.from_properties(settings))
        self._generations: Counter[str] = Counter()

    def run(self, end: float) -> int:
        """Do this and that until it is time; how much was done."""
        steps = 0
        with self._store:
            while time.monotonic() < end:
                self.step()
                steps += 1
        return steps

    def step(self) -> None:
        """One change."""
        dice, store = self._dice, self._store
        name = dice.choice(TOPICS)
        if name not in store:
            policy = dice.choice(["compact", "delete"])
            size = dice.choice([120_000, 300_000])
            store.create_topic(
                name, 1, {"internal.segment.bytes": size, "retention.ms": -1, "cleanup.policy": policy}
            )
        partition, kind = store.partition(name), dice.random()
        start, end = partition.log_start_offset, partition.log_end_offset
        if kind < 0.7:
            self._append(name, dice.randint(1, 30))
        elif kind < 0.85 and end > start:
            self._generations[name] += 1
            store.truncate_partition(name, 0, dice.randint(max(start, end - 200), end))
        elif kind < 0.9 and end - 300 > start:
            partition.delete_records(end - 300)
            store.apply_retention()
        elif kind < 0.95:
            if partition.log.segments.last.size:
                partition.log.roll()
            store.clean()
        elif kind < 0.97:
            store.delete_topic(name)

    def _append(self, name: str, count: int) -> None:
        partition, dice = self._store.partition(name), self._dice
        first, generation = partition.log_end_offset, self._generations[name]
        partition.append(
            [
                Record(
                    make_value(
                        partition.topic_id,
                        offset,
                        generation,
                        dice.randbytes(dice.choice([10, 1500])).hex().encode(),
                    ),
                    b"k%d" % dice.randrange(50),
                )
                for offset in range(first, first + count)
            ]
        )


def scan(root: str, dice: random.Random) -> None:
    """All topics, on one thread or two, whole or from a time on."""
    start = datetime.fromtimestamp(time.time() - 5 * dice.random(), UTC) if dice.random() < 0.3 else None
    isolation = dice.choice(["read_uncommitted", "read_committed"])
    threads, split = dice.choice([1, 2]), dice.choice([None, 50_000])
    batches = tidelog.scan(
        root, columns=_COLUMNS, threads=threads, split_bytes=split, start=start, isolation=isolation
    )
    check_rows(row for batch in batches for row in batch.to_pylist())


def read_only(root: str, dice: random.Random) -> None:
    """Offsets, reads and look-ups of a store that is open for reading."""
    with tidelog.open(root, mode="r") as store:
        for partition in store.partitions:
            ends = partition.offsets
            assert ends.log_start <= ends.log_end
            check = Check()
            for record in partition:
                check.take(record.offset, record.value or b"")
            at = dice.randint(ends.log_start, ends.log_end)
            isolation = dice.choice(list(FetchIsolation))
            check_rows(partition.read_arrow(at, 50_000, isolation, columns=_COLUMNS).to_pylist())
            partition.offset_for(int(time.time() * 1000) - dice.randrange(5000))
        store.metrics()


def splits(root: str, dice: random.Random) -> None:
    """Plans of splits that are sent elsewhere and run, as Spark does it."""
    for partition in find_partitions(root, internal=False):
        whole = look_steadily(
            partition, lambda one: OffsetRange(one, one.log_start_offset, log_end_offset(one))
        )
        check = Check()
        for split in pickle.loads(pickle.dumps(plan_splits([whole], max_bytes=40_000))):
            for task in split.tasks:
                run = dice.choice([run_task, salvage_task]) if dice.random() < 0.1 else run_task
                for batch in run(task, Projection(("offset", "value"))):
                    if run is run_task:
                        for row in batch.to_pylist():
                            check.take(row["offset"], row["value"])


def commands(root: str, dice: random.Random) -> None:
    """Commands that look."""
    from tidelog.cli.app import app

    words = dice.choice(
        [
            ["ls", root],
            ["cat", root, "--last", "5"],
            ["cat", root, "--json", "--format", "hex"],
            ["describe", f"{root}/t0-0"],
            ["search", root, "--contains", "zz", "--count"],
            ["find", f"{root}/t0-0", "--offset", "50"],
            ["find", f"{root}/t0-0"],
            ["verify", root],
            ["dump", "--deep", f"{root}/t0-0"],
            ["tail", root, "-n", "3"],
            ["retention", root, "--dry-run"],
        ]
    )
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(words, prog_name="tidelog")
        except SystemExit as end:
            code = end.code
    assert code in (0, 1, 2, None), f"{words} ended with {code}"
    assert "Traceback" not in err.getvalue()
    assert "bug in tidelog" not in err.getvalue()


READERS: dict[str, Callable[[str, random.Random], None]] = {
    "scan": scan,
    "read_only": read_only,
    "splits": splits,
    "commands": commands,
}


def read(kind: str, root: str, end: float, seed: int) -> Counter[str]:
    """Read again and again until it is time; what came of it."""
    dice, told = random.Random(seed), Counter[str]()
    while time.monotonic() < end:
        try:
            READERS[kind](root, dice)
            told["read"] += 1
        except (
            DataLossError,
            InvalidInputError,
            OffsetOutOfRangeError,
            FileNotFoundError,
            LogError,
        ) as error:
            told[f"again: {type(error).__name__}"] += 1
    return told


def follow(root: str, end: float) -> Counter[str]:
    """`tail -f`, its lines checked one by one."""
    program = "from tidelog.cli.main import main; main()"
    command = [sys.executable, "-c", program, "tail", "-f", "-n", "5", "--json", root]
    told: Counter[str] = Counter()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as tail,
    ):
        assert tail.stdout is not None
        stop = threading.Timer(end - time.monotonic(), tail.send_signal, [signal.SIGINT])
        stop.start()
        for line in tail.stdout:
            record = json.loads(line)
            Check().take(record["offset"], record["value"].encode())
            told["line"] += 1
        code = tail.wait(PATIENCE_S)
        stop.cancel()
        errors.seek(0)
        said = errors.read()
    assert code in (0, 130), f"tail -f ended with {code}: {said[-2000:]}"
    assert "Traceback" not in said
    return told


def main() -> None:
    """Run one of them."""
    kind, root, seconds, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    end = time.monotonic() + seconds
    if kind == "writer":
        print(kind, Writer(root, seed).run(end))
    elif kind == "follow":
        print(kind, dict(follow(root, end)))
    else:
        print(kind, dict(read(kind, root, end, seed)))


if __name__ == "__main__":
    main()
