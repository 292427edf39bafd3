"""Log directories written by Apache Kafka 4.3.0, and what Kafka's own classes say about them.

    golden/clean/<topic>-<partition>/       partitions of one broker's log directory after an orderly stop;
                                            its checkpoints and meta.properties stand beside them
    golden/legacy/<topic>-<partition>/      magic 0 and 1 segments, every codec those formats know
    golden/expected/<dir>.records.jsonl.gz  each record as Kafka's reader decodes it, segments in offset order
    golden/expected/<dir>.lookups.jsonl.gz  what Kafka's log answers about the directory

The data topics were written with `index.interval.bytes=512` and `segment.index.bytes=65536`, internal ones
with 4096. What each partition is there for: none (leader epochs 0, 2, 4), trimmed (gzip, log start 333),
multi (snappy), outoforder (lz4, timestamps jump), zstd (headers), appendtime (zstd, LogAppendTime), compact
and txncompact (after Kafka's cleaner), txn (markers, aborts over several segments, one transaction left
open), unicode (an odd topic name, headers uncompressed).
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["GOLDEN", "GoldenPartition", "golden_partition", "golden_partitions"]

GOLDEN = Path(__file__).with_name("golden")

_LOG_STARTS = {"golden-trimmed-0": 333}


@dataclass(frozen=True, slots=True)
class GoldenPartition:
    """One partition directory and the answers that belong to it."""

    name: str
    directory: Path
    records_path: Path
    lookups_path: Path | None
    """None where the log was not asked (the metadata log is a Raft log, not a UnifiedLog)."""

    log_start: int
    """The log start offset in the broker's checkpoint when it stopped."""

    @property
    def legacy(self) -> bool:
        """Magic 0 or 1."""
        return self.directory.parent.name == "legacy"

    @property
    def index_interval_bytes(self) -> int:
        """The topic's `index.interval.bytes`."""
        return 4096 if self.name.startswith("__") else 512

    def logs(self) -> list[Path]:
        """The `.log` files in offset order."""
        return sorted(self.directory.glob("*.log"))

    def records(self) -> list[dict[str, Any]]:
        """The expected records."""
        return read_json_lines(self.records_path)

    def lookups(self) -> list[dict[str, Any]]:
        """The expected answers; empty where the log was not asked."""
        return [] if self.lookups_path is None else read_json_lines(self.lookups_path)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def golden_partitions() -> list[GoldenPartition]:
    """Every golden partition, by name; made for `pytest.mark.parametrize(..., ids=lambda p: p.name)`."""
    found = []
    for directory in sorted(path for kind in ("clean", "legacy") for path in (GOLDEN / kind).iterdir()):
        if not directory.is_dir():
            continue
        name = directory.name
        lookups = GOLDEN / "expected" / f"{name}.lookups.jsonl.gz"
        found.append(
            GoldenPartition(
                name=name,
                directory=directory,
                records_path=GOLDEN / "expected" / f"{name}.records.jsonl.gz",
                lookups_path=lookups if lookups.exists() else None,
                log_start=_LOG_STARTS.get(name, 0),
            )
        )
    return found


def golden_partition(name: str) -> GoldenPartition:
    """The golden partition called `name`."""
    return next(partition for partition in golden_partitions() if partition.name == name)
