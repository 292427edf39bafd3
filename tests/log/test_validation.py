"""The rules of an append: Kafka's own verdicts first, then each rule by itself."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from tests.kernels_twin import twin
from tests.log import answers, questions
from tests.log.crafting import CONTROL, GZIP, LOG_APPEND_TIME, Batch, craft, table
from tests.oracle import Oracle
from tidelog.config import LogConfig
from tidelog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
    UnknownCodecError,
)
from tidelog.log.append import validation
from tidelog.log.append.info import AppendOrigin
from tidelog.records import decode_batches, scan_batches
from tidelog.types import Codec, TimestampType

KAFKAS = {
    "CorruptRecordException": CorruptRecordError,
    "InvalidRecordException": InvalidRecordError,
    "KafkaException": CorruptRecordError,  # what cannot be decompressed
    "InvalidTimestampException": InvalidTimestampError,
    "RecordTooLargeException": RecordTooLargeError,
    "UnexpectedAppendOffsetException": UnexpectedAppendOffsetError,
}

KAFKA_BROKE_DOWN = ("IllegalArgumentException", "UnsupportedOperationException")
"""Not verdicts: Kafka's builder cannot write anew what its coordinators never send."""


class Log:
    """The decisions of a log, without its files."""

    def __init__(self, config: LogConfig, now_ms: int) -> None:
        self.config = config
        self.now_ms = now_ms
        self.end = 0

    def append(self, data: bytearray, origin: AppendOrigin, epoch: int) -> tuple[Any, bytes | None]:
        """The append's facts and the bytes as stored; None for bytes that would be written anew."""
        batches = scan_batches(data).require()
        info = validation.analyze(batches, self.config, origin, epoch)
        batches = batches[: info.batches]
        if not origin.assigns_offsets:
            if info.batches:
                validation.check_offsets(info, self.end)
                self.end = info.last_offset + 1
            return info, bytes(data[: info.valid_bytes])
        records = decode_batches(data, batches, columns=("key", "timestamp_ms"))
        timestamps = np.asarray(records.column("timestamp_ms"))
        has_key = np.asarray(records.column("key").is_valid())
        validation.check_records(timestamps, has_key, self.config, self.now_ms)
        stamped = {"next_offset": self.end, "leader_epoch": epoch, "now_ms": self.now_ms}
        rewrite = validation.needs_rewrite(batches, self.config)
        assert info.rewrites == rewrite.sum()
        if rewrite.any():
            self.end += records.num_rows
            return info, None
        largest = np.array([timestamps.max()])
        self.end = validation.stamp(data, batches, self.config, max_timestamps=largest, **stamped)
        assert (scan_batches(data).require().rows[:, :14] == batches.rows[:, :14]).all()
        return info, bytes(data)


def compare_with_kafka(request: dict[str, Any], kafkas: answers.Answers) -> None:
    log = Log(LogConfig.from_properties(request["config"]), request["now_ms"])
    for append, kafka in zip(request["appends"], kafkas, strict=True):
        data = bytearray(base64.b64decode(append["data"]))
        origin = AppendOrigin[append["origin"]]
        if kafka["error"] in KAFKA_BROKE_DOWN:
            continue
        if kafka["error"] is not None:
            expected, end = KAFKAS[kafka["error"]], log.end
            try:
                _, stored = log.append(data, origin, append["epoch"])
            except expected:
                continue
            # How large a batch becomes when it is written anew is not known here.
            assert stored is None, append
            assert expected is RecordTooLargeError, append
            log.end = end
            continue
        info, stored = log.append(data, origin, append["epoch"])
        assert info.source_codec.label == kafka["source_codec"]
        assert info.valid_bytes == kafka["valid_bytes"]
        assert info.last_leader_epoch == kafka["last_leader_epoch"]
        if info.batches:
            assert log.end == kafka["last_offset"] + 1
        written = base64.b64decode(kafka["written"])
        if stored is None:
            assert scan_batches(written).require().count.sum() == log.end - kafka["first_offset"]
        else:
            assert stored == written


