"""Spark's classes as Java has them in memory, kept in a file: a session that maps it starts sooner.

`python -m tests.spark.archive` makes the file in the tests' cache, unless it is there. Java looks at it only
if it is of the same Java and the same jars; removing it is always safe.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cache import cache_directory

__all__ = ["QUICK_JAVA", "archive_path", "java_options"]

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests are over before Java's second compiler pays; without it a Spark session takes half the time."""

_SCRIPT = """
import sys
import tidelog.spark
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
spark = tidelog.spark.session("local[2]", config=settings)
spark.sparkContext.setLogLevel("OFF")
frame = spark.read.format("tidelog").load(sys.argv[1])
frame.groupBy("topic").count().collect()
frame.drop("headers").write.parquet(sys.argv[2])
spark.read.parquet(sys.argv[2]).count()
spark.stop()
"""


def archive_path() -> Path | None:
    """Where the file for this PySpark is or would be; None without PySpark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    jars = Path(found.origin).with_name("jars")
    names = sorted(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars.glob("*.jar"))
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    return cache_directory() / f"spark-{digest}.jsa"


def java_options() -> str:
    """What a driver's Java is told in tests."""
    path = archive_path()
    if path is None or not path.exists() or " " in str(path):
        return QUICK_JAVA
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={path} -Xlog:disable"


def main() -> int:
    """Makes the file if it is not there. Without Spark or Java there is nothing to do."""
    from tidelog.errors import InvalidInputError
    from tidelog.spark.runtime.sessions import require_java, require_pyspark

    path = archive_path()
    try:
        require_pyspark()
        require_java()
    except InvalidInputError as why:
        print(f"no archive of Spark's classes: {why}")
        return 0
    if path is None or path.exists():
        return 0
    golden = Path(__file__).parents[1] / "golden" / "clean"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as scratch:
        made = Path(scratch, path.name)
        options = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        # Its output ends when Java does, which is later than Python: that writes the file.
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(golden), str(Path(scratch, "out"))],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != 0 or not made.exists():
            print(f"no archive of Spark's classes:\n{done.stderr[-2000:]}")
            return 0
        made.rename(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
