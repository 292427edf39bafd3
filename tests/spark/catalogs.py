"""Real catalogs of Iceberg tables, each in a process of its own; each gives the properties that find it.

    rest    the server that Apache Iceberg tests its clients with, its catalog in SQLite
    hive    Hive's standalone metastore 3.1, its catalog in Derby, made by the schema that Iceberg tests with
    glue    moto's server, which stands in for AWS

Jars come from Maven Central. They are kept beside Kafka's, in a directory that appears by rename when it is
complete.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.oracle.jars import SHORT_LIVED_JVM, Kafka, OracleError, OracleUnavailableError
from tests.ports import free_port

__all__ = ["CATALOGS", "Properties"]

Properties = dict[str, str]
Jar = tuple[str, str, str, str]
"""Group, name, version and classifier."""

REST = "1.10.0"
_JETTY, _HADOOP = "11.0.25", "3.4.1"
_REST_JARS: tuple[Jar, ...] = (
    ("org.apache.iceberg", "iceberg-core", REST, ""),
    ("org.apache.iceberg", "iceberg-core", REST, "tests"),
    ("org.apache.iceberg", "iceberg-open-api", REST, "test-fixtures"),
    ("org.eclipse.jetty", "jetty-servlet", _JETTY, ""),
    ("org.eclipse.jetty", "jetty-server", _JETTY, ""),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
    ("org.apache.hadoop", "hadoop-client-api", _HADOOP, ""),
    ("org.apache.hadoop", "hadoop-client-runtime", _HADOOP, ""),
    ("org.slf4j", "slf4j-simple", "2.0.17", ""),
    ("org.junit.jupiter", "junit-jupiter-api", "5.12.2", ""),
    ("org.assertj", "assertj-core", "3.27.3", ""),
)
HIVE = "3.1.3"  # pyiceberg 0.12 calls `get_table`, which Hive 4 does not have any more
_DERBY, _LOG4J, _SCHEMA = "10.14.2.0", "2.18.0", ("iceberg-hive-metastore", "1.6.1")
_HIVE_JARS: tuple[Jar, ...] = (
    ("org.apache.hive", "hive-standalone-metastore", HIVE, ""),
    ("org.apache.iceberg", *_SCHEMA, "tests"),
    ("org.apache.derby", "derby", _DERBY, ""),
    ("org.apache.derby", "derbytools", _DERBY, ""),
    ("org.apache.hadoop", "hadoop-client-api", "3.3.6", ""),
    ("org.apache.hadoop", "hadoop-client-runtime", "3.3.6", ""),
    ("commons-cli", "commons-cli", "1.5.0", ""),
    ("commons-collections", "commons-collections", "3.2.2", ""),
    ("commons-logging", "commons-logging", "1.2", ""),
    ("org.apache.logging.log4j", "log4j-api", _LOG4J, ""),
    ("org.apache.logging.log4j", "log4j-core", _LOG4J, ""),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J, ""),
    ("org.apache.logging.log4j", "log4j-1.2-api", _LOG4J, ""),
)
_HIVE_LEAVES_OUT = ("jdk.tools", "org.apache.hadoop", "org.apache.logging.log4j")
_METASTORE = "org.apache.hadoop.hive.metastore"
_FETCH_LIMIT_S = 600.0
_START_LIMIT_S = 200.0


@contextlib.contextmanager
def rest(directory: Path) -> Iterator[Properties]:
    """Its tables are in a directory. Raises `OracleUnavailableError`."""
    jars, port = _fetched(f"iceberg-rest-{REST}", _REST_JARS), free_port()
    settings = {
        "CATALOG_WAREHOUSE": f"file://{directory}/warehouse",
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{directory}/catalog.db",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_REST_PORT": str(port),
    }
    main = ["-cp", f"{jars}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    url = f"http://127.0.0.1:{port}"
    command = ["java", "-Xmx512m", *SHORT_LIVED_JVM, *main]
    with _running(command, directory, lambda: _is_answered(f"{url}/v1/config"), settings):
        yield {"type": "rest", "uri": url}


@contextlib.contextmanager
def hive(directory: Path) -> Iterator[Properties]:
    """As `rest`."""
    jars, port = _fetched(f"hive-metastore-{HIVE}", _HIVE_JARS, _HIVE_LEAVES_OUT), free_port()
    database, warehouse = directory / "metastore", directory / "warehouse"
    with zipfile.ZipFile(jars / f"{'-'.join(_SCHEMA)}-tests.jar") as archive:
        schema = archive.read("hive-schema-3.1.0.derby.sql").decode()
    script = directory / "schema.sql"
    script.write_text(f"connect 'jdbc:derby:{database};create=true';\n{schema}")
    on_path = ["-cp", f"{directory}{os.pathsep}{jars}/*"]
    ij = ["java", *SHORT_LIVED_JVM, *on_path, "org.apache.derby.tools.ij", str(script)]
    subprocess.run(ij, cwd=directory, check=True, capture_output=True, timeout=_START_LIMIT_S)
    (directory / "metastore-site.xml").write_text(
        _site(
            {
                "metastore.warehouse.dir": str(warehouse),
                "metastore.thrift.bind.host": "127.0.0.1",
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:{database}",
                "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
                # The defaults of these two are classes of all of Hive.
                "metastore.expression.proxy": f"{_METASTORE}.DefaultPartitionExpressionProxy",
                "metastore.task.threads.always": f"{_METASTORE}.events.EventCleanerTask",
            }
        )
    )
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "net")]
    main = [*opened, *on_path, f"{_METASTORE}.HiveMetaStore", "-p", str(port)]
    with _running(["java", "-Xmx512m", *SHORT_LIVED_JVM, *main], directory, lambda: _is_open(port)):
        yield {
            "type": "hive",
            "uri": f"thrift://127.0.0.1:{port}",
            "warehouse": f"file://{warehouse}",
        }


@contextlib.contextmanager
def glue(directory: Path) -> Iterator[Properties]:
    """Metadata are in moto, files in a directory."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    moto = "from moto.server import main; main()"
    command = [sys.executable, "-c", moto, "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, directory, lambda: _is_answered(url)):
        yield {
            "type": "glue",
            "glue.endpoint": url,
            "glue.region": "us-east-1",
            "glue.access-key-id": "test",
            "glue.secret-access-key": "test",
            "warehouse": f"file://{directory}/warehouse",
        }


CATALOGS: Mapping[str, Callable[[Path], contextlib.AbstractContextManager[Properties]]] = {
    "rest": rest,
    "hive": hive,
    "glue": glue,
}


def _site(settings: Mapping[str, str]) -> str:
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    return f"<configuration>{rows}</configuration>"


def _fetched(name: str, jars: Sequence[Jar], left_out: Sequence[str] = ()) -> Path:
    """The directory of jars, with what they need but for some groups. Raises `OracleUnavailableError`."""
    directory = Kafka.obtain().cache / name
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
            made = Path(scratch, directory.name)
            Path(scratch, "pom.xml").write_text(_pom(jars, left_out))
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
            command = ["mvn", "-q", "-B", goal, f"-DoutputDirectory={made}"]
            try:
                subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=_FETCH_LIMIT_S)
            except (OSError, subprocess.SubprocessError) as failure:
                raise OracleUnavailableError(f"{name} cannot be had: {failure}") from failure
            if not directory.is_dir():
                made.rename(directory)
    return directory


def _pom(jars: Sequence[Jar], left_out: Sequence[str]) -> str:
    without = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>" for group in left_out
    )
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{f'<classifier>{kind}</classifier>' if kind else ''}<exclusions>{without}</exclusions></dependency>"
        for group, name, version, kind in jars
    )
    own = "<groupId>tests</groupId><artifactId>catalog</artifactId><version>1</version>"
    return f"<project><modelVersion>4.0.0</modelVersion>{own}<dependencies>{wanted}</dependencies></project>"


@contextlib.contextmanager
def _running(
    command: Sequence[str], directory: Path, is_up: Callable[[], bool], settings: Mapping[str, str] = {}
) -> Iterator[None]:
    """A server, killed at the end."""
    log = directory / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=directory, env={**os.environ, **settings}, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + _START_LIMIT_S
        while not is_up():
            if time.monotonic() > end or process.poll() is not None:
                raise OracleError(f"the catalog did not come up: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def _is_answered(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
        return True
    return False


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False
