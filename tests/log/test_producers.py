"""The state of producers: Kafka's own logs and verdicts first, then each rule by itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from tests.golden import GOLDEN
from tests.log import answers, questions
from tests.log.crafting import CONTROL, TRANSACTIONAL, table
from tests.oracle import Oracle
from tidelog.errors import (
    InvalidInputError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TidelogError,
    TransactionCoordinatorFencedError,
)
from tidelog.log.appends import AppendOrigin
from tidelog.log.markers import read_markers
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers import ProducerStateManager, ProducerUpdate
from tidelog.log.snapshots import encode_snapshot
from tidelog.log.transactions import TxnMarker
from tidelog.records import BatchTable, scan_batches

COMMIT = TxnMarker(is_abort=False, coordinator_epoch=0, timestamp=1000)
ABORT = TxnMarker(is_abort=True, coordinator_epoch=0, timestamp=1000)

NEVER_COMPACTED = ("none", "multi", "outoforder", "zstd", "appendtime", "txn", "unicode.topic_name-with-dash")


# What Kafka wrote


@pytest.mark.parametrize("topic", NEVER_COMPACTED)
def test_a_log_leads_to_the_snapshots_and_aborted_transactions_kafka_wrote(topic: str) -> None:
    directory = GOLDEN / "clean" / f"golden-{topic}-0"
    manager = ProducerStateManager()
    compared = 0
    for log in sorted(directory.glob("*.log")):
        compared += compare_snapshot(manager, directory / f"{log.stem}.snapshot")
        data = log.read_bytes()
        if not data:
            continue
        batches = scan_batches(data).require()
        completed = manager.load(batches, read_markers(data, batches))
        aborted = b"".join(
            b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (t.producer_id, *t[1:3], t[4]))
            for t in completed
            if t.is_aborted
        )
        index = log.with_suffix(".txnindex")
        assert aborted == (index.read_bytes() if index.exists() else b"")
    final = directory / f"{manager.map_end_offset:020}.snapshot"
    if topic != "none":  # written again by Kafka after its producer had expired
        compared += compare_snapshot(manager, final)
    assert compared >= 1


def compare_snapshot(manager: ProducerStateManager, path: Any) -> int:
    snapshot = manager.take_snapshot()
    if not path.exists():
        return 0
    assert snapshot is not None
    assert (f"{snapshot.offset:020}", snapshot.data) == (path.stem, path.read_bytes())
    return 1


def test_the_open_transaction_of_a_kafka_log_is_found() -> None:
    manager = ProducerStateManager()
    for log in sorted((GOLDEN / "clean/golden-txn-0").glob("*.log")):
        data = log.read_bytes()
        batches = scan_batches(data).require()
        manager.load(batches, read_markers(data, batches))
    manager.on_high_watermark_updated(manager.map_end_offset)
    assert manager.first_undecided_offset == 1390
    assert manager.first_unstable_offset == LogOffsetMetadata(1390)


KAFKAS = {
    "OutOfOrderSequenceException": OutOfOrderSequenceError,
    "InvalidProducerEpochException": InvalidProducerEpochError,
    "InvalidTxnStateException": InvalidTxnStateError,
    "TransactionCoordinatorFencedException": TransactionCoordinatorFencedError,
    "IllegalArgumentException": InvalidInputError,
}


class Log:
    """A manager and its snapshot files, stepped as the oracle steps Kafka's."""

    def __init__(self, expiration_ms: int) -> None:
        self.manager = ProducerStateManager(producer_id_expiration_ms=expiration_ms)
        self.files: dict[int, bytes] = {}

    def take(self, step: Mapping[str, Any]) -> dict[str, Any]:
        manager = self.manager
        match step["do"]:
            case "data":
                return self._data(step)
            case "marker":
                return self._marker(step)
            case "high_watermark":
                manager.on_high_watermark_updated(step["offset"])
            case "log_start":
                manager.on_log_start_offset_incremented(step["offset"])
            case "expire":
                manager.remove_expired_producers(step["now"])
            case "snapshot":
                snapshot = manager.take_snapshot()
                if snapshot is not None:
                    self.files[snapshot.offset] = snapshot.data
                    manager.snapshot_written(snapshot.offset)
            case "truncate":
                reload = (step["start"], step["end"], step["now"], self.files.__getitem__)
                self._delete(manager.truncate_and_reload(*reload))
            case "truncate_fully":
                self._delete(manager.truncate_fully_and_start_at(step["offset"]))
        return {}

    def _delete(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self.files[offset]

    def _data(self, step: Mapping[str, Any]) -> dict[str, Any]:
        batches = table(
            {
                "base_offset": step["offset"],
                "count": step["count"],
                "producer_id": step["pid"],
                "producer_epoch": step["epoch"],
                "base_sequence": step["seq"],
                "max_timestamp": step["timestamp"],
                "attributes": TRANSACTIONAL if step["txn"] else 0,
            }
        )
        origin = AppendOrigin[step["origin"]]
        if origin is AppendOrigin.CLIENT:
            duplicate = self.manager.find_duplicates(batches).get(0)
            if duplicate is not None:
                return {"duplicate": [duplicate.first_offset, duplicate.last_offset, duplicate.timestamp]}
        self.manager.commit(self.manager.prepare(batches, origin, markers={}))
        return {}

    def _marker(self, step: Mapping[str, Any]) -> dict[str, Any]:
        batches = table(
            {
                "base_offset": step["offset"],
                "producer_id": step["pid"],
                "producer_epoch": step["epoch"],
                "attributes": TRANSACTIONAL | CONTROL,
            }
        )
        marker = TxnMarker(step["abort"], step["coordinator_epoch"], step["timestamp"])
        update = self.manager.prepare(
            batches,
            AppendOrigin[step["origin"]],
            markers={0: marker},
            transaction_version=step["version"],
        )
        self.manager.commit(update)
        return {"completed": list(update.completed[0][1:])} if update.completed else {}

    def tell(self) -> dict[str, Any]:
        manager = self.manager
        unstable, undecided = manager.first_unstable_offset, manager.first_undecided_offset
        return {
            "map_end": manager.map_end_offset,
            "unstable": -1 if unstable is None else unstable.message_offset,
            "undecided": -1 if undecided is None else undecided,
            "snapshots": list(manager.snapshot_offsets),
            "batches": {
                str(pid): [batch.last_offset for batch in state.batches]
                for pid, state in manager.producers.items()
            },
            "state": base64.b64encode(encode_snapshot(manager.producers.values())).decode(),
        }


def compare_with_kafka(request: dict[str, Any], kafkas: answers.Answers) -> None:
    log = Log(request["expiration_ms"])
    for number, (step, kafka) in enumerate(zip(request["steps"], kafkas, strict=True)):
        told = {}
        if kafka["error"] is None:
            told = log.take(step)
        else:
            with pytest.raises(KAFKAS[kafka["error"]]):
                log.take(step)
        told |= {"error": kafka["error"], **log.tell()}
        assert told == kafka, (number, step)
        assert sorted(log.files) == kafka["snapshots"]


@pytest.mark.parametrize("seed", range(answers.QUESTIONS["ProducerStates"][1]))
def test_states_are_kafkas_step_by_step(seed: int) -> None:
    compare_with_kafka(*answers.recorded("ProducerStates")[seed])


def test_states_are_kafkas_step_by_step_now(oracle: Oracle) -> None:
    for seed in range(2000, 2003):
        request = questions.producer_states(seed, 2000)
        compare_with_kafka(request, answers.ask(oracle, "ProducerStates", request))


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


# Snapshots


def snapshot_into(manager: ProducerStateManager, files: dict[int, bytes]) -> int:
    snapshot = manager.take_snapshot()
    assert snapshot is not None
    files[snapshot.offset] = snapshot.data
    manager.snapshot_written(snapshot.offset)
    return snapshot.offset


def test_a_snapshot_is_due_only_when_the_end_has_moved() -> None:
    manager = ProducerStateManager()
    assert manager.take_snapshot() is None
    append(manager, data(0))
    assert manager.take_snapshot() == manager.take_snapshot()
    manager.snapshot_written(1)
    assert manager.take_snapshot() is None
    manager.update_map_end_offset(2)
    assert manager.take_snapshot() is not None


def test_reload_skips_corrupt_snapshots_and_names_them() -> None:
    manager = ProducerStateManager()
    files: dict[int, bytes] = {}
    for i in range(3):
        append(manager, data(i, sequence=i))
        snapshot_into(manager, files)
    files[3] = files[3][:-1]
    files[2] = b"\0\1" + files[2][2:6] + b"\0\0\0\7" + files[2][10:]
    fresh = ProducerStateManager(snapshot_offsets=files)
    assert sorted(fresh.truncate_and_reload(0, 3, 2000, files.__getitem__)) == [2, 3]
    assert fresh.map_end_offset == 1
    assert fresh.producers[1].last_sequence == 0
    assert fresh.snapshot_offsets == (1,)


def test_reload_drops_expired_producers_but_not_open_transactions() -> None:
    manager = ProducerStateManager()
    files: dict[int, bytes] = {}
    append(manager, data(0))
    append(manager, data(1, pid=2, txn=True))
    snapshot_into(manager, files)
    fresh = ProducerStateManager(snapshot_offsets=files, producer_id_expiration_ms=10)
    assert fresh.truncate_and_reload(0, 5, 9999, files.__getitem__) == []
    assert sorted(fresh.producers) == [2]
    assert fresh.first_unstable_offset == LogOffsetMetadata(1)


def test_reload_without_a_snapshot_starts_empty_at_the_log_start() -> None:
    manager = ProducerStateManager(snapshot_offsets=[4, 50])
    append(manager, data(0, txn=True))
    assert manager.truncate_and_reload(7, 20, 0, {}.__getitem__) == [4, 50]
    assert manager.map_end_offset == 7
    assert manager.is_empty
    assert manager.first_unstable_offset is None


def test_reload_keeps_a_state_that_ends_there_already() -> None:
    manager = ProducerStateManager()
    append(manager, data(0))
    assert manager.truncate_and_reload(0, 1, 1 << 60, {}.__getitem__) == []
    assert sorted(manager.producers) == [1]


def test_snapshots_of_deleted_segments_are_forgotten() -> None:
    manager = ProducerStateManager(snapshot_offsets=[30, 10, 20, 40])
    assert manager.oldest_snapshot_offset == 10
    assert manager.latest_snapshot_offset == 40
    assert manager.remove_snapshot(20)
    assert not manager.remove_snapshot(20)
    assert manager.delete_snapshots_before(30) == [10]
    assert manager.remove_stray_snapshots([35, 10]) == [30]
    assert manager.snapshot_offsets == (40,)


def test_refusals_are_errors_of_the_tree() -> None:
    for error in KAFKAS.values():
        assert issubclass(error, TidelogError)
        assert issubclass(error, ValueError)
