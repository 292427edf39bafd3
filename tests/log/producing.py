"""Batches and markers of producers, and a state that takes them."""

from __future__ import annotations

from tests.log.crafting import CONTROL, TRANSACTIONAL, table
from tidelog.log.append.info import AppendOrigin
from tidelog.log.producers.producers import ProducerStateManager, ProducerUpdate
from tidelog.log.producers.transactions import TxnMarker

COMMIT = TxnMarker(is_abort=False, coordinator_epoch=0, timestamp=1000)
ABORT = TxnMarker(is_abort=True, coordinator_epoch=0, timestamp=1000)


def data(
    offset: int, *, pid: int = 1, epoch: int = 0, sequence: int = 0, count: int = 1, txn: bool = False
) -> dict[str, int]:
    return {
        "base_offset": offset,
        "producer_id": pid,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "count": count,
        "attributes": TRANSACTIONAL if txn else 0,
    }


def append(
    manager: ProducerStateManager, *rows: dict[str, int], origin: AppendOrigin = AppendOrigin.CLIENT
) -> ProducerUpdate:
    update = manager.prepare(table(*rows), origin, markers={}, segment_base_offset=0, position=1000)
    manager.commit(update)
    return update


def end(
    manager: ProducerStateManager,
    offset: int,
    marker: TxnMarker = COMMIT,
    *,
    pid: int = 1,
    epoch: int = 0,
    version: int = 0,
) -> ProducerUpdate:
    row = {
        "base_offset": offset,
        "producer_id": pid,
        "producer_epoch": epoch,
        "attributes": CONTROL | TRANSACTIONAL,
    }
    coordinator = AppendOrigin.COORDINATOR
    update = manager.prepare(table(row), coordinator, markers={0: marker}, transaction_version=version)
    manager.commit(update)
    return update
