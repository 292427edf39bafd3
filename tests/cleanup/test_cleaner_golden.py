"""Golden partitions cleaned, and cleaned again past the delete horizon: as Kafka's Cleaner leaves them."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cleanup.cleaning import clean_directory, records_of
from tests.golden import GOLDEN, golden_partition, read_json_lines
from tests.log.logs import golden_config
from tidelog.types import Codec

NAMES = sorted(path.name.split(".")[0] for path in (GOLDEN / "expected").glob("*.cleaned1.jsonl.gz"))
OPENED_MS = 1_794_740_000_000
"""When Kafka opened them: the producers are not forgotten yet."""

CLEANED_MS = (1_800_000_000_000, 1_800_200_000_000)


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """A record of ours in the words of the golden answers."""
    attributes = record["attributes"]
    sequence = record["base_sequence"]
    return {
        "offset": record["offset"],
        "timestamp": record["timestamp_ms"],
        "timestamp_type": "LogAppendTime" if attributes & 8 else "CreateTime",
        "key": _text(record["key"]),
        "value": _text(record["value"]),
        "headers": [[header["key"], _text(header["value"])] for header in record["headers"] or ()],
        "magic": record["magic"],
        "codec": Codec(attributes & 7).label,
        "base_offset": record["base_offset"],
        "leader_epoch": record["leader_epoch"],
        "producer_id": record["producer_id"],
        "producer_epoch": record["producer_epoch"],
        "sequence": sequence if sequence < 0 else sequence + record["offset"] - record["base_offset"],
        "transactional": bool(attributes & 16),
        "control": bool(attributes & 32),
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def told(path: Path) -> list[dict[str, Any]]:
    """All records of a partition in the words of the golden answers."""
    return [_told(record) for record in records_of(path)]


def kafkas(name: str, number: int) -> list[dict[str, Any]]:
    """What Kafka left of a golden partition when it had cleaned it so many times."""
    expected = read_json_lines(GOLDEN / "expected" / f"{name}.cleaned{number}.jsonl.gz")
    for record in expected:  # another compressor, other positions
        del record["position"]
    return expected


def test_there_are_golden_answers() -> None:
    assert len(NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_is_what_kafka_leaves(name: str, tmp_path: Path) -> None:
    partition = golden_partition(name)
    path = shutil.copytree(partition.directory, tmp_path / name)
    before = records_of(path)
    for number, clean_at_ms in enumerate(CLEANED_MS, 1):
        clean_directory(path, golden_config(partition), clean_at_ms=clean_at_ms, now_ms=OPENED_MS)
        expected = kafkas(name, number)
        assert told(path) == expected
        assert len(expected) < len(before)
        before = expected
