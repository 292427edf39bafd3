"""File and directory names, as Kafka makes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN
from tidelog.errors import InvalidInputError
from tidelog.storage.names import (
    DirectoryState,
    FileKind,
    PartitionDirectoryName,
    SegmentFileName,
    Transient,
    format_partition_directory,
    format_segment_file,
    is_internal_topic,
    parse_partition_directory,
    parse_segment_file,
    topic_fault,
    validate_topic,
)
from tidelog.types import TopicPartition

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda topic: topic not in (".", ".."))
PARTITIONS = st.integers(0, 2**31 - 1)


def test_every_golden_name_is_understood() -> None:
    for directory in (*(GOLDEN / "clean").iterdir(), *(GOLDEN / "legacy").iterdir()):
        if not directory.is_dir():
            continue
        parsed = parse_partition_directory(directory.name)
        assert parsed.state is DirectoryState.LIVE
        assert format_partition_directory(parsed.topic_partition) == directory.name
        for path in directory.iterdir():
            found = parse_segment_file(path.name)
            if path.suffix in {kind.value for kind in FileKind}:
                assert found is not None
                assert str(found) == path.name
            else:
                assert found is None


@given(st.integers(0, 2**63 - 1), st.sampled_from(FileKind), st.sampled_from(Transient))
def test_segment_file_names_round_trip(offset: int, kind: FileKind, transient: Transient) -> None:
    name = format_segment_file(offset, kind, transient)
    assert parse_segment_file(name) == SegmentFileName(offset, kind, transient)


def test_segment_file_names_as_they_look() -> None:
    assert format_segment_file(42, FileKind.LOG) == "00000000000000000042.log"
    assert (
        format_segment_file(42, FileKind.TIME_INDEX, Transient.SWAP) == "00000000000000000042.timeindex.swap"
    )
    with pytest.raises(InvalidInputError, match="-1"):
        format_segment_file(-1, FileKind.LOG)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "42.log",
        "00000000000000000042",
        "00000000000000000042.logs",
        "00000000000000000042.log.tmp",
        "00000000000000000042.log.swap.deleted",
        "-0000000000000000042.log",
        "99999999999999999999.log",
        "00000000000000000042.log\n",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
def test_other_names_are_no_segment_files(name: str) -> None:
    assert parse_segment_file(name) is None


@given(TOPICS, PARTITIONS)
def test_partition_directory_names_round_trip(topic: str, partition: int) -> None:
    tp = TopicPartition(topic, partition)
    assert parse_partition_directory(format_partition_directory(tp)) == PartitionDirectoryName(tp)
    future = parse_partition_directory(format_partition_directory(tp, DirectoryState.FUTURE))
    assert (future.topic_partition, future.state) == (tp, DirectoryState.FUTURE)


@given(TOPICS, PARTITIONS, st.sampled_from([DirectoryState.DELETE, DirectoryState.STRAY]))
def test_marked_names_are_cut_to_255(topic: str, partition: int, state: DirectoryState) -> None:
    name = format_partition_directory(TopicPartition(topic, partition), state)
    assert len(name) == min(255, len(f"{topic}-{partition}.{'0' * 32}{state.value}"))
    parsed = parse_partition_directory(name)
    assert topic.startswith(parsed.topic_partition.topic)
    assert parsed.topic_partition.partition == partition
    assert len(parsed.unique_id) == 32
    assert parsed.state is state


def test_marked_names_as_they_look() -> None:
    tp = TopicPartition("my-topic.x", 7)
    unique_id = "0123456789abcdef0123456789abcdef"
    name = format_partition_directory(tp, DirectoryState.DELETE, unique_id)
    assert name == "my-topic.x-7.0123456789abcdef0123456789abcdef-delete"
    assert parse_partition_directory(name) == PartitionDirectoryName(tp, DirectoryState.DELETE, unique_id)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lost+found",
        "topic",
        "-0",
        "topic-",
        "topic-x",
        "topic-1x",
        "topic--1x",
        "topic-01",
        "topic-+1",
        "topic-2147483648",
        "topic-0-delete",
        "topic-0.-delete",
        "topic.0123-delete",
        "topic-x.0123-future",
        "to pic-0.0123-stray",
    ],
)
def test_other_directories_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="holds partitions only"):
        parse_partition_directory(name)


@given(TOPICS)
def test_legal_topics(topic: str) -> None:
    validate_topic(topic)


@pytest.mark.parametrize("topic", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a:b"])
def test_illegal_topics(topic: str) -> None:
    assert topic_fault(topic)
    with pytest.raises(InvalidInputError):
        validate_topic(topic)


def test_internal_topics() -> None:
    assert is_internal_topic("__consumer_offsets")
    assert not is_internal_topic("__cluster_metadata")
