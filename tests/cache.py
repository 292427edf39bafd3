"""Where tests keep what takes long to get or make: Kafka's jars, compiled programs, Spark's classes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["KAFKA_VERSION", "cache_directory"]

KAFKA_VERSION = "4.3.0"


def cache_directory() -> Path:
    """`$TIDELOG_ORACLE_CACHE`, else a directory below the user's cache. Removing it is always safe."""
    chosen = os.environ.get("TIDELOG_ORACLE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "tidelog" / f"kafka-{KAFKA_VERSION}"
