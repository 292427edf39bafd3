"""An export in a process of its own, to be killed: `python -m tests.spark.export_driver LOG TARGET`."""

from __future__ import annotations

import sys

import tidelog.spark
from tests.spark.conftest import SETTINGS
from tidelog.spark.exporting.parquet import ParquetSettings


def main(log: str, target: str) -> None:
    """Exports what is new."""
    spark = tidelog.spark.session("local[2]", config=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    print("started", flush=True)
    settings = ParquetSettings(file_bytes=200_000, row_group_rows=2000)
    tidelog.spark.export(spark, log, target, value_format="string", settings=settings)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
