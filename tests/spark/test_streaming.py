"""The stream reader by itself: offsets, limits, restarts, logs that grow, shrink, come and go."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tests.spark.writer import LogWriter
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.records.schema import Projection
from tidelog.scanning.partitions import Partition
from tidelog.spark.source import streaming
from tidelog.spark.source.batch import SplitPartition
from tidelog.spark.source.offsets import present_partitions
from tidelog.spark.source.options import SourceOptions
from tidelog.spark.source.schemas import Wanted
from tidelog.spark.source.streaming import StreamReader, decode_offset, encode_offset
from tidelog.spark.source.trigger_limits import Patience, limit_offsets
from tidelog.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ALL = ReadAllAvailable()
VALUES = Wanted(Projection(("offset", "value")), Projection(("offset", "value")).schema)


def reader(path: Path, **options: object) -> StreamReader:
    values = {name.replace("__", "."): str(value) for name, value in options.items()}
    return StreamReader(SourceOptions.parse({"path": str(path)} | values), VALUES)


def read(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        value
        for split in stream.partitions(start, end)
        for batch in stream.read(split)
        for value in batch.column("value").to_pylist()
    ]


def numbers(first: int, last: int) -> list[bytes]:
    return [str(n).encode() for n in range(first, last)]


def test_offsets_are_text_that_compares() -> None:
    offsets = {B0: 7, TopicPartition("a", 10): 5, TopicPartition("a", 9): 4}
    encoded = encode_offset(offsets)
    assert json.dumps(encoded) == '{"a": {"9": 4, "10": 5}, "b": {"0": 7}}'
    assert json.dumps(encode_offset(dict(reversed(offsets.items())))) == json.dumps(encoded)
    assert decode_offset(json.loads(json.dumps(encoded)) | {"@initial": True}) == offsets


def test_a_growing_log_is_followed(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0, batches_per_segment=3)
    writer.append(numbers(0, 5))
    stream = reader(tmp_path, startingOffsets="earliest")
    start = stream.initialOffset()
    assert start == {"events": {"0": 0}, "@initial": True}
    got: list[bytes] = []
    for n in range(12):
        end = stream.latestOffset(start, ALL)
        assert decode_offset(end) == {TopicPartition("events", 0): 5 * (n + 1)}
        got += read(stream, start, end)
        assert stream.latestOffset(end, ALL) == end
        start = end
        writer.append(numbers(5 * (n + 1), 5 * (n + 2)))
    assert got == numbers(0, 60)
    assert len(list(writer.directory.glob("*.log"))) == 5


def test_a_batch_half_written_is_not_seen(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    writer.append(numbers(0, 5))
    log = next(writer.directory.glob("*.log"))
    whole = log.read_bytes()
    stream = reader(tmp_path, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    writer.append(numbers(5, 10))
    complete = log.read_bytes()
    for cut in (len(whole) + 1, len(whole) + 30, len(complete) - 1):
        log.write_bytes(complete[:cut])
        assert stream.latestOffset(end, ALL) == end
    log.write_bytes(complete)
    assert read(stream, end, stream.latestOffset(end, ALL)) == numbers(5, 10)


def test_latest_means_the_end_when_the_query_began_also_after_a_crash(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    writer.append(numbers(0, 5))
    stream = reader(tmp_path)
    start = stream.initialOffset()
    writer.append(numbers(5, 10))
    assert stream.initialOffset() == start
    end = stream.latestOffset(start, ALL)
    writer.append(numbers(10, 15))
    again = reader(tmp_path)  # the first batch was written down, not run, and the driver died
    new_start = again.initialOffset()
    assert decode_offset(new_start) == {TopicPartition("events", 0): 15}
    assert read(again, new_start, end) == numbers(5, 10)
    after = again.latestOffset(end, ALL)
    assert "@start" not in after
    assert read(again, end, after) == numbers(10, 15)


def test_a_first_batch_without_data(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    writer.append(numbers(0, 5))
    stream = reader(tmp_path)
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) == start
    assert stream.partitions(start, start) == []
    writer.append(numbers(5, 7))
    assert read(stream, start, stream.latestOffset(start, ALL)) == numbers(5, 7)


def test_new_partitions_are_read_from_their_start(tmp_path: Path) -> None:
    LogWriter(tmp_path, "events", 0).append(numbers(0, 5))
    stream = reader(tmp_path, subscribe="events")
    start = stream.initialOffset()
    LogWriter(tmp_path, "events", 1).append(numbers(5, 8))
    LogWriter(tmp_path, "others", 0).append(numbers(50, 60))
    end = stream.latestOffset(start, ALL)
    assert decode_offset(end) == {TopicPartition("events", 0): 5, TopicPartition("events", 1): 3}
    assert read(stream, start, end) == numbers(5, 8)
    assert stream.reportLatestOffset() == encode_offset(decode_offset(end))


def test_a_pattern_may_match_nothing_yet(tmp_path: Path) -> None:
    stream = reader(tmp_path, subscribePattern="ev.*")
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) == start
    LogWriter(tmp_path, "events", 0).append(numbers(0, 3))
    assert read(stream, start, stream.latestOffset(start, ALL)) == numbers(0, 3)
    with pytest.raises(InvalidInputError, match="option subscribe: no topic nosuch"):
        reader(tmp_path, subscribe="nosuch").initialOffset()


def test_at_most_so_many_offsets_in_proportion(tmp_path: Path) -> None:
    for partition, count in ((0, 90), (1, 10)):
        LogWriter(tmp_path, "events", partition).append(numbers(0, count))
    stream = reader(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    assert stream.getDefaultReadLimit() == ReadMaxRows(20)
    start = stream.initialOffset()
    sizes = []
    while (end := stream.latestOffset(start, ReadMaxRows(20))) != start:
        sizes.append(len(read(stream, start, end)))
        start = end
    assert sum(sizes) == 100
    assert max(sizes) <= 20
    assert stream.latestOffset(stream.initialOffset(), ALL) == end | {"@start": {"events": {"0": 0, "1": 0}}}


def test_shares_of_a_limit() -> None:
    start = {A0: 0, A1: 100, B0: 50}
    assert limit_offsets(start, {A0: 900, A1: 200, B0: 50}, 100) == {A0: 90, A1: 110, B0: 50}
    assert limit_offsets(start, {A0: 900, A1: 101, B0: 50}, 3) == {A0: 2, A1: 101, B0: 50}
    assert limit_offsets(start, {A0: 5, A1: 90, B0: 50}, 100) == {A0: 5, A1: 90, B0: 50}


def test_patience() -> None:
    patience = Patience(10, 1000)
    assert not patience.waits(1, 0.0), "a first batch does not wait"
    assert patience.waits(9, 999.0)
    assert not patience.waits(10, 999.0)
    assert patience.waits(5, 1998.0)
    assert not patience.waits(5, 1999.0)


def test_at_least_so_many_offsets(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    writer.append(numbers(0, 5))
    stream = reader(tmp_path, startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="1h")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    start = stream.latestOffset(stream.initialOffset(), limit)
    writer.append(numbers(5, 10))
    assert stream.latestOffset(start, limit) == start
    writer.append(numbers(10, 15))
    assert read(stream, start, stream.latestOffset(start, limit)) == numbers(5, 15)


def test_available_now_stops_where_it_was_settled(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    writer.append(numbers(0, 5))
    stream = reader(tmp_path, startingOffsets="earliest", minOffsetsPerTrigger=100)
    stream.prepareForTriggerAvailableNow()
    writer.append(numbers(5, 10))
    LogWriter(tmp_path, "events", 1).append(numbers(10, 15))
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert decode_offset(end)[TopicPartition("events", 0)] == 5
    assert stream.latestOffset(end, ALL) == end
    next_run = reader(tmp_path)
    next_run.prepareForTriggerAvailableNow()
    last = next_run.latestOffset(end, ALL)
    assert sorted(read(next_run, end, last)) == sorted(numbers(5, 15))


def test_committed_streams_stop_at_the_stable_offset(tmp_path: Path) -> None:
    golden = golden_partition("golden-txn-0")
    directory = tmp_path / golden.name
    directory.mkdir()
    stream = reader(tmp_path, startingOffsets="earliest", kafka__isolation__level="read_committed")
    start = stream.initialOffset()
    got: list[int] = []
    for base in [log.stem for log in golden.logs()]:
        for file in golden.directory.glob(f"{base}*"):
            shutil.copy(file, directory)
        end = stream.latestOffset(start, ALL)
        got += [
            offset
            for split in stream.partitions(start, end)
            for batch in stream.read(split)
            for offset in batch.column("offset").to_pylist()
        ]
        start = end
    assert got == sorted(expected.visible(golden, 1390))
    assert decode_offset(start) == {TopicPartition("golden-txn", 0): 1390}


class TestDataLoss:
    def test_retention_overtakes_a_query(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path, "events", 0, batches_per_segment=1)
        for n in range(4):
            writer.append(numbers(5 * n, 5 * n + 5))
        stream = reader(tmp_path, startingOffsets="earliest")
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        (writer.directory / f"{0:020}.log").unlink()
        with pytest.raises(DataLossError, match="offsets 0 to 4 of events-0 are gone: its log starts at 5"):
            stream.partitions(start, end)
        assert read(reader(tmp_path, failOnDataLoss=False), start, end) == numbers(5, 20)

    def test_a_log_is_cut_back(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path, "events", 0, batches_per_segment=1)
        for n in range(4):
            writer.append(numbers(5 * n, 5 * n + 5))
        stream, lenient = (
            reader(tmp_path, startingOffsets="earliest", failOnDataLoss=f) for f in (True, False)
        )
        end = stream.latestOffset(stream.initialOffset(), ALL)
        (writer.directory / f"{15:020}.log").unlink()
        with pytest.raises(DataLossError, match="the log of events-0 was cut back from offset 20 to 15"):
            stream.latestOffset(end, ALL)
        back = lenient.latestOffset(end, ALL)
        assert decode_offset(back) == {TopicPartition("events", 0): 15}
        assert lenient.partitions(end, back) == []

    def test_a_log_cut_back_inside_a_segment_and_written_anew(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path, "events", 0)
        writer.append(numbers(0, 5))
        log = next(writer.directory.glob("*.log"))
        short = log.read_bytes()
        writer.append(numbers(5, 10))
        stream = reader(tmp_path, startingOffsets="earliest", failOnDataLoss=False)
        stream.latestOffset(stream.initialOffset(), ALL)
        log.write_bytes(short)
        other = LogWriter(tmp_path / "other", "events", 0)
        other.next_offset = 5
        for n in range(5):
            other.append([b"a longer value than before"] * (n + 1))
        log.write_bytes(short + (other.directory / f"{5:020}.log").read_bytes())
        end = stream.latestOffset({"events": {"0": 5}}, ALL)
        assert decode_offset(end) == {TopicPartition("events", 0): 20}
        assert len(read(stream, {"events": {"0": 5}}, end)) == 15

    def test_a_partition_goes(self, tmp_path: Path) -> None:
        for partition in (0, 1):
            LogWriter(tmp_path, "events", partition).append(numbers(0, 5))
        stream = reader(tmp_path, startingOffsets="earliest")
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        shutil.rmtree(tmp_path / "events-1")
        with pytest.raises(DataLossError, match="events-1 of this query is gone"):
            stream.latestOffset(end, ALL)
        with pytest.raises(DataLossError, match="events-1 is gone: offsets 0 to 4 cannot be read"):
            stream.partitions(start, end)
        lenient = reader(tmp_path, failOnDataLoss=False)
        assert read(lenient, start, end) == numbers(0, 5)
        assert decode_offset(lenient.latestOffset(end, ALL)) == {TopicPartition("events", 0): 5}

    def test_a_new_partition_that_lacks_its_start(self, tmp_path: Path) -> None:
        stream = reader(tmp_path, subscribePattern=".*")
        start = stream.initialOffset()
        shutil.copytree(GOLDEN / "clean" / "golden-trimmed-0", tmp_path / "golden-trimmed-0")
        (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ngolden-trimmed 0 333\n")
        end = stream.latestOffset(start, ALL)
        with pytest.raises(DataLossError, match="offsets 0 to 332 of golden-trimmed-0 are gone"):
            stream.partitions(start, end)


class TestPlans:
    """A batch is planned from what was found where it ends, as long as that is still so."""

    @pytest.fixture
    def listed(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        """How often partitions were listed."""
        asked: list[object] = []

        def counted(options: SourceOptions) -> list[Partition]:
            asked.append(options)
            return present_partitions(options)

        monkeypatch.setattr(streaming, "present_partitions", counted)
        return asked

    def stream(self, root: Path) -> tuple[StreamReader, LogWriter]:
        """A stream that has been at the end of a log long enough to be sure of its directory."""
        writer = LogWriter(root, "events", 0, batches_per_segment=3)
        writer.append(numbers(0, 5))
        stream = reader(root)
        stream.latestOffset(stream.initialOffset(), ALL)
        time.sleep(0.06)  # longer than the tick that a listing waits for
        return stream, writer

    def test_what_was_found_is_not_looked_for_again(self, tmp_path: Path, listed: list[object]) -> None:
        stream, writer = self.stream(tmp_path)
        writer.append(numbers(5, 10))
        start = {"events": {"0": 5}}
        end = stream.latestOffset(start, ALL)
        listed.clear()
        assert read(stream, start, end) == numbers(5, 10)
        assert not listed
        assert read(stream, start, end) == numbers(5, 10)  # run again: files are looked at again
        assert len(listed) == 1
        restarted = reader(tmp_path)
        assert read(restarted, start, end) == numbers(5, 10)
        assert len(listed) == 2

    def test_further_than_was_found(self, tmp_path: Path, listed: list[object]) -> None:
        stream, writer = self.stream(tmp_path)
        end = stream.latestOffset({"events": {"0": 0}}, ALL)
        writer.append(numbers(5, 10))
        listed.clear()
        assert read(stream, end, {"events": {"0": 10}}) == numbers(5, 10)
        assert listed

    @pytest.mark.parametrize("deed", ["roll", "retain", "go", "cut"])
    def test_what_has_changed_since_is_seen(self, tmp_path: Path, deed: str) -> None:
        stream, writer = self.stream(tmp_path)
        writer.append(numbers(5, 10))
        writer.append(numbers(10, 15))
        start = {"events": {"0": 0}}
        end = stream.latestOffset(start, ALL)
        log = writer.directory / f"{0:020}.log"
        if deed == "roll":
            writer.append(numbers(15, 20))
            assert read(stream, start, end) == numbers(0, 15)
            return
        if deed == "retain":
            writer.append(numbers(15, 20))
            log.unlink()
        elif deed == "go":
            shutil.rmtree(writer.directory)
        else:
            log.write_bytes(log.read_bytes()[:-10])
        with pytest.raises(DataLossError):
            read(stream, start, end)
        lenient = reader(tmp_path, failOnDataLoss=False)
        assert deed == "cut" or read(lenient, start, end) == []


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_streams_have_no_end(tmp_path: Path, option: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": 5}.get(option, '{"a":{"0":5}}')
    with pytest.raises(InvalidInputError, match=f"option {option}: not valid in a streaming query"):
        reader(tmp_path, **{option: value})


def test_starting_points(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, "events", 0)
    for n in range(4):
        writer.append(numbers(5 * n, 5 * n + 5), timestamp=1000 + n)
    offset = TopicPartition("events", 0)
    by_time = reader(tmp_path, startingTimestamp=1002).initialOffset()
    assert decode_offset(by_time) == {offset: 10}
    explicit = reader(tmp_path, startingOffsets='{"events":{"0":7}}').initialOffset()
    assert decode_offset(explicit) == {offset: 7}
    with pytest.raises(InvalidInputError, match="must name every partition, events-0 too"):
        reader(tmp_path, startingOffsets='{"other":{"0":7}}').initialOffset()


def test_what_travels_to_executors_is_small(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    LogWriter(tmp_path, "events", 0).append(numbers(0, 5))
    stream = reader(tmp_path, startingOffsets="earliest")
    start = stream.initialOffset()
    splits = stream.partitions(start, stream.latestOffset(start, ALL))
    sent = cloudpickle.loads(cloudpickle.dumps(stream))
    assert not hasattr(sent, "_ends")
    (batch,) = sent.read(SplitPartition(splits[0].splits))
    assert batch.column("value").to_pylist() == numbers(0, 5)
