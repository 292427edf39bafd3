"""A Spark session whose workers run this very Python, and what to say where there is no Spark to be had."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "MissingDependencyError",
    "choose_python",
    "quiet_session",
    "register",
    "require_java",
    "require_pyspark",
    "session",
]

_INSTALL_PYSPARK = "Spark needs PySpark 4: pip install 'tidelog[spark]'"
_INSTALL_JAVA = (
    "Spark needs Java 17 or later: install a JDK (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put java on the PATH, or set JAVA_HOME"
)


_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Over TCP the first bytes of a task wait 40 ms for the acknowledgement of those before them."""

_KEEP_MEMORY = ("spark.executorEnv.MIMALLOC_PURGE_DELAY", "60000")
"""How many ms workers' Arrow keeps memory that has become free. Its own choice, 1 s, is less than a task
takes, and the system clears every page that is asked for again. After a minute Spark ends an idle worker.
"""


class MissingDependencyError(InvalidInputError, ImportError):
    """Something that Spark needs is not installed; the message says how to get it."""


def require_pyspark() -> None:
    """Raise `MissingDependencyError` where PySpark is not installed, or too old."""
    try:
        import pyspark
    except ImportError as error:
        raise MissingDependencyError(_INSTALL_PYSPARK) from error
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise MissingDependencyError(f"{_INSTALL_PYSPARK} (found {pyspark.__version__})")


def require_java() -> None:
    """Raise `MissingDependencyError` where Spark would find no Java to run on."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if java is not None and not java.exists():
        raise MissingDependencyError(f"JAVA_HOME is {home}, but there is no {java}. {_INSTALL_JAVA}")
    if java is None and shutil.which("java") is None:
        raise MissingDependencyError(_INSTALL_JAVA)


def choose_python() -> None:
    """Have Spark's processes run this interpreter, unless `PYSPARK_PYTHON` names another one.

    Spark takes both from the environment when it starts its JVM, so this must come first. Its own choice is
    the `python3` on the PATH, which has no tidelog unless the environment is activated.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])


def register(session: SparkSession) -> None:
    """Make `format("tidelog")` known to a session, however it was made.

    A session that was made after `import tidelog.spark` in the same process knows it already. One that is
    older may run a Python without tidelog: unless one was chosen for it (`PYSPARK_PYTHON`, or the setting
    `spark.pyspark.python`), its workers run this one from here on.
    """
    require_pyspark()
    from tidelog.spark.source import TidelogSource

    context = getattr(session, "_sc", None)  # a Connect session has none: its server chooses
    if context is not None and context.pythonExec == "python3":
        context.pythonExec = context.getConf().get("spark.pyspark.python", os.environ["PYSPARK_PYTHON"])
    session.dataSource.register(TidelogSource)


def session(
    master: str = "local[*]", *, app_name: str = "tidelog", config: Mapping[str, object] | None = None
) -> SparkSession:
    """A session on `master`, the running one if there is one.

    Driver and workers get this interpreter, unless `PYSPARK_PYTHON` says otherwise: Spark's own choice is the
    `python3` on the PATH, which need not have tidelog. They talk through Unix sockets, and workers
    keep free memory for a while, unless `config` (Spark's settings) says otherwise. `sc://host` is Spark
    Connect.
    """
    require_pyspark()
    choose_python()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        require_java()
        builder = builder.master(master)
        if hasattr(socket, "AF_UNIX"):
            builder = builder.config(_UNIX_SOCKETS, "true")
        builder = builder.config(*_KEEP_MEMORY)
    for key, value in (config or {}).items():
        builder = builder.config(key, str(value))
    return builder.getOrCreate()


@contextmanager
def quiet_session(master: str) -> Iterator[SparkSession]:
    """A session for one command: says nothing by itself, and is gone after the `with`."""
    settings = Path(__file__).with_name("log4j2-quiet.properties").as_uri()
    made = session(
        master,
        config={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings}",
        },
    )
    try:
        yield made
    finally:
        made.stop()
