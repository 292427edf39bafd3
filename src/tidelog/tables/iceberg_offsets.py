"""Where partitions continue, as snapshots and properties of an Iceberg table have it (see `iceberg`)."""

from __future__ import annotations

import json
from typing import Any

from tidelog.errors import DataLossError
from tidelog.tables.table import Done
from tidelog.types import TopicPartition

__all__ = ["NO_ID", "OFFSETS", "moved_offsets", "offsets_text", "parse_offsets"]

OFFSETS = "tidelog.offsets"
NO_ID = "-"
"""Stands for the id of a topic that has none."""


def moved_offsets(now: Done, after: Done, moved: list[TopicPartition], gone: list[TopicPartition]) -> Done:
    """What the table has now, with our partitions moved."""
    offsets = {name: offset for name, offset in now.offsets.items() if name not in gone}
    ids = {name: known for name, known in now.ids.items() if name not in gone and name not in moved}
    offsets |= {name: after.offsets[name] for name in moved}
    ids |= {name: after.ids[name] for name in moved if name in after.ids}
    return Done(offsets, ids)


def offsets_text(done: Done, sequence: int) -> str:
    """Offsets as they are kept."""
    kept: dict[str, dict[str, dict[str, int]]] = {}
    for name in sorted(done.offsets):
        by_id = kept.setdefault(name.topic, {})
        by_id.setdefault(done.ids.get(name, NO_ID), {})[str(name.partition)] = done.offsets[name]
    return json.dumps({"sequence": sequence, "next": kept}, separators=(",", ":"))


def parse_offsets(text: str, name: str) -> dict[str, Any]:
    """What `offsets_text` has made; DataLossError if it is something else."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("next"), dict):
        raise DataLossError(
            f"{name} has no offsets in {OFFSETS}, but {text[:100]!r}: export to another table"
        )
    return found
