"""The state of producers: many batches at once, and each rule by itself."""

from __future__ import annotations

import pytest

from tests.log import questions
from tests.log.crafting import CONTROL, TRANSACTIONAL, table
from tests.log.producing import ABORT, COMMIT, append, data, end
from tidelog.errors import (
    InvalidInputError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tidelog.log.append.info import AppendOrigin
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.log.producers.transactions import TxnMarker
from tidelog.records import BatchTable

# Many batches in one append


def random_rows(seed: int) -> tuple[BatchTable, dict[int, TxnMarker]]:
    """The batches of a random history that replication would take, as one table."""
    rows: list[dict[str, int]] = []
    markers = {}
    open_txns: set[int] = set()
    for step in questions.producer_states(seed, 200)["steps"]:
        if step["do"] not in ("data", "marker"):
            rows.append({"base_offset": rows[-1]["base_offset"] + 10 if rows else 0})
            continue
        pid = step["pid"]
        row = {"base_offset": rows[-1]["base_offset"] + 10 if rows else 0, "producer_id": pid}
        row |= {"producer_epoch": step["epoch"], "max_timestamp": step["timestamp"]}
        if step["do"] == "marker":
            markers[len(rows)] = TxnMarker(step["abort"], step["coordinator_epoch"], step["timestamp"])
            row["attributes"] = TRANSACTIONAL | CONTROL
            open_txns.discard(pid)
        else:
            transactional = pid in open_txns or step["txn"]
            if transactional:
                open_txns.add(pid)
            row |= {"count": step["count"], "base_sequence": step["seq"]}
            row["attributes"] = TRANSACTIONAL if transactional else 0
        rows.append(row)
    return table(*rows), markers


@pytest.mark.parametrize("seed", range(5))
def test_many_batches_at_once_are_as_many_appends(seed: int) -> None:
    batches, markers = random_rows(seed)
    at_once, one_by_one = ProducerStateManager(), ProducerStateManager()
    completed = list(at_once.load(batches, markers))
    single = []
    for i, batch in enumerate(batches):
        single += one_by_one.load(batch, {0: markers[i]} if i in markers else {})
    assert completed == single
    assert at_once.producers == one_by_one.producers
    assert at_once.first_unstable_offset == one_by_one.first_unstable_offset
    assert at_once.ongoing_transactions == one_by_one.ongoing_transactions
    assert at_once.map_end_offset == one_by_one.map_end_offset


def picture(manager: ProducerStateManager) -> object:
    return (
        dict(manager.producers),
        manager.ongoing_transactions,
        manager.first_unstable_offset,
        manager.map_end_offset,
    )


def test_a_refused_append_changes_nothing() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, sequence=0, txn=True))
    before = picture(manager)
    rows = [data(1, sequence=1, txn=True), data(2, pid=2, txn=True), data(3, sequence=7, txn=True)]
    with pytest.raises(OutOfOrderSequenceError):
        manager.prepare(table(*rows), AppendOrigin.CLIENT, markers={})
    assert picture(manager) == before
    manager.prepare(table(*rows[:2]), AppendOrigin.CLIENT, markers={})
    assert picture(manager) == before


def test_batches_without_producer_change_only_the_end() -> None:
    manager = ProducerStateManager()
    update = manager.prepare(table({"base_offset": 5, "count": 3}), AppendOrigin.CLIENT, markers={})
    assert (update.end_offset, *map(list, update[1:])) == (8, [], [], [])
    manager.commit(update)
    assert manager.is_empty
    assert manager.map_end_offset == 8


def test_control_batches_without_producer_are_passed_over() -> None:
    manager = ProducerStateManager()
    manager.load(table({"attributes": CONTROL}), {})
    assert manager.is_empty


def test_an_emptied_control_batch_leaves_the_transaction_open() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, txn=True))
    manager.load(
        table({"base_offset": 1, "attributes": CONTROL | TRANSACTIONAL, "producer_id": 1, "count": 0}), {}
    )
    assert manager.first_undecided_offset == 0
    manager.load(
        table({"base_offset": 2, "attributes": CONTROL | TRANSACTIONAL, "producer_id": 9, "count": 0}), {}
    )
    assert manager.producers[9].producer_epoch == -1


# Single rules


def test_the_newest_five_batches_are_known_again() -> None:
    manager = ProducerStateManager()
    for i in range(7):
        append(manager, data(10 * i, sequence=2 * i, count=2))
    for i in range(7):
        found = manager.find_duplicates(table({}, data(0, sequence=2 * i, count=2)))
        assert {row: (kept.first_offset, kept.last_offset) for row, kept in found.items()} == (
            {1: (10 * i, 10 * i + 1)} if i >= 2 else {}
        )
    assert not manager.find_duplicates(table(data(0, sequence=12, count=1)))
    assert not manager.find_duplicates(table(data(0, sequence=12, count=2, epoch=1)))


@pytest.mark.parametrize(
    ("last", "following", "taken"),
    [
        (4, 5, True),
        (4, 4, False),
        (4, 6, False),
        (4, 0, False),
        ((1 << 31) - 1, 0, True),
        ((1 << 31) - 1, 1, False),
    ],
)
def test_a_sequence_follows_the_last_one(last: int, following: int, taken: bool) -> None:
    manager = ProducerStateManager()
    append(manager, data(0, sequence=last))
    if taken:
        append(manager, data(1, sequence=following))
        assert manager.producers[1].last_sequence == following
    else:
        with pytest.raises(OutOfOrderSequenceError):
            append(manager, data(1, sequence=following))


