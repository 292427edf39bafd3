"""Runs of plain batches end as their batches do one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.crafting import TRANSACTIONAL, table
from tidelog.errors import TidelogError
from tidelog.log.append.info import AppendOrigin
from tidelog.log.producers.plain_runs import MIN_RUN, states_after
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.log.producers.sequences import BatchMetadata, ProducerState
from tidelog.records import BatchTable

LAST = (1 << 31) - 1


@st.composite
def histories(draw: st.DrawFn) -> BatchTable:
    """Batches of a few producers, nearly all in order."""
    nexts = {pid: draw(st.sampled_from([0, 5, LAST - 7])) for pid in (1, 2, 3)}
    epochs = dict.fromkeys(nexts, 1)
    rows = []
    offset = 0
    for pid in draw(
        st.lists(st.sampled_from(draw(st.sampled_from([[1], [1, 2], [1, 2, 3]]))), min_size=1, max_size=40)
    ):
        count = draw(st.integers(1, 3))
        slip = draw(st.sampled_from([0] * 40 + [1, -1]))
        epochs[pid] += draw(st.sampled_from([0] * 40 + [1, -1]))
        attributes = draw(st.sampled_from([0] * 60 + [TRANSACTIONAL]))
        sequence = (nexts[pid] + slip) & LAST
        row = {"base_offset": offset, "count": count, "producer_id": pid, "producer_epoch": epochs[pid]}
        rows.append({**row, "base_sequence": sequence, "attributes": attributes, "max_timestamp": offset + 7})
        nexts[pid] = (sequence + count) & LAST
        offset += count
    return table(*rows)


STATES = {
    1: ProducerState(1, 1, -1, 5, None, (BatchMetadata(4, 3, 0, 5),)),
    2: ProducerState(2, 1, 0, 5, 77, ()),
}


@given(histories(), st.sampled_from(AppendOrigin), st.booleans())
def test_a_run_ends_as_its_batches_one_by_one(rows: BatchTable, origin: AppendOrigin, known: bool) -> None:
    manager = ProducerStateManager()
    before = STATES if known else {}
    manager._load_states(before.values())
    at_once = states_after(rows.rows, before, origin)
    try:
        for row in rows:
            manager.commit(manager.prepare(row, origin, markers={}))
    except TidelogError:
        assert at_once is None
    else:
        if at_once is not None:
            assert {**before, **at_once} == dict(manager.producers)


def plain(count: int, **fields: int) -> BatchTable:
    rows = (
        {"base_offset": i, "base_sequence": i, "producer_id": 1, "producer_epoch": 0, **fields}
        for i in range(count)
    )
    return table(*rows)


@pytest.mark.parametrize("origin", AppendOrigin)
def test_a_sound_run_is_decided_at_once(origin: AppendOrigin) -> None:
    after = states_after(plain(100).rows, {}, origin)
    assert after is not None
    assert [batch.last_offset for batch in after[1].batches] == [95, 96, 97, 98, 99]


def test_producers_that_take_turns_are_told_apart() -> None:
    rows = plain(90).rows.copy()
    rows[:, 9] = np.tile([1, 2, 3], 30)
    rows[:, 11] = np.repeat(np.arange(30), 3)
    after = states_after(rows, {}, AppendOrigin.CLIENT)
    assert after is not None
    assert {pid: state.last_sequence for pid, state in after.items()} == {1: 29, 2: 29, 3: 29}
    assert after[2].last_data_offset == 88


def test_what_is_not_plain_is_left_to_the_single_look() -> None:
    assert states_after(plain(MIN_RUN, attributes=TRANSACTIONAL).rows, {}, AppendOrigin.REPLICATION) is None
    assert states_after(plain(MIN_RUN).rows, STATES, AppendOrigin.CLIENT) is None
    gap = plain(MIN_RUN)
    gap.base_sequence[5:] += 1
    assert states_after(gap.rows, {}, AppendOrigin.CLIENT) is None
    assert states_after(gap.rows, {}, AppendOrigin.REPLICATION) is not None
