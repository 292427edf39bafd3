"""The keys that a topic can have, as `tidelog config --list` shows them."""

from __future__ import annotations

from tidelog.cli.render.output import Column, Output
from tidelog.config import LogConfig
from tidelog.manager.brokerconfig import broker_keys

__all__ = ["list_keys"]

_KEYS = (
    Column("key", "KEY"),
    Column("type", "TYPE"),
    Column("default", "DEFAULT", right=True),
    Column("valid", "VALID", optional=True),
    Column("broker_keys", "BROKER'S", optional=True),
    Column("doc", "WHAT IT DOES", folds=True),
)


def list_keys(output: Output) -> None:
    """Every key that a topic can have."""
    rows = (
        (row.key, row.type.value, row.default_text, row.valid_values, " ".join(broker_keys(row.key)), row.doc)
        for row in LogConfig.keys().values()
        if not row.internal
    )
    output.table(_KEYS, rows)
