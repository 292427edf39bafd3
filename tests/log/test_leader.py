"""Appending as a leader: offsets and stamps, what is refused, what is written anew, producers and epochs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.log.crafting import GZIP, LOG_APPEND_TIME, Batch
from tests.log.logs import (
    NOW_MS,
    SMALL,
    Clock,
    abort,
    all_records,
    commit,
    contents,
    numbered,
    open_log,
    record,
    send,
)
from tidelog.config import LogConfig
from tidelog.errors import (
    ChecksumError,
    CompressionError,
    CorruptRecordError,
    InvalidInputError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    TornBatchError,
    UnexpectedAppendOffsetError,
)
from tidelog.index import AbortedTxn
from tidelog.log import AppendOrigin, Log
from tidelog.records import (
    Record,
    encode_batches,
    encode_legacy_records,
    encode_records,
    scan_batches,
)
from tidelog.records.record import to_arrow
from tidelog.storage import EpochEntry
from tidelog.types import Codec, TimestampType

CODECS = tuple(Codec)
EMPTY = Record(b"", timestamp=NOW_MS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


# What can be appended


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
@pytest.mark.parametrize("form", ["records", "one", "arrow", "table", "bytes", "memoryview", "encoded"])
def test_whatever_is_appended_is_read_back(path: Path, form: str, codec: Codec) -> None:
    records = numbered(1 if form == "one" else 50)
    columns = to_arrow(records)
    forms: dict[str, Callable[[Log], object]] = {
        "records": lambda log: log.append_as_leader(records, codec=codec),
        "one": lambda log: log.append_as_leader(records[0], codec=codec),
        "arrow": lambda log: log.append_as_leader(columns, codec=codec),
        "table": lambda log: log.append_as_leader(pa.table(columns), codec=codec, max_batch_records=20),
        "bytes": lambda log: log.append_as_leader(encode_records(records, codec=codec)),
        "memoryview": lambda log: log.append_as_leader(memoryview(encode_records(records, codec=codec))),
        "encoded": lambda log: log.append_as_leader(
            encode_batches(columns, codec=codec, max_batch_records=20)
        ),
    }
    with open_log(path, LogConfig()) as log:
        log.append_as_leader([record(-1)], leader_epoch=3)
        info = forms[form](log)
        assert (info.first_offset, info.last_offset) == (1, len(records))
        assert info.log_append_time == -1
        assert log.segments.last.largest_timestamp == NOW_MS + len(records) - 1
        found = all_records(log)[1:]
    assert [one.to_record() for one in found] == records
    assert [one.offset for one in found] == list(range(1, 1 + len(records)))


def test_what_is_given_is_not_changed(path: Path) -> None:
    data = bytearray(encode_records(numbered(3)))
    encoded = encode_batches(to_arrow(numbered(30)), max_batch_records=10)
    before, rows = bytes(data), encoded.table.rows.copy()
    with open_log(path) as log:
        log.append_as_leader([record(0)], leader_epoch=9)
        log.append_as_leader(data, leader_epoch=9)
        log.append_as_leader(encoded, leader_epoch=9)
    assert data == before
    assert (encoded.table.rows == rows).all()


def test_nothing_is_appended_for_nothing(path: Path) -> None:
    with open_log(path) as log:
        for nothing in (b"", [], to_arrow([])):
            info = log.append_as_leader(nothing)
            assert (info.first_offset, info.last_offset) == (-1, -1)
        assert log.log_end_offset == 0


def test_options_of_ready_batches_are_refused(path: Path) -> None:
    with open_log(path) as log, pytest.raises(InvalidInputError, match="codec"):
        log.append_as_leader(encode_records(numbered(1)), codec=Codec.LZ4)


def test_very_many_batches_at_once(path: Path) -> None:
    count = 70_000
    data = encode_records([EMPTY]) * count
    with open_log(path, LogConfig(segment_index_bytes=1 << 20)) as log:
        assert log.append_as_leader(data).last_offset == count - 1
        assert log.append_as_follower(_numbered_batches(count, 140_000)).last_offset == 139_999
        assert log.read_record(count - 1) is not None


def _numbered_batches(start: int, end: int) -> bytes:
    encoded = encode_batches(to_arrow([EMPTY] * (end - start)), base_offset=start, max_batch_records=1)
    return bytes(encoded)


# Stamps


def test_offsets_epochs_and_times_are_stamped(path: Path) -> None:
    config = dataclasses.replace(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    clock = Clock()
    with open_log(path, config, now_ms=clock) as log:
        log.append_as_leader(numbered(2), leader_epoch=1)
        clock.now_ms += 1000
        info = log.append_as_leader(numbered(2), leader_epoch=4)
        assert info.log_append_time == NOW_MS + 1000
        found = all_records(log)
    assert [one.timestamp for one in found] == [NOW_MS] * 2 + [NOW_MS + 1000] * 2
    assert {one.timestamp_type for one in found} == {TimestampType.LOG_APPEND_TIME}
    assert [one.leader_epoch for one in found] == [1, 1, 4, 4]


@pytest.mark.parametrize("attributes", [0, GZIP])
def test_a_header_that_lies_about_its_largest_timestamp_is_put_right(path: Path, attributes: int) -> None:
    lie = Batch(
        records=[(1000, b"k", b"v"), (3000, b"k", b"v"), (2000, b"k", b"v")],
        attributes=attributes,
        max_timestamp=9_999_999,
    )
    with open_log(path) as log:
        log.append_as_leader(lie.encode())
        assert log.read(0).batches().max_timestamp.tolist() == [3000]
        assert log.offset_for_timestamp(3001) is None


# Refusals


def _flipped() -> bytes:
    data = bytearray(encode_records(numbered(3)))
    data[70] ^= 1
    return bytes(data)


def _unsound() -> bytes:
    """A batch that announces one record more than it holds; its checksum is right."""
    return Batch(records=[(1000, b"k", b"value")], count=2, last_offset_delta=1).encode()


REFUSED: dict[str, tuple[bytes, type[Exception]]] = {
    "checksum": (_flipped(), ChecksumError),
    "torn": (encode_records(numbered(3))[:-1], TornBatchError),
    "two sound, one torn": ((encode_records(numbered(3)) * 3)[:-20], TornBatchError),
    "garbage": (bytes(range(200)), CorruptRecordError),
    "unsound records": (_unsound(), CorruptRecordError),
    "base offset": (encode_records(numbered(3), base_offset=5), InvalidRecordError),
    "count": (Batch(count=2).encode(), InvalidRecordError),
    "offset range": (Batch(last_offset_delta=5).encode(), InvalidRecordError),
    "control": (Batch(attributes=0x20).encode(), InvalidRecordError),
    "no sequence": (Batch(producer_id=1, producer_epoch=0).encode(), InvalidRecordError),
    "too late": (Batch(records=[(NOW_MS + 3_600_001, b"k", b"v")]).encode(), InvalidTimestampError),
    "too large": (encode_records([record(0, 2000)]), RecordTooLargeError),
    "not compressed": (Batch(attributes=0x02).encode(), CompressionError),
    "log's time": (
        Batch(attributes=LOG_APPEND_TIME, max_timestamp=-1).encode(),
        InvalidTimestampError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_append_leaves_the_log_as_it_was(path: Path, name: str) -> None:
    data, error = REFUSED[name]
    config = dataclasses.replace(SMALL, max_message_bytes=1500)
    with open_log(path, config) as log:
        for number in range(40):
            log.append_as_leader([record(number)])
        before, offsets, files = all_records(log), log.offsets, contents(path)
        with pytest.raises(error):
            log.append_as_leader(data, leader_epoch=5)
        assert log.offsets == offsets
        assert contents(path) == files
        assert log.append_as_leader([record(40)]).first_offset == 40
        assert all_records(log)[:-1] == before
        assert log.epoch_entries == (EpochEntry(0, 0),)


def test_an_append_larger_than_a_segment_is_refused(path: Path) -> None:
    with open_log(path) as log, pytest.raises(RecordBatchTooLargeError):
        log.append_as_leader(encode_records(numbered(10)) * 10)


def test_timestamps_too_far_in_the_past_are_refused(path: Path) -> None:
    config = dataclasses.replace(SMALL, message_timestamp_before_max_ms=1000)
    good = [Record(b"v", b"k", (), NOW_MS - 1000), Record(b"v", b"k", (), NOW_MS)]
    bad = [*good, Record(b"v", b"k", (), NOW_MS - 1001)]
    with open_log(path, config) as log:
        for codec in (Codec.NONE, Codec.ZSTD):
            log.append_as_leader(encode_records(good, codec=codec))
            log.append_as_leader(good, codec=codec)
            for form in (encode_records(bad, codec=codec), to_arrow(bad), encode_batches(to_arrow(bad))):
                with pytest.raises(InvalidTimestampError, match=str(NOW_MS - 1001)):
                    log.append_as_leader(form)


def test_a_compacted_topic_wants_keys(path: Path) -> None:
    config = dataclasses.replace(SMALL, cleanup_policy=("compact",))
    bad = [record(0), Record(b"v", None, (), NOW_MS)]
    with open_log(path, config) as log:
        for codec in CODECS:
            log.append_as_leader([record(0)], codec=codec)
            log.append_as_leader(encode_records([record(0)], codec=codec))
            for form in (
                encode_records(bad, codec=codec),
                to_arrow(bad),
                to_arrow(bad).select(["value"]),
                encode_batches(to_arrow(bad)),
            ):
                with pytest.raises(InvalidRecordError, match="without a key"):
                    log.append_as_leader(form)


def test_a_raft_leader_keeps_its_offsets(path: Path) -> None:
    with open_log(path) as log:
        data = encode_records(numbered(3), base_offset=7, leader_epoch=2)
        info = log.append_as_leader(data, leader_epoch=2, origin=AppendOrigin.RAFT_LEADER)
        assert (info.first_offset, info.last_offset, log.log_end_offset) == (7, 9, 10)
        with pytest.raises(UnexpectedAppendOffsetError):
            log.append_as_leader(data, leader_epoch=2, origin=AppendOrigin.RAFT_LEADER)
        with pytest.raises(InvalidRecordError, match="leader epoch 2"):
            log.append_as_leader(data, leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)
        with pytest.raises(InvalidInputError):
            log.append_as_leader(numbered(3), leader_epoch=2, origin=AppendOrigin.RAFT_LEADER)


# Written anew


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", CODECS, ids=lambda codec: codec.label)
def test_batches_are_stored_in_the_codec_of_the_topic(path: Path, source: Codec, target: str) -> None:
    config = LogConfig(compression_type=target)
    wanted = Codec.NONE if target == "uncompressed" else Codec.parse(target)
    data = b"".join(
        encode_records(
            numbered(20, start), codec=source, producer_id=5, producer_epoch=1, base_sequence=start
        )
        for start in (0, 20)
    )
    with open_log(path, config) as log:
        log.append_as_leader(data)
        log.append_as_leader(numbered(20, 40), codec=source)
        assert set(log.read(0).batches().codec.tolist()) == {wanted}
        found = all_records(log)
    assert [one.to_record() for one in found] == numbered(60)
    assert [one.sequence for one in found] == [*range(40), *[-1] * 20]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda c: c.label)
def test_old_messages_become_one_batch(path: Path, magic: int, codec: Codec) -> None:
    records = [dataclasses.replace(one, headers=()) for one in numbered(10)]
    data = encode_legacy_records(records, magic=magic, codec=codec)
    with open_log(path) as log:
        log.append_as_leader([record(99)])
        info = log.append_as_leader(data)
        assert (info.first_offset, info.last_offset) == (1, 10)
        batches = log.read(1).batches()
        assert batches.magic.tolist() == [2, 2][: len(batches)]
        assert (batches.base_offset[-1], batches.last_offset[-1]) == (1, 10)
        found = all_records(log)[1:]
    times = [one.timestamp if magic else -1 for one in records]
    assert [(one.key, one.value, one.timestamp) for one in found] == [
        (one.key, one.value, time) for one, time in zip(records, times, strict=True)
    ]


def test_a_batch_that_grows_too_large_by_being_written_anew_is_refused(path: Path) -> None:
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1000)
    with open_log(path, config) as log, pytest.raises(RecordTooLargeError, match="as it is stored"):
        log.append_as_leader(encode_records([record(0, 2000)], codec=Codec.ZSTD))


# Producers


def test_what_is_sent_again_is_answered_with_its_first_offsets(path: Path) -> None:
    with open_log(path) as log:
        log.append_as_leader(numbered(3))
        for number in range(7):
            send(log, 1, number, record(number), transactional=False)
        end = log.log_end_offset
        for number in range(2, 7):
            info = send(log, 1, number, record(number), transactional=False)
            assert (info.is_duplicate, info.first_offset, info.last_offset) == (True, 3 + number, 3 + number)
        with pytest.raises(OutOfOrderSequenceError):
            send(log, 1, 1, record(1), transactional=False)  # no longer one of the last five
        with pytest.raises(OutOfOrderSequenceError):
            send(log, 1, 8, record(8), transactional=False)
        assert log.log_end_offset == end
        assert send(log, 1, 7, record(7), transactional=False).first_offset == end
        send(log, 1, 0, record(0), epoch=1, transactional=False)
        with pytest.raises(InvalidProducerEpochError):
            send(log, 1, 8, record(8), transactional=False)


def test_of_an_append_only_what_is_new_is_written(path: Path) -> None:
    def batch(sequence: int) -> bytes:
        return encode_records([record(sequence)], producer_id=1, producer_epoch=0, base_sequence=sequence)

    with open_log(path) as log:
        log.append_as_leader(batch(0) + batch(1))
        info = log.append_as_leader(batch(0) + batch(1) + batch(2))
        assert (info.first_offset, info.last_offset, info.is_duplicate) == (2, 2, False)
        info = log.append_as_leader(batch(1) + batch(2))
        assert (info.first_offset, info.last_offset, info.is_duplicate) == (1, 2, True)
        assert [one.sequence for one in all_records(log)] == [0, 1, 2]


def test_producers_are_known_again_after_a_restart(path: Path) -> None:
    with open_log(path) as log:
        for number in range(40):
            send(log, 1, number, record(number), transactional=False)
    for clean in (True, False):
        with open_log(path, clean=clean) as log:
            assert log.active_producers[1].last_sequence == 39
            assert send(log, 1, 39, record(39), transactional=False).is_duplicate
            with pytest.raises(OutOfOrderSequenceError):
                send(log, 1, 41, record(41), transactional=False)


def test_transactions_hold_the_last_stable_offset_back(path: Path) -> None:
    with open_log(path) as log:
        log.append_as_leader(numbered(2))
        send(log, 1, 0, record(2))
        send(log, 2, 0, record(3))
        log.update_high_watermark(4)
        assert log.last_stable_offset == 2
        with pytest.raises(InvalidTxnStateError):
            send(log, 1, 1, record(9), transactional=False)
        commit(log, 1)
        assert log.last_stable_offset == 2, "its marker is not replicated"
        log.update_high_watermark(5)
        assert log.last_stable_offset == 3
        abort(log, 2)
        log.update_high_watermark(6)
        assert log.last_stable_offset == 6
        assert log.aborted_transactions(0, 6) == (AbortedTxn(2, 3, 5, 6),)


def test_a_marker_needs_the_version_it_is_written_by(path: Path) -> None:
    marker = Batch(attributes=0x30, producer_id=1, producer_epoch=0).encode()
    with open_log(path) as log, pytest.raises((InvalidInputError, CorruptRecordError)):
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR)


def test_an_open_transaction_survives_a_restart(path: Path) -> None:
    with open_log(path) as log:
        send(log, 1, 0, record(0))
        for number in range(60):
            log.append_as_leader([record(number)])
    for clean in (True, False):
        with open_log(path, clean=clean) as log:
            log.update_high_watermark(log.log_end_offset)
            assert log.last_stable_offset == 0
    with open_log(path) as log:
        abort(log, 1)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 62
        assert [txn.first_offset for txn in log.aborted_transactions(0, 62)] == [0]


def test_producers_expire(path: Path) -> None:
    clock = Clock()
    with open_log(path, now_ms=clock, producer_id_expiration_ms=1000) as log:
        send(log, 1, 0, record(0), transactional=False)
        log.remove_expired_producers()
        assert set(log.active_producers) == {1}
        clock.now_ms += 1000
        log.remove_expired_producers()
        assert not log.active_producers


# Leader epochs


def test_epochs_are_kept_in_their_file(path: Path) -> None:
    with open_log(path) as log:
        for epoch in (0, 0, 3, 3, 7):
            log.append_as_leader(numbered(2), leader_epoch=epoch)
        assert [(e.epoch, e.start_offset) for e in log.epoch_entries] == [(0, 0), (3, 4), (7, 8)]
        assert log.end_offset_for(0) == (0, 4)
        assert log.end_offset_for(5) == (3, 8)
        assert log.end_offset_for(7) == (7, 10)
        assert log.end_offset_for(8) == (-1, -1)
    assert (path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n3 4\n7 8\n"
    with open_log(path) as log:
        log.assign_epoch_start_offset(9, 10)
        assert log.latest_epoch == 9
    with open_log(path) as log:
        assert log.latest_epoch == 7, "an epoch that wrote nothing is dropped when the log is opened"


def test_epochs_are_found_again_without_their_file(path: Path) -> None:
    with open_log(path) as log:
        for epoch in (0, 0, 3, 3, 7):
            log.append_as_leader(numbered(2), leader_epoch=epoch)
        expected = log.epoch_entries
    (path / "leader-epoch-checkpoint").unlink()
    with open_log(path, clean=False) as log:
        assert log.epoch_entries == expected


def test_table_of_the_log_is_what_the_bytes_say(path: Path) -> None:
    data = b"".join(encode_records(numbered(3), codec=codec) for codec in CODECS)
    with open_log(path, LogConfig()) as log:
        log.append_as_leader(data, leader_epoch=2)
    stored = next(path.glob("*.log")).read_bytes()
    batches = scan_batches(stored).require()
    assert batches.base_offset.tolist() == [0, 3, 6, 9, 12]
    assert set(batches.leader_epoch.tolist()) == {2}
