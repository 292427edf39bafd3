"""Spark's own Kafka connector, other jars and other versions of PySpark; programs in processes of their own.

The jars are kept beside Kafka's (tests/oracle/jars.py), in a directory that appears by rename when complete.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle.jars import Kafka, OracleUnavailableError

__all__ = ["connector_jars", "copy_artifact", "copy_jars", "pyspark_of", "run_script"]

ROOT = Path(__file__).parents[2]

# The newest that Maven Central has of each; the connector needs no other version of Spark than it finds.
ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
_LIMIT_S = 240.0
_PIP_LIMIT_S = 900.0


def connector_jars() -> str:
    """The jars as `spark.jars` takes them. Raises `OracleUnavailableError`."""
    return copy_jars("spark-connector-4.2.0", ARTIFACTS)


def copy_jars(name: str, artifacts: Sequence[str]) -> str:
    """Jars in a directory of that name, as `spark.jars` takes them. Raises `OracleUnavailableError`."""
    directory = Kafka.obtain().cache / name
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
            made = Path(scratch, directory.name)
            for artifact in artifacts:
                copy_artifact(artifact, made)
            if not directory.is_dir():
                made.rename(directory)
    return ",".join(str(jar) for jar in sorted(directory.glob("*.jar")))


def pyspark_of(version: str) -> Path:
    """A directory with a PySpark; it appears by rename when complete."""
    directory = Kafka.obtain().cache / f"pyspark-{version}"
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
            made = Path(scratch, directory.name)
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(made)]
            subprocess.run([*pip, f"pyspark=={version}"], check=True, timeout=_PIP_LIMIT_S)
            if not directory.is_dir():
                made.rename(directory)
    return directory


def copy_artifact(artifact: str, target: Path) -> None:
    """Have Maven copy an artifact into a directory. Raises `OracleUnavailableError`."""
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    command = ["mvn", "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=target.parent
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise OracleUnavailableError(f"{artifact} cannot be had: {failure}") from failure
    if done.returncode != 0:
        raise OracleUnavailableError(f"{artifact} cannot be had:\n{done.stdout[-1000:]}")


def run_script(
    script: str, *arguments: str, environment: Mapping[str, str] | None = None, limit_s: float = 280.0
) -> Any:
    """Run Python code in a process of its own; the JSON that is the last line of its output."""
    whole = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=whole | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
