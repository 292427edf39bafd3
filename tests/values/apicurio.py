"""A real schema registry: Apicurio, from Maven Central, in a process of its own.

It answers Confluent's REST requests below `/apis/ccompat/v7` and has its schemas in memory. It is kept beside
Kafka's jars, in a directory that appears by rename when complete.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.jars import SHORT_LIVED_JVM, Kafka, OracleError
from tests.ports import free_port
from tests.spark.connector import copy_artifact

__all__ = ["Apicurio", "apicurio_directory", "running_apicurio"]

VERSION = "2.6.13.Final"
# The newest that runs on Java 17 and has a pom whose parents are there.
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_LIMIT_S = 200.0


@dataclass(frozen=True, slots=True)
class Apicurio:
    """A running registry."""

    url: str
    """What clients take."""
    process: subprocess.Popen[bytes]

    @property
    def root(self) -> str:
        """The server's own page: no registry for a client."""
        return self.url.removesuffix("/apis/ccompat/v7")

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait()


def apicurio_directory() -> Path:
    """Where its jars are. Raises `OracleUnavailableError`."""
    directory = Kafka.obtain().cache / f"apicurio-{VERSION}"
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
            packed, made = Path(scratch, "packed"), Path(scratch, directory.name)
            copy_artifact(ARTIFACT, packed)
            (archive,) = packed.glob("*.tar.gz")
            with tarfile.open(archive) as found:
                found.extractall(made, filter="data")
            if not directory.is_dir():
                made.rename(directory)
    return directory


@contextlib.contextmanager
def running_apicurio() -> Iterator[Apicurio]:
    """A registry without schemas. Raises `OracleUnavailableError` where it cannot be had."""
    (jar,) = apicurio_directory().glob("*-runner.jar")
    port = free_port()
    where = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    with tempfile.TemporaryDirectory(prefix="apicurio-") as scratch:
        log = Path(scratch, "log")
        with log.open("wb") as out:
            command = ["java", "-Xmx512m", *SHORT_LIVED_JVM, "-jar", str(jar)]
            process = subprocess.Popen(
                command, cwd=scratch, env=os.environ | where, stdout=out, stderr=subprocess.STDOUT
            )
        found = Apicurio(f"http://127.0.0.1:{port}/apis/ccompat/v7", process)
        try:
            _await(found, log)
            yield found
        finally:
            found.kill()


def _await(registry: Apicurio, log: Path) -> None:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end and registry.process.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{registry.url}/subjects", timeout=5),
        ):
            return
        time.sleep(0.2)
    raise OracleError(f"Apicurio did not start:\n{log.read_text(errors='replace')[-3000:]}")
