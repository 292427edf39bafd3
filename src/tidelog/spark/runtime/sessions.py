"""A Spark session whose workers run this very Python, and what to say if there is no Spark available."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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


_PYTHON_DAEMON = b"pyspark.daemon"


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
    from tidelog.spark.source.data_source import TidelogSource

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
    """A session for one command: it prints nothing, and is stopped after the `with`.

    A session that runs already is used, and left running.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    is_ours = SparkSession.getActiveSession() is None
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
        if is_ours:
            _end_python_daemons(made)
            made.stop()


def _end_python_daemons(made: SparkSession) -> None:
    """End the daemons that fork Spark's Python workers on this machine, and with them the idle workers.

    When a session stops, Spark closes the workers' sockets before it ends their daemon. A worker that notices
    in between prints the traceback of a broken pipe.
    """
    context = getattr(made, "_sc", None)  # a Connect session has none
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return
    daemons = [pid for pid in _children(process.pid) if _PYTHON_DAEMON in _command_line(pid)]
    for pid in daemons:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and any(_PYTHON_DAEMON in _command_line(pid) for pid in daemons):
        time.sleep(0.01)


def _children(parent: int) -> list[int]:
    with suppress(OSError):
        tasks = Path(f"/proc/{parent}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return []


def _command_line(pid: int) -> bytes:
    """The command of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
