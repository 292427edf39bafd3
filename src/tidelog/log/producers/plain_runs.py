"""Long runs of plain batches: what `sequences` decides for one after the other, decided at once.

Nearly every batch of a log comes from an idempotent producer that follows the rules, outside transactions,
and of thousands of them only the newest five are kept. `states_after` answers for such an append at once:

1. no batch is transactional or control, and no producer has a transaction open;
2. each producer's batches are of one epoch, and its first one is taken by the rules;
3. for clients, each further one follows the one before it.

Where any of this does not hold it answers None, and the batches are looked at one by one, which also finds
the error and the batch to name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tidelog.errors import InvalidInputError
from tidelog.log.append.info import AppendOrigin
from tidelog.log.producers.sequences import KEPT_BATCHES, DataBatch, ProducerState
from tidelog.records.batches import Column

__all__ = ["MIN_RUN", "states_after"]

MIN_RUN = 16
"""Fewer batches are as quickly looked at one by one."""

Int64s = npt.NDArray[np.int64]

_IN_TRANSACTION = 0x30
_INT_MAX = (1 << 31) - 1


def states_after(
    rows: Int64s, producers: Mapping[int, ProducerState], origin: AppendOrigin
) -> dict[int, ProducerState] | None:
    """The new states after rows that all have a producer id; None if they must be looked at one by one."""
    if (rows[:, Column.ATTRIBUTES] & _IN_TRANSACTION).any():
        return None
    states = {}
    for producer_id, run in _by_producer(rows):
        state = producers.get(producer_id) or ProducerState(producer_id)
        after = _after_run(state, run, origin)
        if after is None:
            return None
        states[producer_id] = after
    return states


def _by_producer(rows: Int64s) -> Iterator[tuple[int, Int64s]]:
    ids = rows[:, Column.PRODUCER_ID]
    if (ids == ids[0]).all():
        yield int(ids[0]), rows
        return
    order = np.argsort(ids, kind="stable")
    cuts = np.flatnonzero(np.diff(ids[order])) + 1
    for part in np.split(order, cuts):
        yield int(ids[part[0]]), rows[part]


def _after_run(state: ProducerState, run: Int64s, origin: AppendOrigin) -> ProducerState | None:
    epochs = run[:, Column.PRODUCER_EPOCH]
    if state.txn_first_offset is not None or epochs[0] < state.producer_epoch or (epochs != epochs[0]).any():
        return None
    if origin is AppendOrigin.CLIENT and not _in_sequence(run):
        return None
    try:
        after = state.after_batch(_batch(run[0].tolist()), origin)
    except InvalidInputError:
        return None
    for row in run[1:][-KEPT_BATCHES:].tolist():
        after = after.after_batch(_batch(row), AppendOrigin.REPLICATION)
    return after


def _in_sequence(run: Int64s) -> bool:
    """Whether each batch follows the one before; 0 follows 2^31 - 1."""
    first = run[:, Column.BASE_SEQUENCE]
    last = first + (run[:, Column.LAST_OFFSET] - run[:, Column.BASE_OFFSET])
    return bool((first >= 0).all() and (first[1:] == ((last[:-1] + 1) & _INT_MAX)).all())


def _batch(row: list[int]) -> DataBatch:
    return DataBatch(
        row[Column.PRODUCER_EPOCH],
        row[Column.BASE_SEQUENCE],
        row[Column.BASE_OFFSET],
        row[Column.LAST_OFFSET],
        row[Column.MAX_TIMESTAMP],
        False,
    )
