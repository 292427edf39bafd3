"""The decision per batch, and what is known of transactions while cleaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.log.crafting import CONTROL, TRANSACTIONAL, table
from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.filtering import ActiveProducers, BatchRules, batch_flags
from tidelog.errors import CorruptRecordError
from tidelog.index import AbortedTxn
from tidelog.kernels import cleaning
from tidelog.log.producers.sequences import BatchMetadata, ProducerState
from tidelog.log.producers.transactions import TxnMarker
from tidelog.protocol.control_records import ControlType, UnknownControl, control_fields
from tidelog.records import encode_batches, scan_batches
from tidelog.types import Codec

NOW = 1_000_000
HORIZON = 0x40
DELETE, EMPTY, DISCARD, ALL, MARKER, LEGACY = 1, 2, 4, 8, 16, 32
ABORT, COMMIT = TxnMarker(True, 0, 0), TxnMarker(False, 0, 0)


def flags(
    *, gone: bool = False, legacy: bool = False, producers: Any = (), base_timestamp: int = 0, **fields: int
) -> int:
    """The marks of one batch whose last offset is 9, in a part that ends at 100."""
    row = {"base_offset": 0, "last_offset": 9, "magic": 2, "producer_id": -1, "producer_epoch": -1} | fields
    one = table(row)
    one.rows[:, 7] = base_timestamp
    rules = BatchRules(NOW, 500, 100, ActiveProducers.of({each.producer_id: each for each in producers}))
    return int(batch_flags(one, np.array([gone]), rules, keep_legacy_deletes=legacy)[0])


def producer(last_offset: int | None, epoch: int = 3) -> ProducerState:
    batches = () if last_offset is None else (BatchMetadata(5, last_offset, 4, NOW),)
    return ProducerState(7, epoch, batches=batches)


def test_data_is_looked_at_unless_it_was_aborted() -> None:
    assert flags() == 0
    assert flags(legacy=True) == LEGACY
    assert flags(gone=True, attributes=TRANSACTIONAL, producer_id=7) == DELETE | DISCARD


@pytest.mark.parametrize(
    ("gone", "horizon", "expected"),
    [
        (False, None, ALL),
        (True, None, ALL | MARKER),
        (True, NOW + 1, ALL | MARKER),
        (True, NOW, ALL | MARKER | DELETE | DISCARD),
        (False, NOW, ALL),
    ],
)
def test_a_marker_goes_when_its_data_is_gone_and_its_horizon_has_come(
    gone: bool, horizon: int | None, expected: int
) -> None:
    attributes = TRANSACTIONAL | CONTROL | (0 if horizon is None else HORIZON)
    assert flags(gone=gone, attributes=attributes, base_timestamp=horizon or 0, producer_id=7) == expected


def test_the_last_batch_of_a_producer_stays_if_only_empty() -> None:
    last, other = producer(9), producer(8)
    assert flags(producer_id=7, producers=[last]) == EMPTY
    assert flags(producer_id=7, producers=[other]) == 0
    assert flags(producer_id=6, producers=[last]) == 0
    assert flags(producer_id=-1, producers=[ProducerState(-1, -1)]) == 0
    aborted = flags(gone=True, attributes=TRANSACTIONAL, producer_id=7, producers=[last])
    assert aborted == EMPTY | DISCARD


def test_the_marker_of_a_producer_without_data_stays_for_its_epoch() -> None:
    due: dict[str, Any] = {
        "attributes": TRANSACTIONAL | CONTROL | HORIZON,
        "base_timestamp": NOW,
        "producer_id": 7,
    }
    known = [producer(None)]
    expected = ALL | MARKER | DISCARD
    assert flags(gone=True, producer_epoch=3, producers=known, **due) == expected | EMPTY
    assert flags(gone=True, producer_epoch=2, producers=known, **due) == expected | DELETE


def test_the_last_batch_of_the_part_stays_if_only_empty() -> None:
    assert flags(last_offset=99) == EMPTY
    assert flags(last_offset=98) == 0


def test_the_marks_are_those_of_the_kernel() -> None:
    from tests.kernels_twin import twin

    plain = twin(cleaning.__name__.rpartition(".")[2])
    names = ("DELETE", "RETAIN_EMPTY", "DISCARD", "KEEP_ALL", "MARKER", "LEGACY_DELETES")
    assert [getattr(plain, name) for name in names] == [DELETE, EMPTY, DISCARD, ALL, MARKER, LEGACY]


def aborted(producer_id: int, first: int, last: int) -> AbortedTxn:
    return AbortedTxn(producer_id, first, last, last + 1)


def test_data_between_an_aborted_transactions_ends_is_aborted() -> None:
    txn = aborted(7, 10, 30)
    seen = CleanedTransactions([txn])
    assert not seen.read_data(7, 9)
    assert seen.read_data(7, 12)
    assert not seen.read_data(8, 15)
    assert not seen.read_marker(7, 30, ABORT)
    assert seen.take_kept() == [txn]
    assert seen.take_kept() == []
    assert not seen.read_data(7, 40)


def test_a_marker_without_data_can_go() -> None:
    seen = CleanedTransactions([aborted(7, 10, 30)])
    assert seen.read_marker(7, 30, ABORT)
    assert seen.take_kept() == []
    assert seen.read_marker(8, 31, COMMIT)
    assert not seen.read_data(8, 32)
    assert not seen.read_marker(8, 33, COMMIT)
    assert seen.read_marker(8, 34, COMMIT)
    assert seen.read_marker(9, 35, None)


def test_to_be_told_twice_is_harmless() -> None:
    """A transaction over several segments is in the answers for each of them."""
    txn, later = aborted(7, 10, 30), aborted(7, 40, 50)
    seen = CleanedTransactions([txn])
    assert seen.read_data(7, 12)
    seen.add([txn, later])
    assert seen.read_data(7, 20)
    assert not seen.read_marker(7, 30, ABORT)
    assert not seen.read_data(7, 35)
    assert seen.read_data(7, 45)
    assert not seen.read_marker(7, 50, ABORT)
    assert seen.take_kept() == [txn, later]


def control_batch(key: bytes, codec: Codec = Codec.NONE) -> bytes:
    columns = pa.record_batch({"key": [key], "value": [b"whatever"], "timestamp": pa.array([5], pa.int64())})
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "control": True}
    return bytes(encode_batches(columns, codec=codec, **fields))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("kind", [ControlType.LEADER_CHANGE, 99])
def test_control_records_that_end_no_transaction_stay(kind: int, codec: Codec) -> None:
    """As in Kafka's cleaner, whoever wrote them; an abort or commit in their place could go."""
    data = control_batch(control_fields(UnknownControl(kind, b""))[0], codec)
    assert CleanedTransactions().read(data, scan_batches(data).require()).tolist() == [False]
    commit = control_batch(control_fields(UnknownControl(ControlType.COMMIT, b""))[0], codec)
    assert CleanedTransactions().read(commit, scan_batches(commit).require()).tolist() == [True]


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\xff\xff\0\x63"])
def test_a_control_record_without_a_type_is_damage(key: bytes) -> None:
    data = control_batch(key)
    with pytest.raises(CorruptRecordError):
        CleanedTransactions().read(data, scan_batches(data).require())
