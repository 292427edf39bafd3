"""What the log benchmarks work on, made once in a run and only where a selected row needs it.

batches       `.log` files that Kafka wrote (java/MakeLogs): 100 B JSON values, 150 records a batch or one
directories   partitions that Kafka's log wrote from them (java/LogMake) and closed cleanly
segments      a partition of thousands of small segments, each one batch: what Kafka would leave after as
              many rolls, written directly because rolling and flushing so often takes minutes
targets       random offsets and timestamps in files that both sides read
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Bench
from tidelog.log.producers.snapshots import encode_snapshot
from tidelog.records import scan_batches
from tidelog.records.checksums import crc32c

__all__ = [
    "FIRST_TIMESTAMP",
    "PER_BATCH",
    "LogData",
    "LogDirectory",
    "grouped",
    "ready_batches",
    "write_segments",
]

PER_BATCH = 150
FIRST_TIMESTAMP = 1_700_000_000_000
"""Of record 0; each record is a millisecond later (java/MakeLogs)."""

INDEX_ENTRIES = 250_000
"""About what a segment of 1 GiB has with Kafka's default interval of 4 KiB between entries."""

_ENTRY_OFFSETS, _ENTRY_BYTES = 37, 4_200
_SEED = 7
_PRODUCER = 1


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A partition directory, closed cleanly."""

    path: Path
    log_end: int
    config: dict[str, str]

    def request(self) -> dict[str, object]:
        """As a program of java/ wants it."""
        return {"dir": str(self.path), "log_end": self.log_end, "config": self.config}


class LogData:
    """The data of one run."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._random = np.random.default_rng(_SEED)

    # Files of batches

    @cached_property
    def batched(self) -> Path:
        """Batches of 150 records, to be appended."""
        return self._batches("append-150", "none", self._bench.effort.scale(300_000, 1_200_000), PER_BATCH)

    @cached_property
    def single(self) -> Path:
        """Batches of one record, to be appended."""
        return self._batches("append-1", "none", self._bench.effort.scale(100_000, 400_000), 1)

    @cached_property
    def batched_lz4(self) -> Path:
        """The same, compressed."""
        return self._batches("append-lz4", "lz4", self._bench.effort.scale(300_000, 1_200_000), PER_BATCH)

    @cached_property
    def batched_by_producer(self) -> Path:
        """Batches of 150 records, of one idempotent producer."""
        return by_producer(self.batched)

    @cached_property
    def batched_lz4_by_producer(self) -> Path:
        """The same, compressed."""
        return by_producer(self.batched_lz4)

    @cached_property
    def single_by_producer(self) -> Path:
        """Batches of one record, of one idempotent producer."""
        return by_producer(self.single)

    def _batches(self, name: str, codec: str, records: int, per_batch: int) -> Path:
        path = self._bench.scratch / f"{name}.log"
        request = {"file": str(path), "codec": codec, "records": records, "per_batch": per_batch}
        self._bench.kafka("MakeLogs", logs=[request | {"value_bytes": 100}])
        return path

    # Directories

    @cached_property
    def lookups(self) -> LogDirectory:
        """Records to be looked up, in segments of 256 MiB."""
        self._bench.say("writing a log to look records up in")
        records = self._bench.effort.scale(1_000_000, 5_000_000)
        return self._directory("lookups-0", self._batches("lookups", "none", records, PER_BATCH), 0, 256)

    @cached_property
    def compressed(self) -> LogDirectory:
        """LZ4 batches to be scanned: 1 GiB, in segments of 256 MiB."""
        self._bench.say("writing a log to scan")
        batches = self._batches("lz4", "lz4", self._bench.effort.scale(600_000, 2_400_000), PER_BATCH)
        return self._directory("compressed-0", batches, self._bench.effort.scale(256, 1024), 256)

    def _directory(self, name: str, batches: Path, megabytes: int, segment_megabytes: int) -> LogDirectory:
        path = self._bench.scratch / name
        config = {"segment.bytes": str(segment_megabytes << 20)}
        request = {"dir": str(path), "file": str(batches), "megabytes": megabytes, "config": config}
        (log_end,) = self._bench.kafka("LogMake", logs=[request])
        batches.unlink()
        return LogDirectory(path, log_end, config)

    def segments(self, count: int, per_batch: int) -> LogDirectory:
        """A directory of so many segments, each with one batch."""
        self._bench.say(f"writing {count:,} segments")
        path = self._bench.scratch / f"segments.{count}-0"
        path.mkdir()
        batch = _first_batch(self.batched if per_batch == PER_BATCH else self.single)
        return LogDirectory(path, write_segments(path, batch, count), {})

    # Targets

    def offsets(self, directory: LogDirectory, count: int) -> tuple[Path, list[int]]:
        """Random offsets of a log."""
        return self._targets("offsets", self._random.integers(0, directory.log_end, count))

    def timestamps(self, directory: LogDirectory, count: int) -> tuple[Path, list[int]]:
        """Random timestamps of a log's records."""
        chosen = FIRST_TIMESTAMP + self._random.integers(0, directory.log_end, count)
        return self._targets("timestamps", chosen)

    def _targets(self, name: str, numbers: npt.NDArray[np.int64]) -> tuple[Path, list[int]]:
        path = self._bench.scratch / f"{name}.i64"
        numbers.astype(">i8").tofile(path)
        return path, numbers.tolist()

    def index(self, count: int) -> tuple[Path, Path, npt.NDArray[np.int64]]:
        """An offset index for base offset 0, and random offsets to look up in it: a file, and the array."""
        path = self._bench.scratch / f"{0:020}.index"
        entries = np.arange(1, INDEX_ENTRIES + 1)
        pairs = np.stack([entries * _ENTRY_OFFSETS, entries * _ENTRY_BYTES], axis=1)
        pairs.astype(">i4").tofile(path)
        targets = self._random.integers(0, (INDEX_ENTRIES + 2) * _ENTRY_OFFSETS, count)
        return path, self._targets("index", targets)[0], targets


