"""Logs to test on: small segments, a clock of their own, and questions in the form of the golden answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.golden import GoldenPartition
from tidelog.config import LogConfig
from tidelog.log import AppendOrigin, AppendResult, Log
from tidelog.protocol.control_records import EndTxnMarker
from tidelog.records import Record, StoredRecord, decode_records, encode_end_txn_marker, encode_records
from tidelog.types import Codec, FetchIsolation

__all__ = [
    "NOW_MS",
    "SMALL",
    "Clock",
    "abort",
    "all_records",
    "answers",
    "commit",
    "contents",
    "data_files",
    "golden_config",
    "numbered",
    "open_log",
    "record",
    "send",
]

NOW_MS = 1_700_000_000_000

SMALL = LogConfig(internal_segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=8192)
"""Segments of a few batches."""

DATA_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def open_log(path: Path, config: LogConfig = SMALL, **options: Any) -> Log:
    """The log in a directory, clean unless told otherwise."""
    return Log.open(path, config, **({"clean": True, "now_ms": Clock()} | options))


def record(number: int, size: int = 20) -> Record:
    """A record that tells its number."""
    return Record(f"value {number}".encode().ljust(size, b"."), f"key {number}".encode(), (), NOW_MS + number)


def send(
    log: Log,
    producer_id: int,
    sequence: int,
    *records: Record,
    epoch: int = 0,
    transactional: bool = True,
    leader_epoch: int = 0,
) -> AppendResult:
    """Append a batch of a producer's."""
    data = encode_records(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        codec=Codec.NONE,
    )
    return log.append_as_leader(data, leader_epoch=leader_epoch)


def commit(log: Log, producer_id: int, *, epoch: int = 0, leader_epoch: int = 0) -> AppendResult:
    """End a producer's transaction."""
    return _end(log, producer_id, epoch, leader_epoch, committed=True)


def abort(log: Log, producer_id: int, *, epoch: int = 0, leader_epoch: int = 0) -> AppendResult:
    """Take a producer's transaction back."""
    return _end(log, producer_id, epoch, leader_epoch, committed=False)


def _end(log: Log, producer_id: int, epoch: int, leader_epoch: int, *, committed: bool) -> AppendResult:
    marker = encode_end_txn_marker(
        EndTxnMarker(committed=committed, coordinator_epoch=7),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=NOW_MS,
    )
    return log.append_as_leader(
        marker, leader_epoch=leader_epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0
    )


def all_records(log: Log, isolation: FetchIsolation = FetchIsolation.LOG_END) -> list[StoredRecord]:
    """Every record from the log start on, read in small pieces."""
    found: list[StoredRecord] = []
    offset = log.log_start_offset
    while True:
        fetched = log.read(offset, 700, isolation)
        whole = fetched.batches()
        if not len(whole):
            return found
        found += [one for one in decode_records(fetched.data[: whole.end]) if one.offset >= offset]
        offset = int(whole.last_offset[-1]) + 1


def contents(path: Path) -> dict[str, bytes]:
    """All files of a directory."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}


def data_files(path: Path) -> dict[str, bytes]:
    """The files of a directory that hold records and indexes."""
    return {name: data for name, data in contents(path).items() if name.endswith(DATA_SUFFIXES)}


def golden_config(partition: GoldenPartition) -> LogConfig:
    """The topic's config when Kafka wrote a golden partition."""
    return LogConfig(
        segment_index_bytes=65536,
        index_interval_bytes=partition.index_interval_bytes,
        cleanup_policy=("compact",),
    )


def answers(log: Log, questions: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a log answers to the questions of golden answers."""
    log.update_high_watermark(log.log_end_offset)
    for question in questions:
        yield _answer(log, question)


def _answer(log: Log, question: dict[str, Any]) -> dict[str, Any]:
    if "log_start_offset" in question:
        return {
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "segments": len(log.segments),
            "size": log.size,
        }
    if "last_stable_offset" in question:
        return {"last_stable_offset": log.last_stable_offset}
    if "offset" in question:
        offset = question["offset"]
        segment = log.segments.floor(offset)
        assert segment is not None
        entry, batch = segment.offset_index.lookup(offset), segment.translate_offset(offset)
        return {
            "offset": offset,
            "segment": segment.base_offset,
            "index_offset": entry.offset,
            "index_position": entry.position,
            "batch_offset": None if batch is None else batch.offset,
            "batch_position": None if batch is None else batch.position,
        }
    if "timestamp" in question:
        found = log.offset_for_timestamp(question["timestamp"])
        told = None if found is None else {"timestamp": found.timestamp, "offset": found.offset}
        return {"timestamp": question["timestamp"], "found": told}
    fetched = log.read(question["committed_from"], (1 << 31) - 1, FetchIsolation.TXN_COMMITTED)
    aborted = [[txn.producer_id, txn.first_offset] for txn in fetched.aborted_transactions or ()]
    return {"committed_from": question["committed_from"], "aborted": aborted}


def numbered(count: int, start: int = 0) -> list[Record]:
    """That many records."""
    return [record(number) for number in itertools.islice(itertools.count(start), count)]
