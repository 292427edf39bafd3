"""Errors of tasks, as they come back to the driver."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import DataLossError
from tidelog.manager.metadata.image import MetadataImage
from tidelog.spark.runtime.jobs import ours, run_job
from tidelog.spark.upkeep.retention import RETENTION_SCHEMA, RetentionWork, RootSplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL = "OSError: [Errno 28] No space left on device"
TRACE = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File 'x.py'\n"


def test_what_a_task_could_not_find_is_told_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    """So that a command tells it in a sentence, and a pipeline as a step that failed."""
    with pytest.raises(DataLossError, match=f"{tmp_path}/gone-0 was removed"):
        run_job(
            spark,
            RetentionWork(0),
            [RootSplit(str(tmp_path), ("gone-0",), MetadataImage())],
            RETENTION_SCHEMA,
        )


@pytest.mark.parametrize(
    ("told", "place"),
    [
        (f"{FULL}\n", None),
        (f"{FULL} (writing records of topic t): '/a/t-0'\n\tat org.apache.spark", "/a/t-0"),
        (
            f"{FULL}\n\nThe above exception was the direct cause:\n{FULL}: '/a/t-0'\nit is taken back",
            "/a/t-0",
        ),
    ],
)
def test_a_full_disk_is_told_with_its_place(told: str, place: str | None) -> None:
    found = ours(RuntimeError(TRACE + told))
    assert isinstance(found, OSError)
    assert (found.errno, found.filename) == (errno.ENOSPC, place)


def test_other_errors_come_first_or_as_they_are() -> None:
    gone = (
        "FileNotFoundError: [Errno 2] No such file or directory: '/a'\n\ntidelog.errors.DataLossError: gone"
    )
    assert isinstance(ours(RuntimeError(TRACE + gone)), DataLossError)
    broken = RuntimeError(TRACE + "BrokenPipeError: [Errno 32] Broken pipe")
    assert ours(broken) is broken
