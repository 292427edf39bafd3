"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins, ends, and was at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidelog.broker.catalog import HeldLog, ServedLog, epoch_at
from tidelog.broker.context import Broker, Client, Values
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.broker.handlers.fetch import check_epoch
from tidelog.broker.handlers.metadata import is_internal
from tidelog.errors import TidelogError
from tidelog.log.read.lookups import OffsetTarget

__all__ = ["delete_records", "list_offsets", "offset_for_leader_epoch"]

_FIRST_VERSIONS = {
    OffsetTarget.LATEST: 0,
    OffsetTarget.EARLIEST: 0,
    OffsetTarget.MAX_TIMESTAMP: 7,
    OffsetTarget.EARLIEST_LOCAL: 8,
    OffsetTarget.LATEST_TIERED: 9,
    OffsetTarget.EARLIEST_PENDING_UPLOAD: 11,
}
"""Since which version a target can be asked for."""
_NEVER = 1 << 15


def list_offsets(request: Any, broker: Broker, client: Client) -> Values:
    """The offset that each timestamp, or special one, finds."""
    named = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    topics = []
    for topic in request.topics:
        answers = []
        for one in topic.partitions:
            try:
                if named[topic.name, one.partition_index] > 1:
                    raise RefusedError(Code.INVALID_REQUEST, "the partition is named twice")
                log = _log(broker, topic.name, one.partition_index)
                check_epoch(log, getattr(one, "current_leader_epoch", -1))
                answers.append(_find(request, log, one))
            except (TidelogError, RefusedError, OSError) as error:
                answers.append({"partition_index": one.partition_index, "error_code": code_of(error)})
        topics.append({"name": topic.name, "partitions": answers})
    return {"topics": topics}


def _log(broker: Broker, name: str, number: int) -> ServedLog:
    log = broker.catalog.log(name, number)
    if log is None:
        raise RefusedError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}")
    return log


def _find(request: Any, log: ServedLog, one: Any) -> Values:
    target = one.timestamp
    if target < 0 and request.__version__ < _FIRST_VERSIONS.get(target, _NEVER):
        raise RefusedError(Code.UNSUPPORTED_VERSION, f"timestamp {target} needs a later version")
    ends = log.ends
    committed = getattr(request, "isolation_level", 0) == 1
    limit = ends.last_stable if committed else ends.high_watermark
    found: tuple[int, int, int] | None = None  # offset, timestamp, leader epoch
    match target:
        case OffsetTarget.LATEST:
            found = (limit, -1, log.leader_epoch)
        case OffsetTarget.EARLIEST | OffsetTarget.EARLIEST_LOCAL:
            found = (ends.log_start, -1, epoch_at(log, ends.log_start))
        case OffsetTarget.LATEST_TIERED | OffsetTarget.EARLIEST_PENDING_UPLOAD:
            found = (-1, -1, -1)
        case _ if target >= 0 or target == OffsetTarget.MAX_TIMESTAMP:
            hit = log.find_time(target)
            if hit is not None and hit.offset < limit:
                found = (hit.offset, hit.timestamp, epoch_at(log, hit.offset))
    offset, timestamp, epoch = found or (-1, -1, -1)
    return {
        "partition_index": one.partition_index,
        "error_code": Code.NONE,
        "offset": offset,
        "timestamp": timestamp,
        "leader_epoch": epoch,
    }


def offset_for_leader_epoch(request: Any, broker: Broker, client: Client) -> Values:
    """Where leader epochs end."""
    topics = []
    for topic in request.topics:
        answers = []
        for one in topic.partitions:
            try:
                log = _log(broker, topic.topic, one.partition)
                check_epoch(log, one.current_leader_epoch)
                end = log.epoch_end(one.leader_epoch)
                answers.append(
                    {
                        "partition": one.partition,
                        "error_code": Code.NONE,
                        "leader_epoch": end.epoch,
                        "end_offset": end.end_offset,
                    }
                )
            except (TidelogError, RefusedError, OSError) as error:
                answers.append(
                    {
                        "partition": one.partition,
                        "error_code": code_of(error),
                        "leader_epoch": -1,
                        "end_offset": -1,
                    }
                )
        topics.append({"topic": topic.topic, "partitions": answers})
    return {"topics": topics}


async def delete_records(request: Any, broker: Broker, client: Client) -> Values:
    """Move log starts up; -1 stands for the high watermark."""

    def delete() -> list[Values]:
        return [
            {"name": topic.name, "partitions": [_delete(broker, topic.name, one) for one in topic.partitions]}
            for topic in request.topics
        ]

    return {"topics": await broker.in_thread(delete)}


def _delete(broker: Broker, name: str, one: Any) -> Values:
    try:
        log = _log(broker, name, one.partition_index)
        if not isinstance(log, HeldLog):
            raise RefusedError(Code.TOPIC_AUTHORIZATION_FAILED, "this broker serves its roots read-only")
        if is_internal(name):
            raise RefusedError(
                Code.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {name}"
            )
        if not log.partition.log.config.delete and log.partition.log.config.compact:
            raise RefusedError(Code.POLICY_VIOLATION, f"{name} is compacted, and its records are not deleted")
        before = log.ends.high_watermark if one.offset == -1 else one.offset
        if not 0 <= before <= log.ends.high_watermark:
            raise RefusedError(Code.OFFSET_OUT_OF_RANGE, f"offset {before} is not in {log.topic_partition}")
        log.partition.delete_records(before)
        low = log.partition.log_start_offset
        return {"partition_index": one.partition_index, "low_watermark": low, "error_code": Code.NONE}
    except (TidelogError, RefusedError, OSError) as error:
        return {"partition_index": one.partition_index, "low_watermark": -1, "error_code": code_of(error)}
