"""Logs in object storage: an S3 API on the loopback, read inside Spark's tasks, and exported to."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import GOLDEN, golden_partition
from tests.ports import free_port
from tests.scanning import expected
from tests.spark.conftest import SETTINGS, require_spark
from tests.spark.connector import run_script

NAMES = ("golden-none-0", "golden-txn-0", "golden-trimmed-0")

SCRIPT = """
import json, sys
import tidelog.spark
settings, out = json.loads(sys.argv[1]), sys.argv[2]
spark = tidelog.spark.session("local[2]", config=settings)
spark.sparkContext.setLogLevel("OFF")
read = lambda **options: spark.read.format("tidelog").options(**options)
offsets = lambda frame: sorted([row.topic, row.offset] for row in frame.select("topic", "offset").collect())
rows = read(minPartitions="12").load("s3://golden/clean")
values = rows.where("topic = 'golden-none'").selectExpr("hex(value) AS value").collect()
committed = read(**{"kafka.isolation.level": "read_committed"}).load("s3://golden/clean/golden-txn-0")
matched = read(startingOffsets='{"golden-none":{"0":700}}').load("s3://golden/clean/golden-n*")
stream = spark.readStream.format("tidelog").option("startingOffsets", "earliest").load("s3://golden/clean")
query = stream.writeStream.format("parquet").option("checkpointLocation", out + "/checkpoint")
query = query.trigger(availableNow=True).start(out + "/data")
query.awaitTermination(200)
export = tidelog.spark.export(spark, "s3://golden/clean", "s3://golden/lake", isolation="read_uncommitted")
exported = sum(row.records for row in export.collect())
again = tidelog.spark.export(spark, "s3://golden/clean", "s3://golden/lake", isolation="read_uncommitted")
import pyarrow.dataset as pd, s3fs
store = s3fs.S3FileSystem()
lake = pd.dataset("golden/lake", filesystem=store, partitioning="hive").to_table(columns=["topic", "offset"])
print(json.dumps({
    "rows": offsets(rows),
    "values": sorted(row.value or "" for row in values),
    "committed": offsets(committed),
    "matched": offsets(matched),
    "streamed": offsets(spark.read.parquet(out + "/data")),
    "exported": exported,
    "again": again.count(),
    "lake": sorted([row["topic"], row["offset"]] for row in lake.to_pylist()),
    "staging": store.find("golden/lake/_tidelog/staging"),
}))
"""


@pytest.fixture
def s3() -> Iterator[dict[str, str]]:
    """An S3 server with golden partitions in it; the environment that leads to it."""
    require_spark()
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        _await(environment["AWS_ENDPOINT_URL"])
        _upload(environment)
        yield environment
    finally:
        server.kill()
        server.wait()


def _await(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    pytest.fail("the S3 server did not come up")


def _upload(environment: dict[str, str]) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="golden")
    for path in (GOLDEN / "clean").rglob("*"):
        parts = path.relative_to(GOLDEN / "clean")
        if path.is_file() and (len(parts.parts) == 1 or parts.parts[0] in NAMES):
            client.put_object(Bucket="golden", Key=f"clean/{parts}", Body=path.read_bytes())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_golden_directory_from_s3(s3: dict[str, str], tmp_path: Path) -> None:
    found = run_script(SCRIPT, json.dumps(SETTINGS), str(tmp_path), environment=s3, limit_s=600)
    wanted = [
        [row["topic"], row["offset"]]
        for name in sorted(NAMES)
        for row in expected.rows(golden_partition(name), control=False)
    ]
    assert found["rows"] == wanted
    assert found["streamed"] == wanted
    assert found["exported"] == len(wanted)
    assert found["lake"] == wanted
    assert (found["again"], found["staging"]) == (0, [])
    none = expected.rows(golden_partition("golden-none-0"))
    assert found["values"] == sorted((row["value"] or b"").hex().upper() for row in none)
    visible = expected.visible(golden_partition("golden-txn-0"), 1390)
    assert found["committed"] == [["golden-txn", offset] for offset in sorted(visible)]
    assert found["matched"] == [["golden-none", offset] for offset in range(700, 1560)]
