"""A streaming query in a process of its own, to be killed: `python -m tests.spark.stream_driver ROOT OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import tidelog.spark
from tests.spark.conftest import SETTINGS


def main(root: Path, out: Path) -> None:
    """Copies topic `events` to Parquet files until it is killed."""
    spark = tidelog.spark.session("local[2]", config=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    stream = (
        spark.readStream.format("tidelog")
        .option("subscribePattern", "events")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load(str(root))
    )
    query = (
        stream.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start(str(out / "data"))
    )
    print("started", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
