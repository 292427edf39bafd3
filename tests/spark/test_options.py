"""Options: what the connector takes is taken, what is wrong is refused under the option's name."""

from __future__ import annotations

import pickle

import pytest

from tidelog.errors import InvalidInputError
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.source.options import (
    EARLIEST,
    LATEST,
    Assigned,
    Everything,
    Matching,
    Offsets,
    SourceOptions,
    Subscribed,
    Timestamp,
    Timestamps,
)
from tidelog.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def parse(**options: object) -> SourceOptions:
    values = {"path": "/logs"} | {name.replace("__", "."): str(value) for name, value in options.items()}
    return SourceOptions.parse(values)


def test_the_defaults_are_the_connectors() -> None:
    options = parse()
    assert options == SourceOptions(("/logs",), given=frozenset({"path"}))
    assert options.selection == Everything()
    assert (options.starting, options.ending) == (None, None)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.committed_only
    assert options.max_trigger_delay_ms == 900_000
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_case_insensitive() -> None:
    options = SourceOptions.parse(
        {"PATH": "/a", "STARTINGOFFSETS": "Earliest", "Kafka.Isolation.Level": "READ_COMMITTED"}
    )
    assert options.starting == EARLIEST
    assert options.committed_only
    assert options.given == {"path", "startingOffsets", "kafka.isolation.level"}


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ("/a", ("/a",)),
        ('["/a", "s3://b/c"]', ("/a", "s3://b/c")),
        ("/a,b", ("/a,b",)),
        ("[ab]c-*", ("[ab]c-*",)),
    ],
)
def test_paths(value: str, paths: tuple[str, ...]) -> None:
    assert SourceOptions.parse({"path": value}).paths == paths
    assert SourceOptions.parse({"paths": '["/x","/y"]'}).paths == ("/x", "/y")


def test_selections() -> None:
    assert parse(subscribe=" a, b ,a,").selection == Subscribed(("a", "b"))
    assert parse(subscribePattern="a.*").selection == Matching("a.*")
    assert parse(assign='{"a":[0,1]}').selection == Assigned(frozenset({A0, A1}))


