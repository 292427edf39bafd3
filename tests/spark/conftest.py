"""One Spark session for all tests of the package: starting one takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tidelog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

REQUIRE = "TIDELOG_REQUIRE_ORACLE"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.stopTimeout": "30s",
}


def require_spark() -> None:
    """Skip where Spark cannot be had, or fail if CI says so."""
    from tidelog.spark.runtime.sessions import require_java, require_pyspark

    try:
        require_pyspark()
        require_java()
    except InvalidInputError as why:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but {why}", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two threads."""
    require_spark()
    import tidelog.spark

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {
        "spark.sql.warehouse.dir": scratch / "warehouse",
        "spark.local.dir": scratch / "local",
    }
    session = tidelog.spark.session("local[2]", app_name="tidelog-tests", config=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


class Source:
    """`spark.read.format("tidelog")` in one call."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, path: Any, schema: str | None = None, **options: Any) -> DataFrame:
        reader = self._spark.read.format("tidelog")
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        if schema is not None:
            reader = reader.schema(schema)
        paths = [str(each) for each in path] if isinstance(path, list) else str(path)
        return reader.load(paths)


@pytest.fixture(scope="session")
def source(spark: SparkSession) -> Source:
    """The batch source."""
    return Source(spark)


def direct(path: Any, schema: StructType | None = None, **options: Any) -> pa.Table:
    """What the source answers, asked without Spark, which takes seconds for a query."""
    pytest.importorskip("pyspark")
    from tidelog.spark.source.data_source import TidelogSource

    texts = {name.replace("__", "."): str(value) for name, value in options.items()}
    made = TidelogSource(texts | {"path": str(path)})
    wanted = made.schema() if schema is None else schema
    reader = made.reader(wanted)
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    return pa.Table.from_batches(batches, None if batches else pa.schema([]))


def rows(df: DataFrame) -> list[dict[str, Any]]:
    """A frame's rows as dicts, timestamps with their zone, in order of topic, partition and offset."""
    table = df.toArrow()
    found = table.to_pylist()
    keys = [name for name in ("topic", "partition", "offset") if name in table.column_names]
    return sorted(found, key=lambda row: tuple(row[key] for key in keys))


def forget_a_torn_start(checkpoint: Path) -> None:
    """Remove what Spark leaves of a query that was killed while it wrote down where its first batch ends.

    Nothing was read then, but Spark refuses the checkpoint (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).
    """
    offsets = checkpoint / "offsets"
    if offsets.exists() and not (offsets / "0").exists():
        for file in offsets.iterdir():
            file.unlink()


def golden_copy(name: str, target: Path) -> Path:
    """A copy of a golden partition that may be changed."""
    import shutil

    from tests.golden import golden_partition

    return Path(shutil.copytree(golden_partition(name).directory, target / name))
