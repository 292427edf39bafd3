"""A log that grows: batches appended as a broker appends them, rolled into new segments.

`python -m tests.spark.writer ROOT BATCHES PAUSE_S` writes from a process of its own; the values of topic
`events` are numbers that count up over all its partitions, so that every one of them can be accounted for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tidelog.records.builder import encode_batches
from tidelog.types import Codec

__all__ = ["LogWriter", "main"]


class LogWriter:
    """Appends to one partition's directory."""

    def __init__(self, root: Path, topic: str, partition: int, *, batches_per_segment: int = 20) -> None:
        self.directory = root / f"{topic}-{partition}"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.next_offset = 0
        self._per_segment = batches_per_segment
        self._batches = 0
        self._base = 0

    def append(
        self,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes] | None = None,
        codec: Codec = Codec.NONE,
        timestamp: int = 1_700_000_000_000,
    ) -> None:
        """One batch, written at once."""
        if self._batches % self._per_segment == 0:
            self._base = self.next_offset
        columns = pa.record_batch(
            {
                "key": pa.array(keys or [None] * len(values), pa.binary()),
                "value": pa.array(values, pa.binary()),
                "timestamp": pa.array([timestamp] * len(values), pa.timestamp("ms", tz="UTC")),
            }
        )
        data = bytes(encode_batches(columns, base_offset=self.next_offset, codec=codec).data)
        with (self.directory / f"{self._base:020}.log").open("ab", buffering=0) as file:
            file.write(data)
        self.next_offset += len(values)
        self._batches += 1


def main(root: Path, batches: int, pause_s: float) -> None:
    """Write `batches` batches of ten values to partitions that become more as time goes by."""
    writers = [LogWriter(root, "events", 0)]
    for n in range(batches):
        if n in (batches // 4, batches // 2):
            writers.append(LogWriter(root, "events", len(writers)))
        values = [str(10 * n + i).encode() for i in range(10)]
        writers[n % len(writers)].append(values, codec=Codec.LZ4 if n % 3 else Codec.NONE)
        time.sleep(pause_s)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
