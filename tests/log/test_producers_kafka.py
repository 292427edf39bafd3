"""The state of producers beside Kafka's: what it wrote, and what it says step by step."""

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
from tidelog.log.append.info import AppendOrigin
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.log.producers.snapshots import encode_snapshot
from tidelog.log.producers.transactions import TxnMarker
from tidelog.records import scan_batches

NEVER_COMPACTED = ("none", "multi", "outoforder", "zstd", "appendtime", "txn", "unicode.topic_name-with-dash")


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


def test_refusals_are_errors_of_the_tree() -> None:
    for error in KAFKAS.values():
        assert issubclass(error, TidelogError)
        assert issubclass(error, ValueError)
