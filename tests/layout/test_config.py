"""The configuration of a topic's logs, from the metadata and from what is asked for."""

from __future__ import annotations

import pytest

from tidelog.config import LogConfig
from tidelog.errors import ConfigError
from tidelog.layout.config import log_config

DEFAULTS = LogConfig(segment_ms=5, retention_ms=7)


def test_each_level_goes_over_the_one_before() -> None:
    config = log_config(
        {"retention.ms": "8", "segment.bytes": "2000000"}, DEFAULTS, {"segment.bytes": 3_000_000}
    )
    assert (config.segment_ms, config.retention_ms, config.segment_bytes) == (5, 8, 3_000_000)
    assert log_config({}) == LogConfig()


def test_what_another_version_has_set_is_left_out_and_what_is_asked_for_is_not() -> None:
    assert log_config({"some.later.key": "1", "retention.ms": "8"}, DEFAULTS).retention_ms == 8
    with pytest.raises(ConfigError, match="unknown topic config"):
        log_config({}, DEFAULTS, {"some.later.key": "1"})