def test_a_batch_may_run_over_the_largest_sequence() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, sequence=(1 << 31) - 2, count=5))
    assert manager.producers[1].last_sequence == 2
    assert manager.producers[1].batches[0].first_sequence == (1 << 31) - 2
    assert 0 in manager.find_duplicates(table(data(9, sequence=(1 << 31) - 2, count=5)))


def test_only_clients_have_their_sequences_checked() -> None:
    for origin in AppendOrigin:
        manager = ProducerStateManager()
        append(manager, data(0, sequence=0))
        if origin is AppendOrigin.CLIENT:
            with pytest.raises(OutOfOrderSequenceError):
                append(manager, data(1, sequence=9), origin=origin)
        else:
            append(manager, data(1, sequence=9), origin=origin)


def test_only_replication_takes_old_epochs() -> None:
    for origin in AppendOrigin:
        manager = ProducerStateManager()
        append(manager, data(0, epoch=5))
        if origin is AppendOrigin.REPLICATION:
            append(manager, data(1, epoch=4), origin=origin)
            assert manager.producers[1].producer_epoch == 4
        else:
            with pytest.raises(InvalidProducerEpochError):
                append(manager, data(1, epoch=4), origin=origin)


def test_a_new_epoch_begins_at_zero_and_forgets_the_old_batches() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, sequence=0, count=3))
    with pytest.raises(OutOfOrderSequenceError, match="must be 0"):
        append(manager, data(3, epoch=1, sequence=3))
    append(manager, data(3, epoch=1, sequence=0))
    assert [batch.last_offset for batch in manager.producers[1].batches] == [3]


def test_an_unknown_producer_may_begin_anywhere() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, sequence=77, epoch=9))
    assert manager.producers[1].last_sequence == 77


def test_a_transaction_wants_transactional_batches_until_its_marker() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, sequence=0, txn=True))
    with pytest.raises(InvalidTxnStateError):
        append(manager, data(1, sequence=1))
    end(manager, 1)
    append(manager, data(2, sequence=1))
    assert manager.first_undecided_offset is None


def test_a_transaction_remembers_where_it_begins() -> None:
    manager = ProducerStateManager()
    update = manager.prepare(
        table({"size": 70}, data(1, txn=True), data(2, sequence=1, txn=True)),
        AppendOrigin.CLIENT,
        markers={},
        segment_base_offset=40,
        position=500,
    )
    assert [txn.first_offset for txn in update.started] == [LogOffsetMetadata(1, 40, 570)]


def test_markers_of_an_older_coordinator_are_refused() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, txn=True))
    end(manager, 1, COMMIT._replace(coordinator_epoch=4))
    with pytest.raises(TransactionCoordinatorFencedError):
        end(manager, 2, COMMIT._replace(coordinator_epoch=3))


@pytest.mark.parametrize(
    ("version", "epoch", "txn_open", "taken"),
    [
        (0, 4, True, False),
        (0, 5, True, True),
        (1, 5, True, True),
        (2, 5, True, False),
        (2, 6, True, True),
        (2, 5, False, True),
        (2, 4, False, False),
    ],
)
def test_marker_epochs_by_transaction_version(version: int, epoch: int, txn_open: bool, taken: bool) -> None:
    manager = ProducerStateManager()
    append(manager, data(0, epoch=5, txn=txn_open))
    if taken:
        end(manager, 1, epoch=epoch, version=version)
        assert manager.producers[1].producer_epoch == epoch
    else:
        with pytest.raises(InvalidProducerEpochError):
            end(manager, 1, epoch=epoch, version=version)


def test_a_coordinators_marker_needs_its_version() -> None:
    with pytest.raises(InvalidInputError, match="transaction version"):
        end(ProducerStateManager(), 0, version=-1)


def test_the_unstable_offset_waits_for_the_high_watermark() -> None:
    manager = ProducerStateManager()
    append(manager, data(0, txn=True))
    append(manager, data(1, pid=2, txn=True))
    assert end(manager, 2, ABORT).completed[0].last_stable_offset == 1
    assert manager.first_unstable_offset == LogOffsetMetadata(0, 0, 1000)
    manager.on_high_watermark_updated(2)
    assert manager.first_unstable_offset == LogOffsetMetadata(0, 0, 1000)
    manager.on_high_watermark_updated(3)
    assert manager.first_unstable_offset == LogOffsetMetadata(1, 0, 1000)
    assert end(manager, 3, COMMIT, pid=2).completed[0].last_stable_offset == 4
    manager.on_high_watermark_updated(4)
    assert manager.first_unstable_offset is None


def test_expiry_goes_by_the_clock_it_is_given_and_spares_open_transactions() -> None:
    manager = ProducerStateManager(producer_id_expiration_ms=100)
    append(manager, data(0))
    append(manager, data(1, pid=2, txn=True))
    manager.remove_expired_producers(1099)
    assert sorted(manager.producers) == [1, 2]
    manager.remove_expired_producers(1100)
    assert sorted(manager.producers) == [2]


def test_a_silent_transaction_is_late_after_its_timeout_and_five_minutes() -> None:
    manager = ProducerStateManager(max_transaction_timeout_ms=1000)
    append(manager, data(0, txn=True))
    assert not manager.has_late_transaction(1000 + 1000 + 300_000)
    assert manager.has_late_transaction(1000 + 1000 + 300_001)
    end(manager, 1)
    assert not manager.has_late_transaction(1 << 50)
