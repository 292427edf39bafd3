"""A real REST catalog: the server that Apache Iceberg tests its clients with, from Maven Central.

It runs in a process of its own, with its catalog in SQLite. Its jars are kept beside Kafka's, in a directory
that appears by rename when complete.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.oracle.jars import SHORT_LIVED_JVM, Kafka, OracleError, OracleUnavailableError
from tests.ports import free_port

__all__ = ["running_catalog"]

VERSION = "1.10.0"
_JETTY, _HADOOP = "11.0.25", "3.4.1"
_JARS = (
    ("org.apache.iceberg", "iceberg-core", VERSION, ""),
    ("org.apache.iceberg", "iceberg-core", VERSION, "tests"),
    ("org.apache.iceberg", "iceberg-open-api", VERSION, "test-fixtures"),
    ("org.eclipse.jetty", "jetty-servlet", _JETTY, ""),
    ("org.eclipse.jetty", "jetty-server", _JETTY, ""),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
    ("org.apache.hadoop", "hadoop-client-api", _HADOOP, ""),
    ("org.apache.hadoop", "hadoop-client-runtime", _HADOOP, ""),
    ("org.slf4j", "slf4j-simple", "2.0.17", ""),
    ("org.junit.jupiter", "junit-jupiter-api", "5.12.2", ""),
    ("org.assertj", "assertj-core", "3.27.3", ""),
)
_FETCH_LIMIT_S = 600.0
_START_LIMIT_S = 200.0


def catalog_jars() -> Path:
    """Where the server's jars are. Raises `OracleUnavailableError`."""
    directory = Kafka.obtain().cache / f"iceberg-rest-{VERSION}"
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
            made = Path(scratch, directory.name)
            Path(scratch, "pom.xml").write_text(_pom())
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
            command = ["mvn", "-q", "-B", goal, f"-DoutputDirectory={made}"]
            try:
                subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=_FETCH_LIMIT_S)
            except (OSError, subprocess.SubprocessError) as failure:
                raise OracleUnavailableError(f"Iceberg's REST catalog cannot be had: {failure}") from failure
            if not directory.is_dir():
                made.rename(directory)
    return directory


def _pom() -> str:
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{f'<classifier>{kind}</classifier>' if kind else ''}</dependency>"
        for group, name, version, kind in _JARS
    )
    own = "<groupId>tests</groupId><artifactId>rest</artifactId><version>1</version>"
    return f"<project><modelVersion>4.0.0</modelVersion>{own}<dependencies>{wanted}</dependencies></project>"


@contextlib.contextmanager
def running_catalog(directory: Path) -> Iterator[str]:
    """The URL of a catalog whose tables are in a directory. Raises `OracleUnavailableError`."""
    jars, port = catalog_jars(), free_port()
    settings = {
        "CATALOG_WAREHOUSE": f"file://{directory}/warehouse",
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{directory}/catalog.db",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_REST_PORT": str(port),
    }
    main = ["-cp", f"{jars}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    log = directory / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["java", "-Xmx512m", *SHORT_LIVED_JVM, *main],
            env=os.environ | settings,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _await(url, process, log)
        yield url
    finally:
        process.kill()
        process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/v1/config", timeout=5):
            return
        time.sleep(0.2)
    raise OracleError(f"the REST catalog did not come up: {log.read_text()[-2000:]}")
