"""What is to become of batches: the decision per batch, of facts alone.

| batch | its records | the batch, when no record is left |
|---|---|---|
| data of an aborted transaction | all go | see below |
| marker whose data is gone and whose delete horizon has come | goes | see below |
| other marker | stays; gets a delete horizon if its data is gone | |
| other data | record by record: `kernels.cleaning` | see below |

Without records a batch goes, but for two kinds, whose headers stay: the last batch of a producer that the log
remembers (it holds the last sequence number, or the epoch where the producer has only a marker), and the last
batch of the part that is cleaned (so that its offset is not forgotten).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tidelog.log.producers.sequences import ProducerState
from tidelog.records.batches import BatchTable

__all__ = ["ActiveProducers", "BatchRules", "batch_flags"]

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

_DELETE, _RETAIN_EMPTY, _DISCARD, _KEEP_ALL, _MARKER, _LEGACY_DELETES = 1, 2, 4, 8, 16, 32
"""The marks of kernels/cleaning.py."""


class ActiveProducers(NamedTuple):
    """The producers that the log remembers, by id; their last data offsets (-1: only a marker) and epochs."""

    producer_ids: Int64s
    last_data_offsets: Int64s
    epochs: Int64s

    @classmethod
    def of(cls, producers: Mapping[int, ProducerState]) -> Self:
        """From a log's `active_producers`."""
        ordered = [producers[producer] for producer in sorted(producers)]
        fields = [[s.producer_id, s.last_data_offset, s.producer_epoch] for s in ordered]
        table = np.array(fields, dtype=np.int64).reshape(-1, 3)
        return cls(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())

    def has_last(self, table: BatchTable) -> npt.NDArray[np.bool_]:
        """Which batches are the last of their producer."""
        if not len(self.producer_ids):
            return np.zeros(len(table), dtype=np.bool_)
        places = np.minimum(np.searchsorted(self.producer_ids, table.producer_id), len(self.producer_ids) - 1)
        known = (self.producer_ids[places] == table.producer_id) & (table.producer_id >= 0)
        last = self.last_data_offsets[places]
        has_epoch = table.is_control & (table.producer_epoch == self.epochs[places])
        found: npt.NDArray[np.bool_] = known & np.where(last >= 0, table.last_offset == last, has_epoch)
        return found


@dataclass(frozen=True, slots=True)
class BatchRules:
    """What the decisions of one round go by; all of it can be shipped."""

    now_ms: int
    delete_retention_ms: int
    upper_bound: int
    """The first offset that is not to be cleaned."""
    producers: ActiveProducers


def batch_flags(
    table: BatchTable, gone: npt.NDArray[np.bool_], rules: BatchRules, *, keep_legacy_deletes: bool
) -> Flags:
    """The marks of each batch. `gone` are aborted data and markers without data (`aborted`)."""
    control = table.is_control
    retain = rules.producers.has_last(table) | (table.last_offset + 1 == rules.upper_bound)
    flags = np.zeros(len(table), dtype=np.uint8)
    flags[retain] = _RETAIN_EMPTY
    if keep_legacy_deletes:
        flags |= _LEGACY_DELETES
    if control.any() or gone.any():
        due = table.has_delete_horizon & (table.base_timestamp <= rules.now_ms)
        discard = gone & (~control | due)
        flags[discard & ~retain] |= _DELETE
        flags[discard] |= _DISCARD
        flags[control] |= _KEEP_ALL
        flags[control & gone] |= _MARKER
    return flags
