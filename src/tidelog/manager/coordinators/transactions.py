"""Transactions as the disk has them: what coordinators wrote, and what each partition's log says.

coordinator   `__transaction_state`: the state of each transactional id (Ongoing, PrepareCommit, ...)
open          begun in a partition's log and not ended; a coordinator on these disks knows of it, or there
              is none on them
hanging       open in a partition's log, while the coordinator on these disks has no such transaction: nothing
              will end it, and it pins the last stable offset
aborted       ended by an abort marker, as the transaction indexes have it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelog.errors import TidelogError
from tidelog.manager.coordinators.folding import fold_partition
from tidelog.protocol.coordinator_records import decode_transaction_record
from tidelog.scanning.log_end import Transactions, aborted_transactions, salvaged_end
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.tasks import NO_END
from tidelog.types import TopicPartition

__all__ = [
    "TRANSACTIONS_TOPIC",
    "TRANSACTION_SCHEMA",
    "Coordinated",
    "TransactionRow",
    "coordinated_rows",
    "describe_transactions",
    "partition_rows",
    "read_coordinated",
]

TRANSACTIONS_TOPIC = "__transaction_state"
_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_RUNNING = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class Coordinated:
    """A transactional id as its coordinator last wrote it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    updated_ms: int
    partitions: frozenset[TopicPartition]

    @property
    def is_running(self) -> bool:
        """Whether it has a transaction that is not ended."""
        return self.state in _RUNNING


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transaction: of a coordinator, or of one partition's log."""

    state: str
    """open, hanging or aborted in a partition; of a coordinator its own word."""
    transactional_id: str | None
    producer_id: int
    producer_epoch: int | None
    topic: str | None
    partition: int | None
    first_offset: int | None
    last_offset: int | None
    """That of the marker; None if it is open."""
    updated_ms: int | None
    """When the producer last wrote, or the coordinator."""


TRANSACTION_SCHEMA = pa.schema(
    [
        pa.field("state", pa.string(), nullable=False),
        pa.field("transactional_id", pa.string()),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("updated_ms", pa.int64()),
    ]
)
"""The fields of a `TransactionRow` as columns."""


def read_coordinated(partition: Partition) -> list[Coordinated]:
    """The transactional ids of a partition of `__transaction_state`."""
    found = []
    for key, latest in fold_partition(partition).items():
        try:
            record = decode_transaction_record(key, latest.value)
        except TidelogError:
            continue  # a record that no version of Kafka wrote
        if record is None or record.value is None:
            continue
        value, status = record.value, record.value["transactionStatus"]
        found.append(
            Coordinated(
                record.key["transactionalId"],
                value["producerId"],
                value["producerEpoch"],
                _STATES[status] if 0 <= status < len(_STATES) else str(status),
                value["transactionTimeoutMs"],
                value["transactionStartTimestampMs"],
                value["transactionLastUpdateTimestampMs"],
                frozenset(
                    TopicPartition(each["topic"], number)
                    for each in value["transactionPartitions"] or ()
                    for number in each["partitionIds"]
                ),
            )
        )
    return sorted(found, key=lambda one: one.transactional_id)


def coordinated_rows(known: Iterable[Coordinated]) -> Iterator[TransactionRow]:
    """A row for each transactional id, and each partition of its transaction if it is not ended."""
    for one in known:
        for place in sorted(one.partitions) if one.is_running and one.partitions else (None,):
            yield TransactionRow(
                one.state,
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                None if place is None else place.topic,
                None if place is None else place.partition,
                None,
                None,
                one.updated_ms,
            )


def partition_rows(
    partition: Partition, known: Mapping[int, Coordinated] | None, *, aborted: bool = True
) -> list[TransactionRow]:
    """The transactions of a partition's log that are open, hanging or aborted.

    `known` are the coordinators' transactions by producer id; None if no coordinator's topic is on the disks.
    """
    return look_steadily(partition, lambda one: list(_partition_rows(one, known, aborted)))


def _partition_rows(
    partition: Partition, known: Mapping[int, Coordinated] | None, aborted: bool
) -> Iterator[TransactionRow]:
    name = partition.topic_partition
    transactions = Transactions()
    transactions.salvaged(partition, salvaged_end(partition)[0])
    for state in transactions.open_producers:
        owner = None if known is None else known.get(state.producer_id)
        runs = owner is not None and owner.is_running and name in owner.partitions
        yield TransactionRow(
            "open" if known is None or runs else "hanging",
            None if owner is None else owner.transactional_id,
            state.producer_id,
            state.producer_epoch,
            name.topic,
            name.partition,
            state.txn_first_offset,
            None,
            state.last_timestamp,
        )
    if not aborted:
        return
    for txn in aborted_transactions(partition, partition.log_start_offset, NO_END):
        owner = None if known is None else known.get(txn.producer_id)
        yield TransactionRow(
            "aborted",
            None if owner is None else owner.transactional_id,
            txn.producer_id,
            None,
            name.topic,
            name.partition,
            txn.first_offset,
            txn.last_offset,
            None,
        )


def describe_transactions(partitions: Sequence[Partition], *, aborted: bool = True) -> list[TransactionRow]:
    """All transactions: the coordinators' first, then those of each partition."""
    coordinators = [one for one in partitions if one.topic_partition.topic == TRANSACTIONS_TOPIC]
    known = [each for one in coordinators for each in read_coordinated(one)]
    by_producer = {one.producer_id: one for one in known} if coordinators else None
    rows = list(coordinated_rows(known))
    for one in partitions:
        if one.topic_partition.topic != TRANSACTIONS_TOPIC and not one.is_metadata_log:
            rows += partition_rows(one, by_producer, aborted=aborted)
    return rows
