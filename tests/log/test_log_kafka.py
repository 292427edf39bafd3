"""Kafka and our log side by side: the same appends, the same files, and each opens what the other wrote."""

from __future__ import annotations

import base64
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.log import answers as kafkas
from tests.log import questions
from tests.log.logs import NOW_MS, Clock, abort, answers, commit, data_files, open_log, send
from tests.log.test_validation import KAFKA_BROKE_DOWN, KAFKAS
from tests.oracle import Oracle
from tidelog.config import LogConfig
from tidelog.log import AppendOrigin, Log
from tidelog.log.producers.snapshots import decode_snapshot
from tidelog.records import Header, Record, decode_records, scan_batches
from tidelog.storage import LOCAL
from tidelog.storage.metadata import random_id, write_clean_shutdown
from tidelog.types import Codec

CONFIG = LogConfig(internal_segment_bytes=12_000, index_interval_bytes=512, segment_index_bytes=65536)
KAFKA_CONFIG = CONFIG.overrides()


# The same appends


def _compare(path: Path, request: dict[str, Any], expected: kafkas.Answers) -> int:
    """Append what Kafka was given; how many appends were taken."""
    config = LogConfig.from_properties(request["config"])
    taken = 0
    with Log.open(path, config, clean=True, now_ms=Clock(request["now_ms"])) as log:
        for append, kafka in zip(request["appends"], expected, strict=True):
            data = base64.b64decode(append["data"])
            origin = AppendOrigin[append["origin"]]
            if kafka["error"] in KAFKA_BROKE_DOWN:
                continue
            before = log.offsets, log.size
            if kafka["error"] is not None:
                with pytest.raises(KAFKAS[kafka["error"]]):
                    _append(log, data, origin, append["epoch"])
                assert (log.offsets, log.size) == before
                continue
            info = _append(log, data, origin, append["epoch"])
            if info.last_offset == -1:
                continue
            taken += 1
            for field in ("first_offset", "last_offset", "log_append_time"):
                assert getattr(info, field) == kafka[field], (field, append)
            written = bytes(log.segments.last.buffer()[before[1] :])
            assert scan_batches(written).require().max_timestamp.max() == kafka["max_timestamp"]
            theirs = base64.b64decode(kafka["written"])
            given = scan_batches(data).require()
            if (given.is_control & (given.codec != 0)).any() and len(written) != len(data):
                # Written anew, Kafka's marker is no marker any more. No coordinator sends such a one.
                assert scan_batches(written).require().is_control.all()
            elif scan_batches(theirs).require().codec.any():  # another compressor, the same records
                assert list(decode_records(written)) == list(decode_records(theirs))
            else:
                assert written == theirs
    return taken


def _append(log: Log, data: bytes, origin: AppendOrigin, epoch: int) -> Any:
    if origin is AppendOrigin.REPLICATION:
        return log.append_as_follower(data, epoch)
    return log.append_as_leader(data, leader_epoch=epoch, origin=origin, transaction_version=0)


@pytest.mark.parametrize("seed", range(kafkas.QUESTIONS["Appends"][1]))
def test_appends_are_stored_or_refused_as_by_kafka(seed: int, tmp_path: Path) -> None:
    """Some of their headers lie about the largest timestamp, or are wrong in other ways."""
    request, expected = kafkas.recorded("Appends")[seed]
    assert _compare(tmp_path / "t-0", request, expected) > 20


@pytest.mark.parametrize("seed", range(kafkas.QUESTIONS["OddAppends"][1]))
def test_odd_appends_are_stored_or_refused_as_by_kafka(seed: int, tmp_path: Path) -> None:
    """Compressed messages of magic 0 and 1 with bad ones inside, and attributes that nobody knows."""
    request, expected = kafkas.recorded("OddAppends")[seed]
    assert _compare(tmp_path / "t-0", request, expected) > 20
    assert {each["error"] for each in expected} >= {None, "InvalidRecordException", "CorruptRecordException"}


def test_appends_are_stored_or_refused_as_by_kafka_now(oracle: Oracle, tmp_path: Path) -> None:
    for seed in range(2000, 2003):
        request = questions.appends(seed, 300)
        _compare(tmp_path / f"t-{seed}", request, kafkas.ask(oracle, "Appends", request))
        request = questions.odd_appends(seed, 200)
        _compare(tmp_path / f"o-{seed}", request, kafkas.ask(oracle, "OddAppends", request))


# What Kafka wrote, appended as a follower