def test_bounds() -> None:
    assert parse(startingOffsets="earliest").starting == EARLIEST
    assert parse(endingOffsets="latest").ending == LATEST
    assert parse(startingOffsets='{"a":{"0":23,"1":-2}}').starting == Offsets({A0: 23, A1: -2})
    assert parse(endingOffsetsByTimestamp='{"a":{"0":1000}}').ending == Timestamps({A0: 1000})
    assert parse(startingTimestamp=5, startingOffsets="latest").starting == Timestamp(5)
    both = parse(startingOffsetsByTimestamp='{"a":{"0":7}}', startingOffsets='{"a":{"0":1}}')
    assert (both.starting, both.starting_option) == (Timestamps({A0: 7}), "startingOffsetsByTimestamp")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("2h", 7_200_000), ("250", 250), ("0", 0)],
)
def test_delays(text: str, ms: int) -> None:
    assert parse(maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_what_only_a_broker_needs_is_passed_over() -> None:
    parse(
        kafka__bootstrap__servers="localhost:9092",
        kafka__session__timeout__ms=10,
        kafkaConsumer__pollTimeoutMs=512,
        fetchOffset__numRetries=3,
        groupIdPrefix="x",
    )


def test_keys_that_a_catalog_adds_are_passed_over() -> None:
    SourceOptions.parse(
        {
            "path": "/a",
            "owner": "me",
            "provider": "tidelog",
            "location": "file:/a",
            "transient_lastDdlTime": "17",
            "option.startingOffsetsByTimestampStrategy": "latest",
        }
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffset": "x"},
            "option startingoffset: there is no such option; did you mean startingOffsets",
        ),
        ({"kafka.isolation.levels": "x"}, "did you mean kafka.isolation.level"),
        ({"includeHeader": "true"}, "did you mean includeHeaders"),
        ({"path": ""}, "option path: must not be empty"),
        ({"path": "[]"}, "option path: a list of paths must hold strings"),
        ({"path": "[1]"}, "option path: a list of paths must hold strings"),
        ({"subscribe": " , "}, "option subscribe: no topic"),
        ({"subscribePattern": "("}, "option subscribePattern: no regular expression"),
        ({"subscribePattern": " "}, "option subscribePattern: the pattern is empty"),
        (
            {"subscribePattern": "a*+"},
            "option subscribePattern: a possessive quantifier does not mean the same",
        ),
        ({"assign": "a,b"}, "option assign: not JSON"),
        ({"assign": "[1]"}, "option assign: must be a JSON object"),
        ({"assign": '{"a":[-1]}'}, "option assign: 'a' must have a list of partition numbers"),
        ({"assign": '{"a":[true]}'}, "option assign: 'a' must have a list of partition numbers"),
        ({"assign": "{}"}, "option assign: no partition is named"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "option subscribe: only one of assign and subscribe"),
        ({"startingOffsets": "first"}, "option startingOffsets: not JSON"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "option startingOffsets: -3 for a-0 is not an offset"),
        ({"startingOffsets": '{"a":{"0":"5"}}'}, "option startingOffsets: '5' for a-0 is not an offset"),
        ({"startingOffsets": '{"a":{"x":5}}'}, "option startingOffsets: must be a partition number, not 'x'"),
        ({"startingOffsets": '{"a":5}'}, "option startingOffsets: 'a' must have an object"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: cannot be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "option endingOffsets: cannot be earliest"),
        (
            {"startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"a":{"0":5}}'},
            "option endingOffsets: 5 for a-0 lies before startingOffsets, 9",
        ),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, "option endingTimestamp: 5 lies before 9"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp: must be a timestamp in ms"),
        ({"startingTimestamp": "-5"}, "option startingTimestamp: must be -2 or more"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-3}}'}, "option startingOffsetsByTimestamp: -3 for a-0"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "must be error or latest, not 'x'"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss: must be true or false, not 'maybe'"),
        ({"minPartitions": "0"}, "option minPartitions: must be 1 or more, not 0"),
        ({"maxRecordsPerPartition": "many"}, "option maxRecordsPerPartition: must be a number, not 'many'"),
        ({"maxBytesPerPartition": "-1"}, "option maxBytesPerPartition: must be 1 or more"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger: must be 1 or more"),
        (
            {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
            "6 is more than maxOffsetsPerTrigger, 5",
        ),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay: must be a time such as"),
        (
            {"kafka.isolation.level": "serializable"},
            "option kafka.isolation.level: must be read_uncommitted or",
        ),
        ({"upTo": "x"}, "option upTo: must be logEnd or highWatermark, not 'x'"),
        (
            {"kafka.Auto.Offset.Reset": "earliest"},
            "option kafka.auto.offset.reset: not supported",
        ),
        ({"kafka.value.deserializer": "x"}, "option kafka.value.deserializer: not supported"),
        ({"kafka.enable.auto.commit": "false"}, "option kafka.enable.auto.commit: not supported"),
        ({"kafka.interceptor.classes": "x"}, "option kafka.interceptor.classes: not supported"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        SourceOptions.parse({"path": "/logs"} | options)
    assert message in str(refused.value)


def test_a_path_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="option path: name a root or partition directory"):
        SourceOptions.parse({"subscribe": "a"})


def test_writes_refuse_serializers_and_reads_pass_over_them() -> None:
    """As the connector does, which has no serializers when it reads."""
    given = {"path": "/nowhere/logs", "kafka.key.serializer": "x"}
    with pytest.raises(InvalidInputError, match=r"option kafka\.key\.serializer: not supported"):
        SinkOptions.parse(given)
    SourceOptions.parse(given)
    SinkOptions.parse({"path": "/nowhere/logs", "kafka.auto.offset.reset": "earliest"})
