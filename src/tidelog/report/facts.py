"""The facts of a report: roots, topics, partitions and what is in them, as tables of columns, ready for JSON.

1. The partitions under the paths are listed; each is looked at by itself, on threads or by a Spark task.
   Headers are read; records only if they are asked for.
2. Doctor examines the disks, if it is asked to: that reads every byte, where the rest reads headers.
3. Groups, retention and totals are told from what was found.

A table is a mapping of columns, each a list; column `at` of a table is a row of `partitions`. Memory grows
with the number of segments, not with the data. Nothing is locked or written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tidelog.doctor import Finding, Kind
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.coordinators.transactions import TRANSACTIONS_TOPIC, Coordinated, read_coordinated
from tidelog.report.disks import Verdicts, examine_disks, root_table
from tidelog.report.groups import group_table
from tidelog.report.partition import SEGMENT_COLUMNS, TRANSACTION_COLUMNS, partition_facts
from tidelog.report.planned import retention_tables
from tidelog.report.tables import columns_of, hour_table, numbered, topic_table
from tidelog.scanning.partitions import Partition, Paths, list_partitions, look_steadily
from tidelog.scanning.volumes import open_volume
from tidelog.storage.names import META_PROPERTIES_FILE, DirectoryState
from tidelog.version import __version__

__all__ = ["FORMAT", "Progress", "gather", "look_locally"]

FORMAT = 1
"""The version of the facts' form."""

_THREADS = 4
_REMOTE_THREADS = 16
_DENSITY_VALUES = 60_000
_NESTED = frozenset(
    {"segments", "hours", "hour_width", "codecs", "producers", "transactions", "epochs", "keys"}
)
"""What a partition's facts have as rows, which become tables of their own."""
_CODEC_COLUMNS = ("codec", "batches", "bytes", "records", "uncompressed_bytes", "compression_ratio")
_PRODUCER_COLUMNS = ("producer_id", "batches", "records", "bytes", "epoch", "last_timestamp")

Progress = Callable[[int, int], None]
"""Told of how many bytes of how many are done."""


class Look(Protocol):
    """How partitions are looked at: here, or elsewhere."""

    def __call__(
        self,
        partitions: Sequence[Partition],
        columns: int,
        known: Mapping[int, Coordinated] | None,
        progress: Progress,
        records: bool,
    ) -> list[dict[str, Any] | None]:
        """The facts of each partition, in order; None of one that was deleted meanwhile."""


