"""Rewriting on Spark leaves what the local command leaves, file by file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog.spark
from tests.rewriting.rewritten import files, root_with
from tidelog.errors import ChecksumError, InvalidInputError
from tidelog.rewriting.edits import Edits
from tidelog.rewriting.rewrite import Rewriting, rewrite_root, threads
from tidelog.scanning.filters import RecordFilter
from tidelog.storage import LOCAL
from tidelog.types import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("golden-txn-0", "golden-zstd-0", "golden-trimmed-0")
EDITS = Edits(RecordFilter(key_match="[37]$"), erase=True, codec=Codec.LZ4)


def kept_names(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in files(root).items() if ".tidelog" not in name}


def test_spark_leaves_what_the_local_command_leaves(spark: SparkSession, tmp_path: Path) -> None:
    ours, theirs = root_with(tmp_path / "a", *NAMES), root_with(tmp_path / "b", *NAMES)
    local = rewrite_root(Rewriting(LOCAL, str(ours), NAMES, EDITS), threads(LOCAL)).partitions
    planned = tidelog.spark.rewrite(spark, theirs, EDITS, dry_run=True).toArrow().to_pylist()
    done = tidelog.spark.rewrite(spark, theirs, EDITS).toArrow().to_pylist()
    assert done == planned
    erased = {str(one.partition): one.stats.records_erased for one in local}
    assert {f"{row['topic']}-{row['partition']}": row["records_erased"] for row in done} == erased
    assert kept_names(ours) == kept_names(theirs)


def test_what_fails_on_spark_leaves_the_root_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    root = root_with(tmp_path / "root", *NAMES)
    with pytest.raises(InvalidInputError, match="no topic missing"):
        tidelog.spark.rewrite(spark, root, EDITS, topics=["missing"])
    log = next(path for path in sorted((root / NAMES[1]).glob("*.log")) if path.stat().st_size > 200)
    data = bytearray(log.read_bytes())
    data[150] ^= 1
    log.write_bytes(data)
    before = files(root)
    with pytest.raises(ChecksumError):
        tidelog.spark.rewrite(spark, root, EDITS)
    assert files(root) == before
