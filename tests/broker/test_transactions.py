"""Transactions without sockets: scenarios, error codes, failures and restarts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.world import World
from tidelog.broker.effects import TRANSACTION_STATE, Effect, Partition
from tidelog.broker.settings import Settings, transaction_config
from tidelog.broker.transactions import TransactionConfig
from tidelog.broker.transactions.transaction import Transaction, TransactionState
from tidelog.protocol.coordinator_records import decode_transaction_record

T0: Partition = ("t", 0)


def world(version: int = 2) -> World:
    return World(options={"transaction_config": TransactionConfig(version=version)})


def init(at: World, name: str | None = "tx", version: int = 5, **more: Any) -> Any:
    return at.ask("init_producer_id", version, transactional_id=name, transaction_timeout=60_000, **more)


def add(at: World, producer: Any, *parts: Partition, version: int = 3) -> dict[Partition, ErrorCode]:
    topics: dict[str, list[int]] = {}
    for topic, number in parts:
        topics.setdefault(topic, []).append(number)
    answer = at.ask(
        "add_partitions_to_txn",
        version,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": name, "partitions": ids} for name, ids in topics.items()],
    )
    return {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


def produce(at: World, producer: Any, *parts: Partition, version: int = 12) -> dict[Partition, ErrorCode]:
    found: dict[Partition, ErrorCode] = {}

    def then(errors: Any) -> list[Effect]:
        found.update(errors)
        return []

    at.do(
        at.coordinators.verify_or_add(
            "tx",
            producer.producer_id,
            producer.producer_epoch,
            parts,
            produce_version=version,
            now_ms=at.now_ms,
            then=then,
        )
    )
    return found


def end(at: World, producer: Any, commit: bool = True, version: int = 5, epoch: int | None = None) -> Any:
    return at.ask(
        "end_txn",
        version,
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        committed=commit,
    )


def state(at: World) -> Transaction:
    return at.coordinators.transactions.transactions["tx"]


def statuses(at: World) -> list[str]:
    """The states that the log tells, one after the other."""
    found = []
    for records in at.logs.values():
        for record in records:
            told = decode_transaction_record(record.key or b"", record.value)
            assert told is not None
            assert told.value is not None
            found.append(TransactionState(told.value["transactionStatus"]).title)
    return found


def test_an_idempotent_producer_gets_an_id_at_once_and_no_id_is_given_twice() -> None:
    at = world()
    ids = [init(at, None).producer_id for _ in range(25)]
    assert ids == list(range(1000, 1025))
    at.restart()
    assert init(at, None).producer_id == 1030
    assert not at.logs


def test_a_transaction_of_version_2_goes_from_state_to_state() -> None:
    at = world()
    producer = init(at)
    assert (producer.error_code, producer.producer_id, producer.producer_epoch) == (0, 1000, 0)
    assert produce(at, producer, T0, ("u", 1)) == {}
    assert state(at).partitions == {T0, ("u", 1)}
    answer = end(at, producer)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 1000, 1)
    (marker,) = at.markers
    assert (marker.producer_id, marker.producer_epoch, marker.commit) == (1000, 1, True)
    assert (marker.partitions, marker.coordinator_epoch) == ((T0, ("u", 1)), 7)
    assert statuses(at) == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    # A retry of the client, which did not see the answer, gets the same one.
    again = end(at, producer)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 1000, 1)
    assert len(at.markers) == 1


def test_a_transaction_of_older_clients_keeps_its_epoch() -> None:
    at = world(version=0)
    producer = init(at, version=3)
    assert produce(at, producer, T0, version=9) == {T0: ErrorCode.invalid_txn_state}
    assert produce(at, producer, T0, version=11) == {T0: ErrorCode.transaction_abortable}
    assert add(at, producer, T0) == {T0: ErrorCode.none}
    assert produce(at, producer, T0, version=9) == {}
    assert end(at, producer, commit=False, version=3).error_code == 0
    assert at.markers[0].producer_epoch == 0
    assert statuses(at)[-2:] == ["PrepareAbort", "CompleteAbort"]
    assert end(at, producer, commit=False, version=3).error_code == 0
    assert end(at, producer, commit=True, version=3).error_code == ErrorCode.invalid_txn_state


BEGUN = {
    "Empty": lambda at, p: None,
    "Ongoing": lambda at, p: produce(at, p, T0),
    "CompleteCommit": lambda at, p: (produce(at, p, T0), end(at, p)),
    "CompleteAbort": lambda at, p: (produce(at, p, T0), end(at, p, False)),
}

VERSION_2 = [
    ("Empty", False, -1, "PRODUCER_FENCED"),
    ("Empty", False, 0, "bump"),
    ("Empty", True, -1, "PRODUCER_FENCED"),
    ("Empty", True, 0, "INVALID_TXN_STATE"),
    ("Ongoing", True, 0, "bump"),
    ("Ongoing", True, -1, "PRODUCER_FENCED"),
    ("Ongoing", True, 1, "PRODUCER_FENCED"),
    ("Ongoing", False, 0, "bump"),
    ("CompleteAbort", False, -1, "same"),
    ("CompleteAbort", False, 0, "bump"),
    ("CompleteAbort", True, -1, "INVALID_TXN_STATE"),
    ("CompleteAbort", True, 0, "INVALID_TXN_STATE"),
    ("CompleteCommit", False, -1, "INVALID_TXN_STATE"),
    ("CompleteCommit", False, 0, "bump"),
    ("CompleteCommit", True, -1, "same"),
    ("CompleteCommit", True, 0, "INVALID_TXN_STATE"),
    ("CompleteCommit", True, 5, "PRODUCER_FENCED"),
]


@pytest.mark.parametrize(("begun", "commit", "ahead", "outcome"), VERSION_2)
def test_the_end_in_version_2_by_state_and_epoch(begun: str, commit: bool, ahead: int, outcome: str) -> None:
    at = world()
    producer = init(at)
    BEGUN[begun](at, producer)
    assert state(at).state.title == begun
    before = state(at).producer_epoch
    answer = end(at, producer, commit, epoch=before + ahead)
    if outcome in ("bump", "same"):
        assert answer.error_code == 0
        assert answer.producer_epoch == before + (outcome == "bump")
    else:
        assert answer.error_code.name.upper() == outcome
        assert answer.producer_id == -1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"transaction_timeout": 0}, ErrorCode.invalid_transaction_timeout),
        ({"transaction_timeout": 900_001}, ErrorCode.invalid_transaction_timeout),
        ({"producer_id": 3}, ErrorCode.invalid_request),
        ({"producer_epoch": 3}, ErrorCode.invalid_request),
        ({"enable2_pc": True}, ErrorCode.transactional_id_authorization_failed),
        ({"keep_prepared_txn": True}, ErrorCode.unsupported_version),
    ],
)
def test_init_refuses(change: dict[str, Any], code: ErrorCode) -> None:
    asked = {"transactional_id": "tx", "transaction_timeout": 60_000} | change
    assert world().ask("init_producer_id", 6, **asked).error_code == code


def test_a_second_producer_fences_the_first() -> None:
    at = world()
    first, second = init(at), init(at)
    assert (first.producer_id, second.producer_id) == (1000, 1000)
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    assert produce(at, first, T0) == {T0: ErrorCode.invalid_producer_epoch}
    assert add(at, first, T0) == {T0: ErrorCode.producer_fenced}
    assert add(at, first, T0, version=1) == {T0: ErrorCode.invalid_producer_epoch}
    assert end(at, first).error_code == ErrorCode.producer_fenced
    assert init(at, version=4, producer_id=1000, producer_epoch=0).error_code == ErrorCode.producer_fenced
    assert (
        init(at, version=3, producer_id=1000, producer_epoch=0).error_code == ErrorCode.invalid_producer_epoch
    )
    assert init(at, version=4, producer_id=5, producer_epoch=0).error_code == ErrorCode.producer_fenced


def test_a_second_producer_aborts_what_the_first_has_begun() -> None:
    at = world()
    first = init(at)
    produce(at, first, T0)
    assert init(at).error_code == ErrorCode.concurrent_transactions
    assert [(marker.commit, marker.producer_epoch) for marker in at.markers] == [(False, 1)]
    second = init(at)
    assert (second.error_code, second.producer_epoch) == (0, 2)
    assert end(at, first).error_code == ErrorCode.producer_fenced


def test_a_producer_that_goes_on_after_an_error_gets_the_next_epoch_and_its_retry_the_same() -> None:
    at = world()
    first = init(at)
    mine = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
    assert init(at, **mine).producer_epoch == 1
    assert init(at, **mine).producer_epoch == 1


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    at = world()
    producer = init(at)
    produce(at, producer, T0)
    at.pass_time(60_000)
    assert state(at).state is TransactionState.ONGOING
    at.pass_time(1)
    assert state(at).state is TransactionState.COMPLETE_ABORT
    assert [marker.commit for marker in at.markers] == [False]
    # The producer's late commit is refused.
    assert end(at, producer).error_code == ErrorCode.invalid_txn_state
    assert produce(at, producer, T0) == {T0: ErrorCode.invalid_producer_epoch}


def test_time_goes_on_after_a_restart() -> None:
    at = world()
    produce(at, init(at), T0)
    at.pass_time(30_000)
    at.restart()
    at.pass_time(30_000)
    assert not at.markers
    at.pass_time(1)
    assert [marker.commit for marker in at.markers] == [False]


def test_what_was_decided_is_finished_after_a_restart() -> None:
    at = world()
    producer = init(at)
    produce(at, producer, T0)
    at.marker_errors[T0] = ErrorCode.kafka_storage_error
    assert end(at, producer).error_code == 0
    assert state(at).state is TransactionState.PREPARE_COMMIT
    assert init(at).error_code == ErrorCode.concurrent_transactions
    at.marker_errors.clear()
    at.restart()
    assert state(at).state is TransactionState.COMPLETE_COMMIT
    assert [marker.commit for marker in at.markers] == [True, True]


def test_markers_are_tried_again_and_a_deleted_partition_does_not_hold_them_up() -> None:
    at = world()
    producer = init(at)
    produce(at, producer, T0, ("u", 0))
    at.marker_errors = {T0: ErrorCode.kafka_storage_error, ("u", 0): ErrorCode.unknown_topic_or_partition}
    assert end(at, producer).error_code == 0
    assert state(at).state is TransactionState.PREPARE_COMMIT
    del at.marker_errors[T0]
    at.pass_time(1_000)
    assert state(at).state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("step", ["init", "add", "end"])
def test_a_failed_append_changes_nothing(step: str) -> None:
    at = world()
    producer = init(at)
    if step == "end":
        produce(at, producer, T0)
    before = state(at)
    at.failing[TRANSACTION_STATE] = ErrorCode.kafka_storage_error
    match step:
        case "init":
            assert init(at).error_code == ErrorCode.not_coordinator
        case "add":
            assert add(at, producer, T0) == {T0: ErrorCode.not_coordinator}
        case "end":
            assert end(at, producer).error_code == ErrorCode.not_coordinator
    assert state(at) == before
    assert not at.markers
    at.failing.clear()
    assert produce(at, producer, T0) == {}
    assert end(at, producer).error_code == 0


def test_a_failed_abort_of_a_late_transaction_is_tried_again() -> None:
    at = world()
    produce(at, init(at), T0)
    at.failing[TRANSACTION_STATE] = ErrorCode.kafka_storage_error
    at.pass_time(61_000)
    assert state(at).state is TransactionState.ONGOING
    at.failing.clear()
    at.pass_time(1_000)
    assert state(at).state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("version", [0, 2])
def test_epochs_that_run_out_bring_a_new_producer_id(version: int) -> None:
    at = world(version)
    init(at)
    at.coordinators.transactions._known["tx"] = _with_epoch(state(at), 0x7FFF - 2)
    producer = init(at)
    assert (producer.producer_id, producer.producer_epoch) == (1000, 0x7FFF - 1)
    produce(at, producer, T0)
    if version == 2:
        answer = end(at, producer)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 1001, 0)
        assert (at.markers[0].producer_id, at.markers[0].producer_epoch) == (1000, 0x7FFF)
        again = end(at, producer)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 1001, 0)
    else:
        assert end(at, producer, version=4).error_code == 0
        fresh = init(at)
        assert (fresh.producer_id, fresh.producer_epoch) == (1001, 0)


def _with_epoch(transaction: Transaction, epoch: int) -> Transaction:
    return dataclasses.replace(transaction, producer_epoch=epoch)


def test_partitions_that_are_not_there_are_refused_with_all_others() -> None:
    at = world()
    producer = init(at)
    assert add(at, producer, T0, ("t", 9), ("gone", 0)) == {
        T0: ErrorCode.operation_not_attempted,
        ("t", 9): ErrorCode.unknown_topic_or_partition,
        ("gone", 0): ErrorCode.unknown_topic_or_partition,
    }


def test_a_batch_of_transactions_is_verified_and_added() -> None:
    at = world()
    producer = init(at)
    one = {"producer_id": 1000, "producer_epoch": 0, "topics": [{"name": "t", "partitions": [0]}]}
    answer = at.ask(
        "add_partitions_to_txn",
        5,
        transactions=[
            {"transactional_id": "tx", "verify_only": True, **one},
            {"transactional_id": "tx", **one},
            {"transactional_id": "tx", "verify_only": True, **one},
            {"transactional_id": "other", **one},
        ],
    )
    codes = [
        each.topic_results[0].results_by_partition[0].partition_error_code.name
        for each in answer.results_by_transaction
    ]
    assert codes == ["transaction_abortable", "none", "none", "invalid_producer_id_mapping"]
    assert producer.producer_epoch == 0


def test_a_batch_of_thousands_of_transactions_is_answered() -> None:
    at = world()
    one = {"producer_id": 1000, "producer_epoch": 0, "topics": [{"name": "t", "partitions": [0]}]}
    asked = [{"transactional_id": f"none-{n}", "verify_only": n % 2 == 0, **one} for n in range(3000)]
    answer = at.ask("add_partitions_to_txn", 5, transactions=asked)
    assert [each.transactional_id for each in answer.results_by_transaction] == [
        each["transactional_id"] for each in asked
    ]


def test_transactions_are_described_and_listed() -> None:
    at = world()
    producer = init(at)
    produce(at, producer, T0, ("t", 2))
    init(at, "other")
    found = at.ask("describe_transactions", 0, transactional_ids=["tx", "none", ""]).transaction_states
    assert [each.error_code.name for each in found] == [
        "none",
        "transactional_id_not_found",
        "invalid_request",
    ]
    assert (found[0].transaction_state, found[0].producer_id) == ("Ongoing", 1000)
    assert [(topic.topic, topic.partitions) for topic in found[0].topics] == [("t", (0, 2))]

    def listed(version: int = 2, **filters: Any) -> list[str]:
        answer = at.ask("list_transactions", version, **filters)
        assert answer.error_code == 0
        return [each.transactional_id for each in answer.transaction_states]

    assert listed(0) == ["tx", "other"]
    assert listed(state_filters=["Ongoing", "Weird"]) == ["tx"]
    assert at.ask("list_transactions", 0, state_filters=["Weird"]).unknown_state_filters == ("Weird",)
    assert listed(producer_id_filters=[1001]) == ["other"]
    assert listed(transactional_id_pattern="t.") == ["tx"]
    assert listed(duration_filter=10_000, state_filters=["Ongoing"]) == []
    at.now_ms += 10_001
    assert listed(duration_filter=10_000, state_filters=["Ongoing"]) == ["tx"]
    answer = at.ask("list_transactions", 2, transactional_id_pattern="(")
    assert answer.error_code == ErrorCode.invalid_regular_expression


def test_ids_that_nobody_uses_are_forgotten_also_in_the_log() -> None:
    at = world()
    init(at)
    at.pass_time(604_800_000 + 3_600_000)
    assert "tx" not in at.coordinators.transactions.transactions
    at.restart()
    assert "tx" not in at.coordinators.transactions.transactions


def test_markers_that_an_admin_asks_for_are_written() -> None:
    at = world()
    at.marker_errors[("t", 1)] = ErrorCode.unknown_topic_or_partition
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    marker = {"producer_id": 9, "producer_epoch": 1, "transaction_result": False, "coordinator_epoch": -1}
    answer = at.ask("write_txn_markers", 1, markers=[{**marker, "topics": topics}])
    (told,) = answer.markers
    assert [(each.partition_index, each.error_code) for each in told.topics[0].partitions] == [
        (0, ErrorCode.none),
        (1, ErrorCode.unknown_topic_or_partition),
    ]


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_everything_is_this_broker(version: int) -> None:
    at = world()
    keys: dict[str, Any] = {"coordinator_keys": ["a", "b"]} if version >= 4 else {"key": "a"}
    answer = at.ask("find_coordinator", version, key_type=0, **keys)
    told = answer.coordinators if version >= 4 else [answer]
    assert [(each.node_id, each.host, each.port, each.error_code) for each in told] == [
        (0, "localhost", 9092, 0)
    ] * len(told)


def test_the_configuration_says_when_expired_ids_are_looked_for() -> None:
    given = {
        "transactional.id.expiration.ms": 5000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 700,
    }
    config = transaction_config(Settings.from_properties(given))
    assert (config.id_expiration_ms, config.cleanup_interval_ms) == (5000, 700)
