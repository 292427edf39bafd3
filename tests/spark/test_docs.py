"""The examples of docs/spark.md do what they say; in one Spark session, with all other tests'."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.test_docs import ROOT, run_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_document(ROOT / "docs/spark.md", tmp_path, monkeypatch)
