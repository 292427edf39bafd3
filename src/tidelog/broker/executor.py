"""Carrying out what coordinators decide: appends, markers, producer ids, replies, and the clock.

The coordinators' state is that of their topics. At the start it is read from there; from then on every change
is appended before anybody is told. The topics are made, compacted as Kafka's, when the first record comes.
All of this happens on the event loop, one event after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.catalog import HeldLog, ServedLog
from tidelog.broker.context import Broker, Client
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.effects import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Append,
    Caller,
    Effect,
    LoadedRecord,
    Node,
    Partition,
    Reply,
    Request,
    Tick,
    TopicsDeleted,
    WriteMarkers,
    carry_out,
)
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.broker.settings import group_config, transaction_config
from tidelog.errors import TidelogError, TopicExistsError, UnknownTopicOrPartitionError
from tidelog.log.append.info import AppendOrigin
from tidelog.log.read.fetching import to_arrow
from tidelog.protocol.control_records import EndTxnMarker
from tidelog.records.control_batches import encode_end_txn_marker
from tidelog.records.record import STORED_COLUMNS, Record, StoredRecord, encode_records, from_arrow
from tidelog.records.schema import Projection
from tidelog.types import FetchIsolation

__all__ = ["Executor", "Ticket", "read_records"]

_logger = logging.getLogger(__name__)

_READ_BYTES = 8 << 20
_BLOCK = 1000
_EVERYTHING = Projection.of(STORED_COLUMNS)
_OFFSETS_CONFIG = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": 100 << 20}
_TRANSACTIONS_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": 100 << 20,
    "min.insync.replicas": 1,
    "unclean.leader.election.enable": "false",
}
_COMMIT_TYPE = 1


class Ticket:
    """A place where a response is waited for."""

    __slots__ = ("_waiter", "response")

    def __init__(self) -> None:
        self.response: Any = None
        self._waiter: asyncio.Future[Any] | None = None

    def answer(self, response: Any) -> None:
        """The response is here."""
        self.response = response
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(response)

    async def wait(self) -> Any:
        """The response, when it comes; it may have come since the request was handed over."""
        if self.response is not None:
            return self.response
        self._waiter = asyncio.get_running_loop().create_future()
        return await self._waiter


class Executor:
    """The coordinators of a broker, at work."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at_ms = 0
        self._partitions = {
            CONSUMER_OFFSETS: broker.settings.offsets_topic_num_partitions,
            TRANSACTION_STATE: broker.settings.transaction_state_log_num_partitions,
        }
        for topic in self._partitions:
            self._partitions[topic] = broker.catalog.partition_count(topic) or self._partitions[topic]
        self.coordinators = Coordinators(
            broker.catalog,
            group_partitions=self._partitions[CONSUMER_OFFSETS],
            group_config=group_config(broker.settings),
            transaction_partitions=self._partitions[TRANSACTION_STATE],
            transaction_config=transaction_config(broker.settings),
        )

    # The start and the end

    def load(self) -> None:
        """Read the coordinators' topics; in any thread, before anything else."""
        for topic, load in (
            (CONSUMER_OFFSETS, self.coordinators.load_groups),
            (TRANSACTION_STATE, self.coordinators.load_transactions),
        ):
            found = self._broker.catalog.topic(topic)
            for number, log in found.logs.items() if found is not None else ():
                if log.is_online:
                    load(number, read_records(log))

    def start(self) -> None:
        """Go on with what was under way."""
        self._do(self.coordinators.resume(self._broker.now_ms()))

    def stop(self) -> None:
        """No more ticks."""
        if self._timer is not None:
            self._timer.cancel()

    # Events

    def ask(self, message: Any, client: Client) -> Ticket:
        """Hand a request to the coordinators; the ticket has the response now or later."""
        ticket = Ticket()
        self._do(
            self.coordinators.step(Request(ticket, self._caller(client), message), self._broker.now_ms())
        )
        return ticket

    def _caller(self, client: Client) -> Caller:
        here = self._broker.advertised[client.listener]
        node = Node(self._broker.catalog.node_id, here.host, here.port)
        return Caller(client.client_id, f"/{client.host}", client.principal, node)

    def topics_deleted(self, names: tuple[str, ...]) -> None:
        """What is committed for deleted topics goes too."""
        self._do(self.coordinators.step(TopicsDeleted(names), self._broker.now_ms()))

    def verify(
        self,
        transactional_id: str | None,
        producer: tuple[int, int],
        partitions: Sequence[Partition],
        produce_version: int,
    ) -> Mapping[Partition, ErrorCode]:
        """Whether a producer may write to partitions in its transaction; the errors of those it may not."""
        told: dict[Partition, ErrorCode] = {}

        def then(errors: Mapping[Partition, ErrorCode]) -> Sequence[Effect]:
            told.update(errors)
            return ()

        self._do(
            self.coordinators.verify_or_add(
                transactional_id,
                *producer,
                partitions,
                produce_version=produce_version,
                now_ms=self._broker.now_ms(),
                then=then,
            )
        )
        return told

    def _tick(self) -> None:
        self._timer = None
        self._do(self.coordinators.step(Tick(), self._broker.now_ms()))

    def _do(self, effects: Sequence[Effect]) -> None:
        carry_out(effects, self)

    # Effects

    def reply(self, effect: Reply) -> None:
        """Send a response."""
        effect.ticket.answer(effect.response)

    def wake(self, at_ms: int) -> None:
        """Tick at a time, or before: what follows from an append may have asked for an earlier tick."""
        if self._timer is not None:
            if self._wakes_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._wakes_at_ms = at_ms
        delay_s = max(0, at_ms - self._broker.now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def append(self, effect: Append) -> ErrorCode | None:
        """Append a batch; None once it counts, or the error."""
        if not self._broker.catalog.is_writable:
            # Groups of a root that is only read live in memory: consumers need one to read at all.
            refused = ErrorCode.transactional_id_authorization_failed
            return None if effect.topic == CONSUMER_OFFSETS else refused
        now_ms = self._broker.now_ms()
        at_ms = effect.timestamp_ms if effect.timestamp_ms >= 0 else now_ms
        records = [Record(one.value, one.key, timestamp=at_ms) for one in effect.records]
        with _told() as failure:
            log = self._log(effect.topic, effect.partition)
            batch = encode_records(
                records,
                producer_id=effect.producer_id,
                producer_epoch=effect.producer_epoch,
                base_sequence=0 if effect.producer_id >= 0 else -1,  # as Kafka's coordinators write it
                transactional=effect.producer_id >= 0,
            )
            log.partition.append(batch, origin=AppendOrigin.COORDINATOR)
            self._broker.watchers.notify(log.topic_partition)
        return failure[0] if failure else None

    def write_markers(self, effect: WriteMarkers) -> Mapping[Partition, ErrorCode]:
        """Append end-transaction markers; the errors of partitions that did not get theirs."""
        errors: dict[Partition, ErrorCode] = {}
        batch: bytes | None = None
        for topic, number in effect.partitions:
            with _told() as failure:
                log = self._existing(topic, number)
                batch = batch or self._marker(effect)
                log.partition.append(
                    batch,
                    origin=AppendOrigin.COORDINATOR,
                    transaction_version=effect.transaction_version,
                )
                self._broker.watchers.notify(log.topic_partition)
            if failure:
                errors[topic, number] = failure[0]
        return errors

    def _marker(self, effect: WriteMarkers) -> bytes:
        if effect.producer_id < 0 or effect.producer_epoch < 0:  # whatever a client may ask for
            raise RefusedError(Code.UNKNOWN_SERVER_ERROR, "a marker needs a producer id and an epoch")
        return encode_end_txn_marker(
            EndTxnMarker(effect.commit, effect.coordinator_epoch),
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            timestamp=self._broker.now_ms(),
        )

    def reserve_ids(self) -> tuple[int, int] | ErrorCode:
        """Reserve producer ids in the metadata."""
        with _told() as failure:
            return self._broker.catalog.store.reserve_producer_ids(_BLOCK), _BLOCK
        return failure[0]

    # Logs

    def _log(self, topic: str, number: int) -> HeldLog:
        """A partition of a coordinator's topic, which is made if it is not there."""
        if self._broker.catalog.topic(topic) is None:
            config = _OFFSETS_CONFIG if topic == CONSUMER_OFFSETS else _TRANSACTIONS_CONFIG
            with contextlib.suppress(TopicExistsError):
                self._broker.catalog.store.create_topic(topic, self._partitions[topic], config)
            self._broker.refresh()
        return self._existing(topic, number)

    def _existing(self, topic: str, number: int) -> HeldLog:
        log = self._broker.catalog.log(topic, number)
        if not isinstance(log, HeldLog):
            raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{number} to write to")
        return log


@contextlib.contextmanager
def _told() -> Iterator[list[ErrorCode]]:
    """Errors as codes: empty where all went well."""
    failure: list[ErrorCode] = []
    try:
        yield failure
    except (TidelogError, RefusedError, OSError) as error:
        _logger.warning("a coordinator's write has failed: %s", error)
        failure.append(ErrorCode(code_of(error)))


def read_records(log: ServedLog) -> Iterator[LoadedRecord]:
    """All records of a coordinator's partition, in order; markers tell how a transaction ended."""
    ends = log.ends
    at = ends.log_start
    while at < ends.log_end:
        fetched = log.read(at, _READ_BYTES, FetchIsolation.LOG_END, True)
        batches = fetched.batches()
        if not len(batches):
            return
        for record in from_arrow(to_arrow(fetched, at, log.topic_partition, _EVERYTHING)):
            yield _loaded(record)
        at = int(batches.last_offset[-1]) + 1


def _loaded(record: StoredRecord) -> LoadedRecord:
    commits = None
    if record.control and record.key is not None and len(record.key) >= 4:
        commits = int.from_bytes(record.key[2:4], "big") == _COMMIT_TYPE
    return LoadedRecord(
        record.key,
        record.value,
        record.producer_id,
        record.producer_epoch,
        record.transactional,
        commits,
        record.offset,
    )
