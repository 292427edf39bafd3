"""The examples of the documents about Spark do what they say; in one session, with all other tests'."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.test_docs import ROOT, run_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(1200)  # each command with --spark starts Java anew
@pytest.mark.parametrize("name", ["spark.md", "spark-write.md", "tables.md", "guides/topic-to-parquet.md"])
def test_the_examples_run(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_document(ROOT / "docs" / name, tmp_path, monkeypatch)
