"""The coordinators' records are those of Kafka's own classes, and what a stock broker wrote is taken up."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import uuid
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.members import Consumer, settle, settled
from tests.broker.test_offsets import begin, commit, commit_in, end
from tests.broker.world import Topics, World
from tests.oracle import Oracle
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.effects import CONSUMER_OFFSETS, TRANSACTION_STATE, LoadedRecord
from tidelog.broker.groups.metadata_hash import metadata_hash
from tidelog.protocol.coordinator_records import (
    decode_group_record,
    decode_transaction_record,
    encode_group_record,
    encode_transaction_record,
)
from tidelog.storage.metadata import format_id

GOLDEN = Path(__file__).parents[1] / "golden"


def busy_world() -> World:
    """One that has written every kind of record."""
    at, members = settled(2)
    at.topics.counts |= {CONSUMER_OFFSETS: 50, "logs": 3}
    members[0].commit(7)
    commit(at, {("t", 0): 3}, version=4, retention_time=1_000)
    producer = begin(at)
    commit_in(at, producer, {("t", 1): 5})
    end(at, producer)
    for name in ("a", "b"):
        said = {"instance_id": name, "rack_id": "r", "server_assignor": "range"}
        settle(Consumer(at, name, "t", "logs", group="c", **(said if name == "a" else {})))
    one = Consumer(at, "c", group="c", subscribed_topic_names=None, subscribed_topic_regex="lo.*")
    one.beat()
    one.beat()
    one.leave()
    return at


def written(at: World, topic: str) -> list[tuple[bytes, bytes | None]]:
    return [
        (record.key, record.value)
        for (name, _), records in at.logs.items()
        for record in records
        if name == topic and record.key is not None
    ]


def test_every_record_is_read_back_as_it_was_written() -> None:
    at = busy_world()
    kinds = set()
    for key, value in written(at, CONSUMER_OFFSETS):
        record = decode_group_record(key, value)
        assert record is not None
        kinds.add(record.kind)
        assert encode_group_record(record) == (key, value)
    assert kinds == {
        "OffsetCommit",
        "GroupMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupRegularExpression",
    }
    for key, value in written(at, TRANSACTION_STATE):
        transaction = decode_transaction_record(key, value)
        assert transaction is not None
        assert encode_transaction_record(transaction) == (key, value)


@pytest.mark.slow
def test_kafka_writes_the_same_bytes(oracle: Oracle) -> None:
    at = busy_world()
    groups = written(at, CONSUMER_OFFSETS)
    transactions = [value for _, value in written(at, TRANSACTION_STATE) if value is not None]
    assert len(groups) > 20
    assert len(transactions) > 3
    assert oracle.coordinator_records(groups, transactions) == (groups, transactions)


@pytest.mark.slow
def test_the_hash_of_topics_is_kafkas(oracle: Oracle) -> None:
    topics = Topics(t=3, logs=1, **{"grüße-\N{GRINNING FACE}": 12})
    told = [
        (name, format_id(topics.topic_id(name) or uuid.UUID(int=0)), count)
        for name, count in topics.counts.items()
    ]
    assert metadata_hash(topics.counts, topics) == oracle.metadata_hash(told)
    assert metadata_hash(["gone"], topics) == oracle.metadata_hash([]) == 0


# ---- what a stock broker wrote


@functools.cache
def loaded(path: Path) -> tuple[LoadedRecord, ...]:
    return tuple(_loaded(path))


def _loaded(path: Path) -> Iterator[LoadedRecord]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            told: dict[str, Any] = json.loads(line)
            key, value = (None if told[name] is None else b64decode(told[name]) for name in ("key", "value"))
            marker = key is not None and told["control"]
            yield LoadedRecord(
                key,
                value,
                told["producer_id"],
                told["producer_epoch"],
                told["transactional"],
                key[3] == 1 if marker and key is not None else None,
                told["offset"],
            )


def test_groups_and_offsets_of_a_stock_broker_are_taken_up() -> None:
    found = list(loaded(GOLDEN / "expected" / "__consumer_offsets-0.records.jsonl.gz"))
    at = World(options={"group_partitions": 1}, logs={(CONSUMER_OFFSETS, 0): found})
    at.restart()
    table = at.coordinators.groups.table
    expected: dict[tuple[str, int], int] = {}
    for record in found:
        told = decode_group_record(record.key or b"", record.value)
        assert told is not None
        assert encode_group_record(told) == (record.key, record.value)
        if told.kind == "OffsetCommit" and told.value is not None:
            expected[told.key["topic"], told.key["partition"]] = told.value["offset"]
    assert expected
    assert {part: commit.offset for part, commit in table.offsets.of("golden-group").items()} == expected
    group = table.groups["golden-group"]
    assert (group.kind, group.protocol_type) == ("Classic", "consumer")


def test_transactions_of_a_stock_broker_are_taken_up() -> None:
    found = list(loaded(Path(__file__).parent / "golden" / "__transaction_state-0.records.jsonl.gz"))
    at = World(options={"transaction_partitions": 1}, logs={(TRANSACTION_STATE, 0): found})
    at.restart()
    known = at.coordinators.transactions.transactions
    last: dict[str, int] = {}
    for record in found:
        told = decode_transaction_record(record.key or b"", record.value)
        assert told is not None
        assert encode_transaction_record(told) == (record.key, record.value)
        if told.value is not None:
            last[told.key["transactionalId"]] = told.value["producerEpoch"]
    assert {name: each.producer_epoch for name, each in known.items()} == last
    name = next(name for name, each in known.items() if each.state.may_expire)
    before = known[name].producer_epoch
    answer = at.ask("init_producer_id", 5, transactional_id=name, transaction_timeout=60_000)
    assert (answer.error_code, answer.producer_epoch) == (0, before + 1)


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, 200), byte=st.integers(0, 255), cut=st.booleans(), key=st.booleans(), data=st.data())
def test_a_damaged_record_is_skipped_and_the_others_count(
    at: int, byte: int, cut: bool, key: bool, data: st.DataObject
) -> None:
    found = list(loaded(GOLDEN / "expected" / "__consumer_offsets-0.records.jsonl.gz"))
    found += list(loaded(Path(__file__).parent / "golden" / "__transaction_state-0.records.jsonl.gz"))[:5]
    index = data.draw(st.integers(0, len(found) - 1))
    chosen = found[index]
    damaged = bytearray((chosen.key if key else chosen.value) or b"")
    if cut:
        del damaged[at:]
    elif at < len(damaged):
        damaged[at] = byte
    found[index] = (
        dataclasses.replace(chosen, key=bytes(damaged))
        if key
        else dataclasses.replace(chosen, value=bytes(damaged))
    )
    coordinators = Coordinators(Topics(t=1), group_partitions=1, transaction_partitions=1)
    coordinators.load_groups(0, found)
    coordinators.load_transactions(0, found)
    coordinators.resume(0)
