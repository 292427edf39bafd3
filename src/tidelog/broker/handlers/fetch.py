"""Fetch: batches as they are on disk, from many partitions at once.

1. The session says which partitions, in which order (`fetch_sessions`).
2. Each is read as far as the isolation level sees, in turn, until the response is full. The first batch comes
   whole however large it is, so that a consumer never stands still.
3. With fewer bytes than the client wants at least, and no error, the fetch waits until one of its partitions
   has grown, or the client's time is over, and reads again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.broker.catalog import ServedLog
from tidelog.broker.context import Answer, Broker, Client, Values
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.broker.fetch_sessions import FetchContext, Fetched, Wanted, WantedKey, wanted_of
from tidelog.errors import TidelogError
from tidelog.types import FetchIsolation, TopicPartition

__all__ = ["check_epoch", "fetch"]

_NOTHING_KNOWN = Fetched(-1, -1, -1)
_LOOK_AGAIN_S = 0.1
"""How often roots that are only looked at are read again while a fetch waits."""


class _Part(NamedTuple):
    key: WantedKey
    values: dict[str, Any]
    known: Fetched
    size: int
    failed: bool


def fetch(request: Any, broker: Broker, client: Client) -> Answer:
    """Read, and wait where there is too little."""
    wanted, forgotten = wanted_of(request)
    context = broker.sessions.begin(
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", -1),
        wanted,
        forgotten,
        by_id=request.__version__ >= 13,
    )
    if context.error:
        return {"error_code": context.error, "session_id": 0}
    seen = broker.watchers.notified
    parts = _read_all(request, broker, context)
    wait_s = request.max_wait.total_seconds()
    if wait_s <= 0 or _is_enough(request, parts):
        return _respond(context, parts)
    return _wait(request, broker, context, wait_s, seen)


async def _wait(request: Any, broker: Broker, context: FetchContext, wait_s: float, seen: int) -> Values:
    """Read again when something is appended; that may have happened since the first look."""
    partitions = list(_partitions(broker, context))
    now = broker.now_ms()
    deadline = now + wait_s * 1000
    while True:
        pause_s = (deadline - now) / 1000
        if broker.watchers.notified == seen:
            await broker.watchers.wait(
                partitions, pause_s if broker.catalog.is_writable else min(pause_s, _LOOK_AGAIN_S)
            )
        seen = broker.watchers.notified
        parts = _read_all(request, broker, context)
        now = broker.now_ms()
        if now >= deadline or _is_enough(request, parts):
            return _respond(context, parts)


def _partitions(broker: Broker, context: FetchContext) -> Iterable[TopicPartition]:
    for topic, number in context.partitions:
        name = topic if isinstance(topic, str) else broker.catalog.topic_name(topic)
        if name is not None:
            yield TopicPartition(name, number)


def _is_enough(request: Any, parts: list[_Part]) -> bool:
    if not parts or any(part.failed for part in parts):
        return True
    return sum(part.size for part in parts) >= int(request.min_bytes)


def _read_all(request: Any, broker: Broker, context: FetchContext) -> list[_Part]:
    left = min(getattr(request, "max_bytes", (1 << 31) - 1), broker.settings.fetch_max_bytes)
    committed = getattr(request, "isolation_level", 0) == 1
    isolation = FetchIsolation.TXN_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK
    parts: list[_Part] = []
    whole = True
    for key, wanted in context.partitions.items():
        try:
            log = _log(broker, *key)
            part = _read(key, log, wanted, min(left, wanted.max_bytes), isolation, whole)
        except (TidelogError, RefusedError, OSError) as error:
            part = _failed(key, error)
        parts.append(part)
        left = max(0, left - part.size)
        whole = whole and not part.size
    return parts


def _log(broker: Broker, topic: uuid.UUID | str, number: int) -> ServedLog:
    name = topic if isinstance(topic, str) else broker.catalog.topic_name(topic)
    if name is None:
        raise RefusedError(Code.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    log = broker.catalog.log(name, number)
    if log is None:
        raise RefusedError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}")
    return log


def check_epoch(log: ServedLog, asked: int) -> None:
    """Refuse a client that knows another leader epoch than the one in force."""
    if asked < 0:
        return
    current = log.leader_epoch
    if asked < current:
        raise RefusedError(Code.FENCED_LEADER_EPOCH, f"leader epoch {asked} is over, {current} is in force")
    if asked > current:
        raise RefusedError(Code.UNKNOWN_LEADER_EPOCH, f"leader epoch {asked} has not begun")


def _read(
    key: WantedKey, log: ServedLog, wanted: Wanted, max_bytes: int, isolation: FetchIsolation, whole: bool
) -> _Part:
    check_epoch(log, wanted.leader_epoch)
    diverging = _diverging(log, wanted)
    ends = log.ends
    if diverging is not None:
        known = Fetched(ends.high_watermark, ends.last_stable, ends.log_start)
        return _Part(key, {**_offsets(key, known), "diverging_epoch": diverging}, known, 0, True)
    found = log.read(wanted.offset, max(max_bytes, 0), isolation, whole)
    ends = log.ends
    known = Fetched(ends.high_watermark, ends.last_stable, ends.log_start)
    data = found.data
    if found.first_entry_incomplete:
        data = data[:0]
    values = _offsets(key, known)
    values["records"] = data
    if found.aborted_transactions is not None:
        values["aborted_transactions"] = [
            {"producer_id": txn.producer_id, "first_offset": txn.first_offset}
            for txn in found.aborted_transactions
        ]
    return _Part(key, values, known, len(data), False)


def _diverging(log: ServedLog, wanted: Wanted) -> Values | None:
    """Where the log has parted from what the client has read last, if it has."""
    if wanted.last_fetched_epoch < 0:
        return None
    end = log.epoch_end(wanted.last_fetched_epoch)
    if end.end_offset < 0 or end.epoch < 0:
        raise RefusedError(Code.OFFSET_OUT_OF_RANGE, "the epoch of the last record is not known here")
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.offset:
        return {"epoch": end.epoch, "end_offset": end.end_offset}
    return None


def _offsets(key: WantedKey, known: Fetched) -> dict[str, Any]:
    return {
        "partition_index": key[1],
        "error_code": Code.NONE,
        "high_watermark": known.high_watermark,
        "last_stable_offset": known.last_stable,
        "log_start_offset": known.log_start,
        "aborted_transactions": None,
        "records": b"",
    }


def _failed(key: WantedKey, error: Exception) -> _Part:
    values = {**_offsets(key, _NOTHING_KNOWN), "error_code": code_of(error)}
    return _Part(key, values, _NOTHING_KNOWN, 0, True)


def _respond(context: FetchContext, parts: list[_Part]) -> Values:
    topics: dict[uuid.UUID | str, list[Values]] = {}
    for key, values, known, size, failed in parts:
        if context.includes(key, known, size > 0, failed):
            topics.setdefault(key[0], []).append(values)
    return {
        "error_code": Code.NONE,
        "session_id": context.session_id,
        "responses": [
            {"topic": topic, "topic_id": topic, "partitions": partitions}
            for topic, partitions in topics.items()
        ],
    }