def gather(
    paths: Paths,
    *,
    threads: int | None = None,
    progress: Progress = lambda done, total: None,
    examine: bool = False,
    records: bool = False,
    now_ms: int | None = None,
    config: BrokerConfig | None = None,
    look: Look | None = None,
) -> dict[str, Any]:
    """The facts of roots and partitions, ready for JSON; InvalidInputError if a path is neither.

    With `examine`, doctor looks at local disks too, which checks every checksum. With `records`, records are
    decoded: how well they are compressed, and which keys come how often. `config` has the broker's
    defaults of topics. `look` looks at the partitions; by default `threads` of this process do.
    """
    named = [str(one) for one in ([paths] if isinstance(paths, (str, Path)) else paths)]
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    config = config or BrokerConfig()
    partitions = _partitions(named)
    roots = [path for path in _absolute(named) if not any(one.url == path for one in partitions)]
    size = sum(segment.size for one in partitions for segment in one.segments)
    tally = _Tally(size * (2 if examine else 1), progress)
    columns = min(max(_DENSITY_VALUES // max(len(partitions), 1), 10), 60)
    look = look or partial(look_locally, threads=threads)
    looked = look(partitions, columns, _coordinated(partitions), tally.reach, records)
    partitions = [one for one, facts in zip(partitions, looked, strict=True) if facts is not None]
    found = [facts for facts in looked if facts is not None]
    verdicts = None
    if examine:
        alone = [one.url for one in partitions if one.is_named]
        verdicts = examine_disks(roots, alone, config, now_ms, tally.advance)
    facts = {
        "format": FORMAT,
        "tidelog": __version__,
        "now_ms": now_ms,
        "paths": named,
        "is_examined": examine,
        "has_records": records,
        "roots": root_table(roots, partitions, verdicts),
        **_tables(found, verdicts),
        "groups": group_table(partitions),
    }
    facts["retention"], facts["going"] = retention_tables(partitions, found, config, now_ms)
    return facts


class _Tally:
    """Bytes that are done, of all."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def reach(self, done: int, total: int) -> None:
        self._done = done
        self._progress(min(done, self._total), self._total)

    def advance(self, size: int) -> None:
        self.reach(self._done + size, self._total)


def _partitions(named: Sequence[str]) -> list[Partition]:
    """The partitions under the paths, those that are marked too; each path by itself, as in `ls`."""
    found: dict[str, Partition] = {}
    for path in named:
        under = list_partitions(path, marked=True)
        if not under and not any(name == META_PROPERTIES_FILE for name, _ in open_volume(path).names()):
            raise InvalidInputError(
                f"no Kafka partition directory under {path}, and no {META_PROPERTIES_FILE}: name a root "
                "(log.dirs) or a partition's directory"
            )
        found |= {one.url: one for one in map(_listed, under) if one is not None}
    return list(found.values())


def _listed(partition: Partition) -> Partition | None:
    """The partition with its files listed; None if it was deleted meanwhile."""

    def look(one: Partition) -> Partition:
        _ = one.segments
        return one

    try:
        return look_steadily(partition, look)
    except DataLossError:
        if partition.has_gone():
            return None
        raise


def _absolute(named: Sequence[str]) -> list[str]:
    return [path if "://" in path else str(Path(path).absolute()) for path in named]


def _coordinated(partitions: Sequence[Partition]) -> dict[int, Coordinated] | None:
    """The coordinators' transactions by producer id; None if no coordinator's topic is there."""
    topics = [
        one
        for one in partitions
        if one.topic_partition.topic == TRANSACTIONS_TOPIC and one.state is DirectoryState.LIVE
    ]
    return {each.producer_id: each for one in topics for each in read_coordinated(one)} if topics else None


def _tables(found: Sequence[dict[str, Any]], verdicts: Verdicts | None) -> dict[str, Any]:
    rows = [_row(one, verdicts) for one in found]
    names = list(rows[0]) if rows else []
    width, hours = hour_table(found)
    partitions = columns_of(names, (list(row.values()) for row in rows))
    numbers = {one["path"]: at for at, one in enumerate(found)}
    return {
        "totals": _totals(rows),
        "topics": topic_table(partitions),
        "partitions": partitions,
        "segments": numbered(SEGMENT_COLUMNS, found, "segments"),
        "codecs": numbered(_CODEC_COLUMNS, found, "codecs"),
        "keys": numbered(("key", "records"), found, "keys"),
        "producers": numbered(_PRODUCER_COLUMNS, found, "producers"),
        "transactions": numbered(TRANSACTION_COLUMNS, found, "transactions"),
        "epochs": numbered(("epoch", "start_offset"), found, "epochs"),
        "hour_width": width,
        "hours": hours,
        "findings": (verdicts or Verdicts()).findings(numbers),
    }


def _row(one: Mapping[str, Any], verdicts: Verdicts | None) -> dict[str, Any]:
    """A partition's row: what is one value, and what follows from its rows."""
    verdict = None if verdicts is None else verdicts.partitions.get(one["path"])
    wrong = [] if verdict is None else [each for each in verdict.findings if _is_damage(each)]
    segments = columns_of(SEGMENT_COLUMNS, one["segments"])
    return {name: value for name, value in one.items() if name not in _NESTED} | {
        "segments": len(one["segments"]),
        "codecs": " ".join(name for name, *_ in one["codecs"]) or None,
        "missing_offsets": sum(segments["missing_offsets"]),
        "gaps": sum(segments["gaps"]),
        "offset_entries": sum(segments["offset_entries"]),
        "is_damaged": bool(one["damage"] or wrong),
        "verdict": None if verdict is None else verdict.verdict,
    }


def _is_damage(finding: Finding) -> bool:
    """Whether something is broken. What retention deletes is lost, too, but nothing is wrong with it."""
    return finding.severity.is_wrong and finding.kind is not Kind.RETENTION


def _totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    live = [row for row in rows if row["state"] == "live"]
    sums = ("size_bytes", "segments", "batches", "records", "open_transactions", "aborted_transactions")
    return {
        "topics": len({row["topic"] for row in live}),
        "partitions": len(live),
        "marked": len(rows) - len(live),
        "damaged": sum(row["is_damaged"] for row in live),
        **{name: sum(row[name] for row in rows) for name in sums},
    }


def look_locally(
    partitions: Sequence[Partition],
    columns: int,
    known: Mapping[int, Coordinated] | None,
    progress: Progress,
    records: bool = False,
    *,
    threads: int | None = None,
) -> list[dict[str, Any] | None]:
    """The facts of each partition, in order, by threads of this process; None of one that has gone."""
    total = sum(segment.size for one in partitions for segment in one.segments)
    done, turn = 0, threading.Lock()

    def advance(size: int) -> None:
        nonlocal done
        with turn:
            done += size
            progress(min(done, total), total)

    remote = any("://" in one.url for one in partitions)
    with ThreadPoolExecutor(threads or (_REMOTE_THREADS if remote else _THREADS)) as pool:
        return list(
            pool.map(lambda one: partition_facts(one, columns, known, advance, records=records), partitions)
        )
