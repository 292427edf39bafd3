"""Logs that Kafka's classes and ours look at, each with the same facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config import LogConfig
from tidelog.log import Log

__all__ = ["NOW", "opened"]

NOW = 1_700_000_000_000


def opened(case: Mapping[str, Any]) -> Log:
    """The log of a case, as the oracle's programs are told to open it."""
    return Log.open(
        case["dir"],
        LogConfig.from_properties(case["config"]),
        clean=True,
        log_start_offset=case["log_start"],
        high_watermark=case["high_watermark"],
        now_ms=lambda: NOW,
    )
