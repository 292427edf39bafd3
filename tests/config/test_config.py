"""LogConfig against the table of keys, types, defaults and bounds that Kafka's own LogConfig lists."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import ConfigKey, ConfigType, LogConfig
from tidelog.errors import ConfigError
from tidelog.types import Codec, TimestampType

KAFKA = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden/expected/topic-configs.jsonl").read_text().splitlines()
]


def test_the_keys_are_kafkas() -> None:
    assert sorted(LogConfig.keys()) == [row["key"] for row in KAFKA]


@pytest.mark.parametrize("kafka", KAFKA, ids=lambda row: row["key"])
def test_a_row_is_kafkas(kafka: dict[str, object]) -> None:
    row = LogConfig.keys()[str(kafka["key"])]
    assert row.type.name == kafka["type"]
    assert row.valid_values == kafka["valid"]
    assert row.internal == kafka["internal"]
    assert row.doc
    if kafka["default"] is None:
        assert row.default is None
    else:
        assert row.parse(kafka["default"]) == row.default
    assert getattr(LogConfig(), row.attribute) == row.default


def test_an_attribute_is_its_key_with_underscores() -> None:
    assert [field.name for field in dataclasses.fields(LogConfig)] == [
        row.attribute for row in LogConfig.keys().values()
    ]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("segment.bytes", " 1048576 ", 1 << 20),
        ("internal.segment.bytes", "1", 1),
        ("retention.bytes", "-5", -5),
        ("flush.ms", "+0", 0),
        ("segment.ms", "9223372036854775807", (1 << 63) - 1),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("preallocate", "TRUE", True),
        ("preallocate", "false", False),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("compression.type", "uncompressed", "uncompressed"),
        ("cleanup.policy", "compact , delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("message.timestamp.type", "LogAppendTime", TimestampType.LOG_APPEND_TIME),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("follower.replication.throttled.replicas", "0:1,12:3", ("0:1", "12:3")),
    ],
)
def test_good_values_are_parsed(key: str, text: str, value: object) -> None:
    config = LogConfig.from_properties({key: text})
    assert getattr(config, LogConfig.keys()[key].attribute) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "1_048_576"),
        ("segment.bytes", "1048576.0"),
        ("segment.bytes", ""),
        ("segment.ms", "0"),
        ("segment.ms", "9223372036854775808"),
        ("retention.ms", "-2"),
        ("local.retention.ms", "-3"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "half"),
        ("preallocate", "yes"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.type", "none"),
        ("compression.type", "GZIP"),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "shred"),
        ("message.timestamp.type", "logappendtime"),
        ("message.timestamp.type", "NoTimestampType"),
        ("leader.replication.throttled.replicas", "0:1,*"),
    ],
)
def test_bad_values_are_refused_and_named(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        LogConfig.from_properties({key: text})


def test_unknown_keys_are_refused_and_named() -> None:
    with pytest.raises(ConfigError, match=r"message\.downconversion\.enable"):
        LogConfig.from_properties({"message.downconversion.enable": "true"})


@pytest.mark.parametrize(
    "values",
    [{"segment_bytes": 4096}, {"preallocate": 1}, {"segment_ms": True}, {"cleanup_policy": "compact"}],
)
def test_values_are_checked_however_a_config_is_made(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LogConfig(**values)
    with pytest.raises(ConfigError):
        dataclasses.replace(LogConfig(), **values)


def test_compaction_lags_must_not_cross() -> None:
    with pytest.raises(ConfigError, match=r"min.compaction.lag.ms=10 .* max.compaction.lag.ms=5"):
        LogConfig.from_properties({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_only_non_default_values_are_overrides() -> None:
    texts = {"segment.ms": "604800000", "preallocate": "true", "cleanup.policy": "compact,delete"}
    config = LogConfig.from_properties({**texts, "message.timestamp.type": "LogAppendTime"})
    assert config.overrides() == {
        "preallocate": "true",
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "LogAppendTime",
    }


def _values(row: ConfigKey) -> st.SearchStrategy[str]:
    match row.type:
        case ConfigType.BOOLEAN:
            return st.sampled_from(["true", "false"])
        case ConfigType.DOUBLE:
            return st.floats(0, 1).map(repr)
        case ConfigType.STRING:
            return st.sampled_from(sorted(row.words))
        case ConfigType.LIST if row.replicas:
            pairs = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda p: f"{p[0]}:{p[1]}")
            return st.lists(pairs, max_size=3).map(",".join)
        case ConfigType.LIST:
            return st.lists(st.sampled_from(sorted(row.words)), unique=True).map(",".join)
        case _:
            low = row.at_least if row.at_least is not None else 1
            return st.integers(low, row.at_most if row.at_most is not None else 1 << 30).map(str)


@given(st.fixed_dictionaries({}, optional={k: _values(r) for k, r in LogConfig.keys().items()}))
def test_overrides_read_back_to_the_same_config(properties: dict[str, str]) -> None:
    properties.pop("min.compaction.lag.ms", None)
    config = LogConfig.from_properties(properties)
    assert LogConfig.from_properties(config.overrides()) == config
    assert config.overrides().keys() <= properties.keys()


def test_defaults_can_be_another_config() -> None:
    base = LogConfig(retention_ms=-1, flush_messages=7)
    config = LogConfig.from_properties({"flush.messages": "8"}, base)
    assert (config.retention_ms, config.flush_messages) == (-1, 8)


def test_the_limits_in_force() -> None:
    config = LogConfig(
        segment_ms=1000, max_compaction_lag_ms=10, internal_segment_bytes=4096, preallocate=True
    )
    assert (config.max_segment_bytes, config.max_segment_ms, config.initial_file_bytes) == (4096, 1000, 4096)
    assert dataclasses.replace(config, cleanup_policy=("compact",)).max_segment_ms == 10
    assert LogConfig().max_segment_bytes == 1 << 30
    assert LogConfig().initial_file_bytes == 0
    assert LogConfig().delete
    assert not LogConfig().compact


def test_target_codec_and_level() -> None:
    assert LogConfig().target_codec(Codec.LZ4) is Codec.LZ4
    assert LogConfig(compression_type="uncompressed").target_codec(Codec.LZ4) is Codec.NONE
    assert LogConfig(compression_type="zstd").target_codec(Codec.NONE) is Codec.ZSTD
    assert [LogConfig().compression_level(codec) for codec in Codec] == [None] * 5
    config = LogConfig(compression_gzip_level=1, compression_lz4_level=3, compression_zstd_level=-7)
    assert [config.compression_level(codec) for codec in Codec] == [None, 1, None, 3, -7]
