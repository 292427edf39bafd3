"""The same rows as Spark's own Kafka connector reads from a real broker on the same directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.golden import GOLDEN
from tests.oracle import Oracle, OracleUnavailableError
from tests.spark.conftest import REQUIRE, SETTINGS, require_spark
from tests.spark.connector import connector_jars, run_script

TOPICS = (
    "golden-appendtime",
    "golden-compact",
    "golden-none",
    "golden-trimmed",
    "golden-txn",
    "golden-txncompact",
    "golden-unicode.topic_name-with-dash",
    "golden-zstd",
)

SCRIPT = """
import hashlib, json, sys
import tidelog.spark
servers, path, settings, queries = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
spark = tidelog.spark.session("local[2]", config=settings)
spark.sparkContext.setLogLevel("OFF")

def answer(format, options):
    where = {"kafka.bootstrap.servers": servers} if format == "kafka" else {"path": path}
    frame = spark.read.format(format).options(**where, **options).load()
    place = lambda row: (row["topic"], row["partition"], row["offset"])
    rows = sorted(frame.toArrow().to_pylist(), key=place)
    digest = hashlib.sha256("\\n".join(repr(row) for row in rows).encode()).hexdigest()
    return {"schema": frame.schema.jsonValue(), "rows": len(rows), "digest": digest, "first": repr(rows[:1])}

print(json.dumps([{format: answer(format, query) for format in ("kafka", "tidelog")} for query in queries]))
"""


@pytest.fixture
def jars() -> str:
    """The connector's jars."""
    require_spark()
    try:
        return connector_jars()
    except OracleUnavailableError as why:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but {why}", pytrace=False)
        pytest.skip(str(why))


def _queries() -> list[dict[str, Any]]:
    every = ",".join(TOPICS)
    timestamp = 1_700_002_000_000
    return [
        {"subscribe": every, "includeHeaders": "true"},
        {"subscribe": every, "kafka.isolation.level": "read_committed", "includeHeaders": "true"},
        {"subscribePattern": "golden-n.*|golden-u.*", "minPartitions": "7"},
        {
            "assign": '{"golden-none":[0]}',
            "startingOffsets": '{"golden-none":{"0":100}}',
            "endingOffsets": '{"golden-none":{"0":1200}}',
        },
        {"subscribe": "golden-none", "startingTimestamp": str(timestamp), "maxRecordsPerPartition": "50"},
        {
            "subscribe": "golden-zstd",
            "endingTimestamp": str(timestamp),
            "startingOffsets": '{"golden-zstd":{"0":-2}}',
        },
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_connector_reads_the_same(oracle: Oracle, jars: str, tmp_path: Path) -> None:
    import json

    root = tmp_path / "root"
    root.mkdir()
    for name in (*(f"{topic}-0" for topic in TOPICS),):
        shutil.copytree(GOLDEN / "clean" / name, root / name)
    for file in (GOLDEN / "clean").iterdir():
        if file.is_file() and file.name != "bootstrap.checkpoint":
            shutil.copy(file, root)
    queries = _queries()
    with oracle.broker(root, adopt=True) as broker:
        settings = SETTINGS | {"spark.jars": jars}
        found = run_script(
            SCRIPT,
            broker.address,
            str(GOLDEN / "clean"),
            json.dumps(settings),
            json.dumps(queries),
            limit_s=600,
        )
    for query, answers in zip(queries, found, strict=True):
        assert answers["tidelog"] == answers["kafka"], query
        assert answers["kafka"]["rows"] > 0, query
    assert found[1]["kafka"]["rows"] < found[0]["kafka"]["rows"]