@pytest.mark.parametrize("seed", [3, 4])
def test_a_follower_of_kafkas_log_has_the_same_files(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    source = tmp_path / "kafka" / "made-0"
    kinds = ("plain", "idempotent", "transactional", "horizon", "kraft")
    oracle.write_log(source, seed=seed, batches=400, kinds=kinds, config=KAFKA_CONFIG)
    target = tmp_path / "ours-0"
    with open_log(target, CONFIG) as log:
        for file in sorted(source.glob("*.log")):
            if int(file.stem):
                log.roll(int(file.stem))
            data = file.read_bytes()
            if data:
                log.append_as_follower(data)
        end = log.log_end_offset
        assert log.latest_epoch is not None
    assert data_files(target) == data_files(source)
    for file in source.glob("*.snapshot"):
        ours, theirs = (
            {state.producer_id: state for state in decode_snapshot((path / file.name).read_bytes(), "")}
            for path in (target, source)
        )
        assert ours == theirs, file.name
    told = oracle.lookups(source, epochs=range(8), committed_from=(), config=KAFKA_CONFIG, now_ms=NOW_MS)
    with open_log(target, CONFIG) as log:
        for line in told:
            if "epoch" in line:
                found = log.end_offset_for(line["epoch"])
                expected = line["end"] or {"epoch": -1, "offset": -1}
                assert (found.epoch, found.end_offset) == (expected["epoch"], expected["offset"])
        assert log.log_end_offset == end


# What we wrote, opened by Kafka


def _write(path: Path, seed: int, appends: int = 250) -> None:
    """A log of everything: codecs, transactions, idempotent producers, rolls, leader epochs."""
    chance = random.Random(seed)
    sequences = dict.fromkeys((1, 2, 3, 4), 0)
    is_open = dict.fromkeys((3, 4), False)
    epoch = 0
    with Log.open(path, CONFIG, clean=True, now_ms=Clock(NOW_MS)) as log:
        for _ in range(appends):
            epoch += chance.random() < 0.03
            if chance.random() < 0.03:
                log.roll()
            records = [_record(chance) for _ in range(chance.randint(1, 12))]
            kind = chance.randrange(4)
            producer = chance.choice((1, 2) if kind == 1 else (3, 4))
            if kind == 0:
                codec = chance.choice(list(Codec))
                log.append_as_leader(records, leader_epoch=epoch, codec=codec, max_batch_records=5)
                continue
            if kind > 1 and is_open[producer] and chance.random() < 0.4:
                (commit if chance.random() < 0.5 else abort)(log, producer, leader_epoch=epoch)
                is_open[producer] = False
                continue
            transactional = kind > 1
            sequence = sequences[producer]
            send(log, producer, sequence, *records, transactional=transactional, leader_epoch=epoch)
            sequences[producer] += len(records)
            if transactional:
                is_open[producer] = True


def _record(chance: random.Random) -> Record:
    headers = tuple(Header(f"h{i}", chance.choice((None, b"", b"v"))) for i in range(chance.randrange(3)))
    key = None if chance.random() < 0.2 else chance.randbytes(chance.randrange(12))
    value = None if chance.random() < 0.1 else chance.randbytes(chance.randrange(5)) * chance.randrange(30)
    return Record(value, key, headers, NOW_MS - chance.randrange(1_000_000))


@pytest.mark.parametrize("seed", [1, 2])
def test_kafka_opens_what_we_wrote_and_answers_alike(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "ours-0"
    _write(path, seed)
    expected = oracle.decode(*sorted(path.glob("*.log")))
    told = oracle.lookups(path, random=150, seed=seed, epochs=range(12), config=KAFKA_CONFIG, now_ms=NOW_MS)
    with Log.open(path, CONFIG, clean=True, now_ms=Clock(NOW_MS)) as log:
        assert len(log.segments) > 3
        assert log.log_end_offset == len(expected)
        questions_asked = [line for line in told if "epoch" not in line]
        assert list(answers(log, questions_asked)) == questions_asked
        for line in told:
            if "epoch" in line:
                end = line["end"] or {"epoch": -1, "offset": -1}
                assert log.end_offset_for(line["epoch"]) == (end["epoch"], end["offset"])


@pytest.mark.parametrize("seed", [1, 2])
def test_kafkas_recovery_leaves_what_we_wrote_as_it_is(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "ours-0"
    _write(path, seed)
    rebuilt = oracle.recover(path, tmp_path / "kafka", config=KAFKA_CONFIG, now_ms=NOW_MS)
    assert any(name.endswith(".txnindex") for name in data_files(path))
    assert data_files(rebuilt) == data_files(path)
    ours = tmp_path / "again" / "ours-0"
    shutil.copytree(path, ours)
    Log.open(ours, CONFIG, clean=False, now_ms=Clock(NOW_MS)).close()
    assert data_files(ours) == data_files(path)


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_recovery_leaves_the_snapshots_that_kafkas_leaves(
    oracle: Oracle, has_snapshots: bool, tmp_path: Path
) -> None:
    source = tmp_path / "made" / "ours-0"
    source.parent.mkdir()
    _write(source, 5)
    with Log.open(source, CONFIG, clean=True, now_ms=Clock(NOW_MS)) as log:
        bases, end = log.segments.base_offsets, log.log_end_offset
    if not has_snapshots:
        for file in source.glob("*.snapshot"):
            file.unlink()
    for point in (0, bases[1], bases[-3] + 1, bases[-1], end):
        theirs, ours = tmp_path / "kafka" / str(point), tmp_path / "ours" / str(point) / "ours-0"
        config = KAFKA_CONFIG
        oracle.lookups(source, clean=False, recovery_point=point, config=config, now_ms=NOW_MS, keep=theirs)
        shutil.copytree(source, ours)
        Log.open(ours, CONFIG, clean=False, recovery_point=point, now_ms=Clock(NOW_MS)).close()
        assert _snapshots(ours) == _snapshots(theirs), point


def _snapshots(path: Path) -> list[str]:
    return sorted(file.name for file in path.rglob("*.snapshot"))


def test_times_are_looked_up_in_one_segment_as_kafka_does(oracle: Oracle, tmp_path: Path) -> None:
    """Where a segment's records that are late enough lie below the log start, later ones are not asked."""
    path = tmp_path / "ours-0"
    with Log.open(path, CONFIG, clean=True, now_ms=Clock(NOW_MS)) as log:
        for times in ((5, 100, 20), (30, 40), (90, 110, 120), (15,)):
            for time in times:
                log.append_as_leader([Record(b"v", b"k", (), NOW_MS + time)])
            log.roll()
    asked = [NOW_MS + time for time in (0, 5, 20, 21, 30, 90, 100, 101, 115, 120, 121)]
    for start in (0, 1, 2, 3, 4, 6, 8):
        config = KAFKA_CONFIG
        told = oracle.lookups(path, timestamps=asked, log_start=start, config=config, now_ms=NOW_MS)
        with Log.open(path, CONFIG, clean=True, log_start_offset=start, now_ms=Clock(NOW_MS)) as log:
            assert list(answers(log, told)) == told, start
            log.update_high_watermark(log.log_end_offset)
            for time in asked:
                later = [one for one in _everything(log) if one.offset >= start and one.timestamp >= time]
                found = log.first_offset_at(time)
                assert (found and found.offset) == (later[0].offset if later else None)


# A broker


@pytest.mark.slow
def test_a_broker_boots_on_what_we_wrote(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    path = root / "ours-0"
    with Log.open(path, CONFIG, topic_id=random_id(), clean=True, now_ms=Clock(NOW_MS)) as log:
        for number in range(100):
            records = [Record(f"{number} {i}".encode(), b"k", (), NOW_MS + number) for i in range(7)]
            log.append_as_leader(records, leader_epoch=number // 40, codec=list(Codec)[number % 5])
        expected = [(one.offset, one.value) for one in _everything(log)]
    write_clean_shutdown(LOCAL, root / ".kafka_cleanshutdown", -1)
    before = data_files(path)
    with oracle.broker(root, adopt=True) as broker:
        consumer = Consumer(
            {"bootstrap.servers": broker.address, "group.id": "test", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition("ours", 0, 0)])
        messages = consumer.consume(len(expected), timeout=60)
        consumer.close()
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        for number in range(5):
            producer.produce("ours", f"more {number}".encode(), b"k")
        assert producer.flush(30) == 0
    assert [(message.offset(), message.value()) for message in messages] == expected
    after = data_files(path)
    assert all(after[name].startswith(data) for name, data in before.items() if name.endswith(".log"))
    with Log.open(path, CONFIG, clean=True) as log:
        found = [(one.offset, one.value) for one in _everything(log)]
    assert found[: len(expected)] == expected
    assert [value for _, value in found[len(expected) :]] == [f"more {n}".encode() for n in range(5)]


def _everything(log: Log) -> list[Any]:
    return [one for segment in log.segments for one in decode_records(segment.buffer())]