@pytest.fixture(params=["compiled", "plain"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test that asks for it runs on both twins of the kernel."""
    if request.param == "plain":
        monkeypatch.setattr(validation, "_kernel", twin("appends"))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("seed", range(answers.QUESTIONS["Appends"][1]))
def test_appends_end_as_kafkas(seed: int) -> None:
    compare_with_kafka(*answers.recorded("Appends")[seed])


def test_appends_end_as_kafkas_now(oracle: Oracle) -> None:
    for seed in range(1000, 1003):
        request = questions.appends(seed, 200)
        compare_with_kafka(request, answers.ask(oracle, "Appends", request))


CLIENT, COORDINATOR, RAFT, FOLLOWER = AppendOrigin
LEADERS, TAKERS = {CLIENT, COORDINATOR}, {RAFT, FOLLOWER}
ALL = LEADERS | TAKERS

BY_LOG = {"message.timestamp.type": "LogAppendTime"}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("row", "config", "refused_by", "error"),
    [
        ({}, {}, set(), None),
        ({"leader_epoch": 6}, {}, {RAFT}, InvalidRecordError),
        ({"base_offset": 5}, {}, {CLIENT}, InvalidRecordError),
        ({"base_offset": 5, "magic": 1}, {}, set(), None),
        ({"size": 101}, {"max.message.bytes": 100}, ALL - {FOLLOWER}, RecordTooLargeError),
        ({"size": 100}, {"max.message.bytes": 100}, set(), None),
        ({"attributes": 5}, {}, ALL, UnknownCodecError),
        ({"attributes": 4, "magic": 1}, {}, ALL, UnknownCodecError),
        ({"attributes": 4}, {}, set(), None),
        ({"last_offset": -1}, {}, ALL, (InvalidRecordError, OffsetsOutOfOrderError)),
        ({"count": 0, "last_offset": 0}, {}, LEADERS, InvalidRecordError),
        ({"count": -1, "last_offset": 0}, {}, LEADERS, InvalidRecordError),
        ({"count": 2, "last_offset": 2}, {}, LEADERS, InvalidRecordError),
        ({"attributes": CONTROL}, {}, {CLIENT}, InvalidRecordError),
        ({"producer_id": 1, "base_sequence": -1}, {}, {CLIENT}, InvalidRecordError),
        ({"producer_id": 1, "base_sequence": 0}, {}, set(), None),
        ({"attributes": LOG_APPEND_TIME}, BY_LOG, LEADERS, InvalidTimestampError),
        ({"attributes": LOG_APPEND_TIME}, {}, set(), None),
        ({"attributes": LOG_APPEND_TIME, "max_timestamp": -1}, {}, LEADERS, InvalidTimestampError),
    ],
)
def test_each_rule_for_each_origin(
    row: dict[str, int],
    config: dict[str, object],
    refused_by: set[AppendOrigin],
    error: type[Exception] | tuple[type[Exception], ...],
) -> None:
    batches = table({"leader_epoch": 7, **row})
    for origin in AppendOrigin:
        if origin in refused_by:
            with pytest.raises(error):
                validation.analyze(batches, LogConfig.from_properties(config), origin, 7)
        else:
            assert validation.analyze(batches, LogConfig.from_properties(config), origin, 7).batches == 1


@pytest.mark.usefixtures("kernel")
def test_the_sum_of_an_append() -> None:
    rows = [
        {"base_offset": 10, "count": 5, "size": 200, "leader_epoch": 3, "max_timestamp": 900},
        {"base_offset": 15, "size": 70, "leader_epoch": 3, "attributes": GZIP, "max_timestamp": 950},
        {"base_offset": 20, "size": 80, "leader_epoch": 4, "producer_id": 7, "max_timestamp": 940},
    ]
    info = validation.analyze(table(*rows), LogConfig(compression_type="gzip"), FOLLOWER, 4)
    assert info._asdict() == {
        "first_offset": 10,
        "last_offset": 20,
        "last_leader_epoch": 4,
        "max_timestamp": 950,
        "source_codec": Codec.GZIP,
        "valid_bytes": 350,
        "batches": 3,
        "last_offset_of_first_batch": 14,
        "has_producer_ids": True,
        "rewrites": 2,
    }
    assert info.offset_count == 11


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("epoch", "taken"), [(2, 0), (3, 2), (4, 3), (5, 4)])
def test_a_follower_drops_batches_of_later_leaders(epoch: int, taken: int) -> None:
    epochs = (3, 3, 4, 5)
    rows = [{"leader_epoch": e, "base_offset": i, "size": 100} for i, e in enumerate(epochs)]
    info = validation.analyze(table(*rows), LogConfig(), FOLLOWER, epoch)
    assert (info.batches, info.valid_bytes, info.last_offset) == (taken, 100 * taken, taken - 1)


@pytest.mark.usefixtures("kernel")
def test_offsets_must_grow_where_they_are_taken() -> None:
    rows = table({"base_offset": 5}, {"base_offset": 6}, {"base_offset": 6})
    for origin in TAKERS:
        with pytest.raises(OffsetsOutOfOrderError, match="ends at offset 6 follows one at 6"):
            validation.analyze(rows, LogConfig(), origin, 0)


@pytest.mark.usefixtures("kernel")
def test_one_magic_an_append() -> None:
    rows = table({"magic": 2}, {"magic": 1})
    with pytest.raises(InvalidRecordError, match="another magic"):
        validation.analyze(rows, LogConfig(), CLIENT, 0)
    assert validation.analyze(rows[:1], LogConfig(), CLIENT, 0).rewrites == 0
    assert validation.analyze(rows[1:], LogConfig(), CLIENT, 0).rewrites == 1


@pytest.mark.usefixtures("kernel")
def test_old_formats_do_not_tell_their_first_offset() -> None:
    info = validation.analyze(table({"magic": 1, "base_offset": 9}), LogConfig(), FOLLOWER, 0)
    assert (info.first_offset, info.first_or_last_offset_of_first_batch, info.offset_count) == (-1, 9, 0)
    validation.check_offsets(info, 9)
    with pytest.raises(UnexpectedAppendOffsetError, match="last offset of the first batch 9 is below"):
        validation.check_offsets(info, 10)


NOW = 1_000_000


@pytest.mark.parametrize(
    ("timestamp", "refused"),
    [
        (NOW, False),
        (NOW - 50, False),
        (NOW - 51, True),
        (NOW + 10, False),
        (NOW + 11, True),
        (-1, False),
        (-2, True),
    ],
)
def test_timestamps_within_bounds(timestamp: int, refused: bool) -> None:
    config = LogConfig(message_timestamp_before_max_ms=50, message_timestamp_after_max_ms=10)
    column = np.array([NOW, timestamp, NOW])
    by_log = LogConfig.from_properties(BY_LOG, config)
    validation.check_timestamp(timestamp, by_log, NOW)
    validation.check_records(column, None, by_log, NOW)
    if refused:
        with pytest.raises(InvalidTimestampError, match=str(timestamp)):
            validation.check_timestamp(timestamp, config, NOW)
        with pytest.raises(InvalidTimestampError, match=f"first {timestamp} of record 1"):
            validation.check_records(column, None, config, NOW)
    else:
        validation.check_timestamp(timestamp, config, NOW)
        validation.check_records(column, None, config, NOW)


@pytest.mark.parametrize("timestamp", [-(1 << 63), -(1 << 62), 0, (1 << 63) - 1])
def test_bounds_do_not_overflow(timestamp: int) -> None:
    free = LogConfig(message_timestamp_after_max_ms=(1 << 63) - 1)
    far_past = timestamp < NOW - ((1 << 63) - 1)
    for check in (
        validation.check_timestamp,
        lambda t, *rest: validation.check_records(np.array([t]), None, *rest),
    ):
        if far_past:
            with pytest.raises(InvalidTimestampError):
                check(timestamp, free, NOW)
        else:
            check(timestamp, free, NOW)


def test_compacted_topics_want_keys() -> None:
    has_key = np.array([True, False, True])
    validation.check_records(None, has_key, LogConfig(), NOW)
    compacted = LogConfig(cleanup_policy=("compact", "delete"))
    with pytest.raises(InvalidRecordError, match="first record 1"):
        validation.check_records(None, has_key, compacted, NOW)
    with pytest.raises(InvalidTimestampError):
        validation.check_records(np.array([NOW, NOW, NOW << 20]), has_key, compacted, NOW)
    with pytest.raises(InvalidRecordError):
        validation.check_records(np.array([NOW, NOW << 20, NOW]), has_key, compacted, NOW)


def test_which_batches_are_written_anew() -> None:
    rows = table(
        {}, {"attributes": GZIP}, {"attributes": CONTROL}, {"attributes": CONTROL | GZIP}, {"magic": 1}
    )

    def rewrites(compression: str) -> list[bool]:
        return [
            bool(each) for each in validation.needs_rewrite(rows, LogConfig(compression_type=compression))
        ]

    assert rewrites("producer") == [False, False, False, False, True]
    assert rewrites("uncompressed") == [False, True, False, True, True]
    assert rewrites("gzip") == [True, False, False, False, True]
    assert rewrites("zstd") == [True, True, False, True, True]


def test_sizes_are_limited() -> None:
    validation.check_append_size(1 << 30, LogConfig())
    with pytest.raises(RecordBatchTooLargeError):
        validation.check_append_size((1 << 30) + 1, LogConfig())
    with pytest.raises(RecordBatchTooLargeError):
        validation.check_append_size(101, LogConfig(internal_segment_bytes=100))
    validation.check_batch_sizes(table({"size": 60}, {"size": 100}), LogConfig(max_message_bytes=100))
    with pytest.raises(RecordTooLargeError):
        validation.check_batch_sizes(table({"size": 101}, {"size": 60}), LogConfig(max_message_bytes=100))


@pytest.mark.usefixtures("kernel")
def test_a_run_of_batches_is_stamped() -> None:
    data, batches = craft(
        *(Batch(records=[(NOW + i, b"k", b"v")] * (i + 1), base_offset=0) for i in range(3))
    )
    before = bytes(data)
    end = validation.stamp(data, batches, LogConfig(), next_offset=100, leader_epoch=9, now_ms=5)
    assert end == 106
    read = scan_batches(data).require()
    assert read.base_offset.tolist() == batches.base_offset.tolist() == [100, 101, 103]
    assert read.last_offset.tolist() == batches.last_offset.tolist() == [100, 102, 105]
    assert read.leader_epoch.tolist() == [9, 9, 9]
    assert read.crc.tolist() == scan_batches(before).require().crc.tolist()
    by_log = LogConfig.from_properties(BY_LOG)
    validation.stamp(data, batches, by_log, next_offset=0, leader_epoch=9, now_ms=NOW + 77)
    read = scan_batches(data).require()
    assert read.max_timestamp.tolist() == [NOW + 77] * 3
    assert read.timestamp_type.tolist() == [TimestampType.LOG_APPEND_TIME] * 3
    assert (read.rows[:, :14] == batches.rows[:, :14]).all()


@pytest.mark.usefixtures("kernel")
def test_a_table_of_other_bytes_is_not_stamped() -> None:
    data, batches = craft(Batch(), Batch())
    stamped = {"next_offset": 0, "leader_epoch": 0, "now_ms": 0}
    for buffer, origin in ((data[:-1], 0), (data, 1), (data, -1)):
        before = bytes(buffer)
        with pytest.raises(ValueError, match="inside the buffer"):
            validation.stamp(buffer, batches, LogConfig(), origin=origin, **stamped)
        assert bytes(buffer) == before
    with pytest.raises(ValueError, match="inside the buffer"):
        validation.stamp(bytearray(500), table({"magic": 1}), LogConfig(), **stamped)
    with pytest.raises(ValueError, match="largest timestamp"):
        validation.stamp(data, batches, LogConfig(), max_timestamps=np.zeros(1, dtype=np.int64), **stamped)