def ready_batches(path: Path) -> list[bytes]:
    """The batches of a file as a client sends them: counted from offset 0."""
    data = bytearray(path.read_bytes())
    table = scan_batches(data, max_batches=1 << 30, check_crc=False).require()
    spans = table.rows[:, :2].tolist()
    for position, _ in spans:
        data[position : position + 8] = bytes(8)
    return [bytes(data[position : position + size]) for position, size in spans]


def by_producer(path: Path) -> Path:
    """A copy of a file whose batches are of producer 1, in sequence."""
    data = bytearray(path.read_bytes())
    table = scan_batches(data, max_batches=1 << 30, check_crc=False).require()
    sequence = 0
    for position, size, count in zip(table.position, table.size, table.count, strict=True):
        at = int(position)
        data[at + 43 : at + 57] = struct.pack(">qhi", _PRODUCER, 0, sequence)
        data[at + 17 : at + 21] = struct.pack(">I", crc32c(data[at + 21 : at + int(size)]))
        sequence += int(count)
    copy = path.with_suffix(".producer.log")
    copy.write_bytes(data)
    return copy


def grouped(batches: Sequence[bytes], count: int) -> list[bytes]:
    """So many batches a call."""
    return [b"".join(batches[first : first + count]) for first in range(0, len(batches), count)]


def _first_batch(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(12)
        return head + file.read(int.from_bytes(head[8:]))


def write_segments(directory: Path, batch: bytes, count: int) -> int:
    """Segments with this batch and its final time entry, as after as many rolls; the log end."""
    offsets = int.from_bytes(batch[23:27]) + 1
    newest = int.from_bytes(batch[35:43])
    time_entry = struct.pack(">qi", newest, offsets - 1)
    snapshot = encode_snapshot([])
    for base_offset in range(0, count * offsets, offsets):
        name = f"{directory}/{base_offset:020}"
        for suffix, content in (
            (".log", struct.pack(">q", base_offset) + batch[8:]),
            (".index", b""),
            (".timeindex", time_entry),
            (".snapshot", snapshot if base_offset else None),
        ):
            if content is not None:
                Path(name + suffix).write_bytes(content)
    (directory / f"{count * offsets:020}.snapshot").write_bytes(snapshot)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return count * offsets
