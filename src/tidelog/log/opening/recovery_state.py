"""What a log learns of the batches of a segment that is recovered: leader epochs, producers, transactions."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.index import AbortedTxn
from tidelog.log.epochs import EpochFile
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.records.batches import BatchTable

__all__ = ["LogRecoveryState"]


class LogRecoveryState:
    """Takes in the batches of a segment that is recovered (`segment.RecoveryState`)."""

    def __init__(self, producers: ProducerStateManager, epochs: EpochFile) -> None:
        self._producers = producers
        self._epochs = epochs

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        """Note epochs and producers; the transactions that the batches abort."""
        markers = read_markers(buffer, batches)
        latest = self._epochs.cache.latest_epoch
        if int(batches.leader_epoch.max()) > (-1 if latest is None else latest):
            self._assign(batches)
        completed = self._producers.load(batches, markers)
        return [
            AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
            for txn in completed
            if txn.is_aborted
        ]

    def _assign(self, batches: BatchTable) -> None:
        for epoch, offset in zip(batches.leader_epoch.tolist(), batches.base_offset.tolist(), strict=True):
            latest = self._epochs.cache.latest_epoch
            if epoch >= 0 and (latest is None or epoch > latest):
                self._epochs.cache.assign(epoch, offset)
