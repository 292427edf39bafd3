"""The facts of one partition: a pure function of its directory, small enough to travel from a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tidelog.errors import DataLossError, InvalidIndexError, TidelogError
from tidelog.manager.coordinators.transactions import Coordinated, TransactionRow, partition_rows
from tidelog.report.counts import Counts, Hours
from tidelog.report.record_counts import count_records
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.pictures import Floats, Picture, SegmentPicture, look_at
from tidelog.storage.checkpoints import parse_epochs
from tidelog.storage.names import LEADER_EPOCH_FILE, DirectoryState

__all__ = ["SEGMENT_COLUMNS", "TRANSACTION_COLUMNS", "partition_facts"]

SEGMENT_COLUMNS = (
    "base_offset",
    "end_offset",
    "size_bytes",
    "batches",
    "records",
    "offset_entries",
    "time_entries",
    "missing_offsets",
    "gaps",
    "first_timestamp",
    "last_timestamp",
    "codecs",
    "damage",
    "damage_offset",
)
TRANSACTION_COLUMNS = (
    "state",
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "first_offset",
    "last_offset",
    "updated_ms",
)
_KEY_FACTS = ("null_keys", "keyed_records", "distinct_keys", "keys")
MAX_TRANSACTIONS = 200
MAX_EPOCHS = 200


def partition_facts(
    partition: Partition,
    columns: int,
    known: Mapping[int, Coordinated] | None = None,
    advance: Callable[[int], None] = lambda size: None,
    *,
    records: bool = False,
) -> dict[str, Any] | None:
    """What a partition's files tell, headers and indexes, and with `records` the records; ready for JSON.

    `columns` is how many values tell of how full its offsets are. `known` are the coordinators' transactions
    by producer id; None if no coordinator's topic is there. None if the partition was
    deleted meanwhile.
    """

    def look(one: Partition) -> dict[str, Any]:
        counts = Counts(one.log_start_offset)
        picture = look_at(one, columns, meet=counts.meet)
        told = _told(one, picture) | counts.facts() | {"epochs": _epochs(one)}
        return _with_contents(told, count_records(one) if records else None)

    size = sum(segment.size for segment in partition.segments)
    try:
        return look_steadily(partition, look) | _transactions(partition, known)
    except DataLossError:
        if partition.has_gone():
            return None
        raise
    finally:
        advance(size)


def _told(partition: Partition, picture: Picture) -> dict[str, Any]:
    facts = picture.facts
    name = facts.topic_partition
    return {
        "topic": name.topic,
        "partition": name.partition,
        "state": facts.state.value.removeprefix("-") or "live",
        "path": facts.url,
        "topic_id": None if partition.topic_id is None else str(partition.topic_id),
        "size_bytes": facts.size,
        "log_start_offset": facts.log_start_offset,
        "last_stable_offset": picture.stable_offset,
        "high_watermark": facts.high_watermark,
        "log_end_offset": facts.log_end_offset,
        "first_timestamp": _moment(facts.first_timestamp),
        "last_timestamp": _moment(facts.last_timestamp),
        "health": "; ".join((*facts.damage, *facts.notes)) or "ok",
        "damage": list(picture.damage),
        "notes": list(facts.notes),
        "is_internal": partition.is_internal,
        "first_column": picture.offsets.start,
        "density": _rounded(picture.records),
        "entries": _rounded(picture.entries),
        "segments": [_segment(one) for one in picture.segments],
    }


def _with_contents(told: dict[str, Any], contents: Mapping[str, Any] | None) -> dict[str, Any]:
    """With what records tell: keys, sizes before compression, and each record in the hour of its timestamp.

    None is in the place of what is not known if no record was read.
    """
    if contents is None:
        unknown: dict[str, Any] = dict.fromkeys(_KEY_FACTS) | {"keys": []}
        return told | unknown | {"codecs": [[*row, None, None] for row in told["codecs"]]}
    sizes = contents["uncompressed"]
    codecs = [[*row, *_compression(*sizes.get(row[0], (0, 0)))] for row in told["codecs"]]
    return told | {name: contents[name] for name in _KEY_FACTS} | {"codecs": codecs} | _hours(told, contents)


def _hours(told: Mapping[str, Any], contents: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes and batches by the largest timestamp of a batch, records by their own."""
    hours = Hours.of(told["hour_width"], [[hour, 0, *rest] for hour, _, *rest in told["hours"]])
    hours.join(Hours.of(contents["hour_width"], [[*row, 0, 0] for row in contents["hours"]]))
    return {"hour_width": hours.width, "hours": hours.rows()}


def _compression(size: int, whole: int) -> tuple[int, float | None]:
    """The uncompressed size, and how many times the size on disk it is."""
    return whole, round(whole / size, 3) if size else None


def _segment(one: SegmentPicture) -> list[Any]:
    return [
        one.base_offset,
        one.end_offset,
        one.size,
        one.batches,
        one.records,
        one.offset_entries,
        one.time_entries,
        one.missing_offsets,
        one.gaps,
        _moment(one.first_timestamp),
        _moment(one.last_timestamp),
        " ".join(one.codecs) or None,
        one.damage,
        one.damage_offset,
    ]


def _epochs(partition: Partition) -> list[list[int]]:
    """Leader epochs and where they start, the newest ones; a file that cannot be read is doctor's matter."""
    try:
        entries = parse_epochs(partition.volume.content(LEADER_EPOCH_FILE), partition.url)
    except (OSError, InvalidIndexError):
        return []
    return [[entry.epoch, entry.start_offset] for entry in entries[-MAX_EPOCHS:]]


def _transactions(partition: Partition, known: Mapping[int, Coordinated] | None) -> dict[str, Any]:
    """Open, hanging and aborted transactions; of the aborted ones the newest are told one by one."""
    rows: list[TransactionRow] = []
    if partition.state is DirectoryState.LIVE and not partition.is_metadata_log:
        try:
            rows = partition_rows(partition, known)
        except DataLossError:
            raise
        except TidelogError:  # damage is told elsewhere
            rows = []
    running = [row for row in rows if row.state != "aborted"]
    aborted = [row for row in rows if row.state == "aborted"]
    told = [*running[:MAX_TRANSACTIONS], *aborted[-MAX_TRANSACTIONS:]]
    return {
        "open_transactions": len(running),
        "aborted_transactions": len(aborted),
        "transactions": [[getattr(row, name) for name in TRANSACTION_COLUMNS] for row in told],
    }


def _moment(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


def _rounded(values: Floats) -> list[int]:
    rounded: list[int] = np.rint(values).astype(np.int64).tolist()
    return rounded
