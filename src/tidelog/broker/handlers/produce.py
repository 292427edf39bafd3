"""Produce: the batches of clients, appended as they are.

A partition's part of the request is one batch of the current format, checked by its header here and by the
log when it is appended (`log.append`). Nothing is decoded beyond that. With one replica, acks of 1 and of all
mean the same: the batch is in the log. As in Kafka, `min.insync.replicas` asks for no more than there are.
acks=0 has no response; where such an append fails, the connection is closed, so that the client notices.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from typing import Any

from tidelog.broker.catalog import HeldLog
from tidelog.broker.context import Answer, Broker, Client, Values
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.broker.handlers.metadata import is_internal
from tidelog.errors import (
    BadVarintError,
    CompressionError,
    CountMismatchError,
    RecordOverrunError,
    TidelogError,
)
from tidelog.manager.store.partition import Partition

__all__ = ["ConnectionLostError", "produce"]

_logger = logging.getLogger(__name__)

_ADMIN = "__admin_client"
_HEADER_BYTES = 61
_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_PRODUCER, _PRODUCER_AT = struct.Struct(">qh"), 43
_ZSTD, _CODEC_BITS, _TRANSACTIONAL = 4, 7, 16
_UNSOUND = (BadVarintError, RecordOverrunError, CountMismatchError, CompressionError)
"""Records that the client has made so: their checksum holds, and sending them again does not help."""
_WITHOUT_START = (Code.CORRUPT_MESSAGE, Code.MESSAGE_TOO_LARGE, Code.KAFKA_STORAGE_ERROR)
_FLUSHED_OFTEN = 1000
"""A log that is flushed after fewer records is appended to in a thread: the disk is slow."""


class ConnectionLostError(Exception):
    """The connection must be closed: there is no other way to tell the client."""


def produce(request: Any, broker: Broker, client: Client) -> Answer:
    """Append the batches of a request."""
    refused = _verify(request, broker)
    if _is_slow(request, broker):
        return _in_thread(request, broker, client, refused)
    return _answer(request, _append_all(request, broker, client, refused), broker)


async def _in_thread(request: Any, broker: Broker, client: Client, refused: _Refused) -> Values | None:
    done = await broker.in_thread(lambda: _append_all(request, broker, client, refused))
    return _answer(request, done, broker)


_Refused = Mapping[tuple[str, int], int]
"""Codes of partitions that are not appended to."""


def _verify(request: Any, broker: Broker) -> _Refused:
    """Ask the transactions' coordinator whether transactional batches may be appended.

    A producer whose transaction this log has open already need not be asked for again.
    """
    asked: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for topic in request.topic_data:
        name = ""
        for part in topic.partition_data:
            records = part.records
            if not records or len(records) < _HEADER_BYTES or not records[_ATTRIBUTES_AT] & _TRANSACTIONAL:
                continue
            name = name or _name(topic, broker)
            producer = _PRODUCER.unpack_from(records, _PRODUCER_AT)
            if not _has_begun(broker, name, part.index, *producer):
                asked.setdefault(producer, []).append((name, part.index))
    refused: dict[tuple[str, int], int] = {}
    for producer, partitions in asked.items():
        if request.transactional_id is None:
            refused |= dict.fromkeys(partitions, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        else:
            refused |= broker.verify(request.transactional_id, producer, partitions, request.__version__)
    return refused


def _has_begun(broker: Broker, name: str, number: int, producer_id: int, epoch: int) -> bool:
    log = broker.catalog.log(name, number)
    if not isinstance(log, HeldLog) or not log.is_online:
        return True  # there is nothing to append to, which is told later
    known = log.partition.log.producer(producer_id)
    return known is not None and known.txn_first_offset is not None and known.producer_epoch == epoch


_Done = list[tuple[Any, str, list[tuple[Partition | None, dict[str, Any]]]]]


def _append_all(request: Any, broker: Broker, client: Client, refused: _Refused) -> _Done:
    done: _Done = []
    for topic in request.topic_data:
        name = _name(topic, broker)
        parts = []
        for part in topic.partition_data:
            partition: Partition | None = None
            try:
                if refused and (name, part.index) in refused:
                    raise RefusedError(refused[name, part.index], "the transaction does not allow it")
                partition = _partition(request, broker, client, name, part)
                values = _append(partition, part)
            except (TidelogError, RefusedError, OSError) as error:
                values = _refused(part.index, error)
            parts.append((partition, values))
        done.append((topic, name, parts))
    return done


def _answer(request: Any, done: _Done, broker: Broker) -> Values | None:
    responses, failed = [], False
    for topic, name, parts in done:
        for partition, values in parts:
            failed |= values["error_code"] != Code.NONE
            if partition is not None and values["error_code"] == Code.NONE:
                broker.watchers.notify(partition.topic_partition)
        topic_id = getattr(topic, "topic_id", None)
        responses.append(
            {"name": name, "topic_id": topic_id, "partition_responses": [values for _, values in parts]}
        )
    if request.acks == 0:
        if failed:
            raise ConnectionLostError("a produce request with acks=0 has failed")
        return None
    return {"responses": responses}


def _name(topic: Any, broker: Broker) -> str:
    if hasattr(topic, "topic_id"):
        return broker.catalog.topic_name(topic.topic_id) or ""
    return str(topic.name)


def _is_slow(request: Any, broker: Broker) -> bool:
    for topic in request.topic_data:
        for part in topic.partition_data:
            log = broker.catalog.log(_name(topic, broker), part.index)
            if isinstance(log, HeldLog) and log.is_online:
                return log.partition.log.config.flush_messages < _FLUSHED_OFTEN
    return False


def _partition(request: Any, broker: Broker, client: Client, name: str, part: Any) -> Partition:
    """The partition to append to, once the request's rules are kept."""
    if request.acks not in (-1, 0, 1):
        raise RefusedError(Code.INVALID_REQUIRED_ACKS, f"acks={request.acks}; Kafka has -1, 0 and 1")
    if not name:
        raise RefusedError(Code.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    log = broker.catalog.log(name, part.index)
    if log is None:
        raise RefusedError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{part.index}")
    if not isinstance(log, HeldLog):
        raise RefusedError(Code.TOPIC_AUTHORIZATION_FAILED, "this broker serves its roots read-only")
    if is_internal(name) and client.client_id != _ADMIN:
        raise RefusedError(Code.INVALID_TOPIC_EXCEPTION, f"{name} is a broker's own topic")
    _check_batch(request.__version__, part.records)
    return log.partition


def _check_batch(version: int, records: bytes | None) -> None:
    """Refuse what is not one whole batch of the current format."""
    if records is None or len(records) < _HEADER_BYTES:
        raise RefusedError(Code.INVALID_RECORD, f"Produce version {version} takes a batch at least")
    if records[_MAGIC_AT] != 2:
        raise RefusedError(Code.INVALID_RECORD, f"Produce version {version} takes batches of magic 2 only")
    if version < 7 and records[_ATTRIBUTES_AT] & _CODEC_BITS == _ZSTD:
        raise RefusedError(Code.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {version} has no zstd")
    if int.from_bytes(records[8:12], "big") + 12 != len(records):
        raise RefusedError(Code.INVALID_RECORD, f"Produce version {version} takes exactly one batch")


def _append(partition: Partition, part: Any) -> dict[str, Any]:
    try:
        info = partition.append(part.records)
    except (TidelogError, OSError) as error:
        return _refused(part.index, error, partition)
    return {
        "index": part.index,
        "error_code": Code.NONE,
        "base_offset": info.first_offset,
        "log_append_time": info.log_append_time,
        "log_start_offset": info.log_start_offset,
    }


def _refused(index: int, error: Exception, partition: Partition | None = None) -> dict[str, Any]:
    """The answer to an append that failed; what `partition`'s log has refused comes with its start."""
    code = Code.INVALID_RECORD if isinstance(error, _UNSOUND) else code_of(error)
    if code in (Code.KAFKA_STORAGE_ERROR, Code.UNKNOWN_SERVER_ERROR):
        _logger.error("an append has failed: %s", error)
    return {
        "index": index,
        "error_code": code,
        "base_offset": -1,
        "log_append_time": -1,
        "log_start_offset": -1 if partition is None or code in _WITHOUT_START else partition.log_start_offset,
        "error_message": str(error),
        "record_errors": [
            {"batch_index": number, "batch_index_error_message": str(error)}
            for number in getattr(error, "records", ())
        ],
    }
