"""Sessions and workers; without PySpark, Java, or tidelog on a worker: an error that says what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.golden import GOLDEN
from tests.spark.conftest import SETTINGS, require_spark
from tidelog.spark.runtime.sessions import MissingDependencyError, require_java, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependencyError, match="Spark needs Java 17 or later: install a JDK"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(MissingDependencyError, match=r"JAVA_HOME is .*/jdk, but there is no .*/bin/java"):
        require_java()


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    import tidelog.spark

    message = r"Spark needs PySpark 4: pip install 'tidelog\[spark\]'"
    with pytest.raises(MissingDependencyError, match=message):
        require_pyspark()
    with pytest.raises(MissingDependencyError, match=message):
        tidelog.spark.session("local[1]")
    with pytest.raises(MissingDependencyError, match=message):
        _ = tidelog.spark.export


def test_the_command_says_it_too(tmp_path: Path) -> None:
    script = "import sys; sys.modules['pyspark'] = None; from tidelog.cli.main import main; main()"
    command = [sys.executable, "-c", script, "export", str(tmp_path), "--to", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("tidelog: Spark needs PySpark 4: pip install")
    assert not (tmp_path / "out").exists()


def test_workers_settle(spark: SparkSession) -> None:
    """What a worker has imported is out of the garbage collector's sight once it has a task of ours, and
    Arrow keeps its memory.
    """
    from tidelog.spark.runtime.jobs import Task
    from tidelog.spark.runtime.shipping import ship

    run = ship(Task(dict, [], pa.schema([])).of_frame)

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import os

        assert list(run(iter(()))) == []
        delay = int(os.environ["MIMALLOC_PURGE_DELAY"])
        found = pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "delay": [delay]})
        yield from (found for _ in batches)

    (row,) = spark.range(1).mapInArrow(probe, "frozen bigint, delay bigint").collect()
    assert row.frozen > 10_000
    assert row.delay == 60_000
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"


CLEAN = str(GOLDEN / "clean")


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        f"tidelog.spark.profile(spark, {CLEAN!r})",
        f"spark.read.format('tidelog').load({CLEAN!r})",
        "spark.sql('select 1').selectExpr('string(1) value').write.format('tidelog').mode('append')"
        ".option('topic', 't').save('root')",
    ],
    ids=["job", "source", "sink"],
)
def test_a_worker_without_tidelog(work: str, tmp_path: Path) -> None:
    """Only the processes of tasks lack it: those that plan run on the driver's machine."""
    require_spark()
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide/sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'tidelog':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "if sys.orig_argv[-1] == 'pyspark.worker':\n"
        "    sys.meta_path.insert(0, Hide())\n"
    )
    worker = tmp_path / "python"
    worker.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/hide:$PYTHONPATH" exec {sys.executable} "$@"\n')
    worker.chmod(0o755)
    script = (
        "import tidelog.spark, sys\n"
        f"spark = tidelog.spark.session('local[1]', config={SETTINGS!r})\n"
        "spark.sparkContext.setLogLevel('OFF')\n"
        f"done = {work}\n"
        "done.collect()\n"
    )
    import os

    environment = os.environ | {"PYSPARK_PYTHON": str(worker), "PYSPARK_DRIVER_PYTHON": str(worker)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert "has no module 'tidelog': install tidelog on every worker" in done.stderr


READ = f"print('count', spark.read.format('tidelog').load({CLEAN!r}).count())\n"
WRITE = (
    "spark.sql('select string(id) value from range(7)').write.format('tidelog').mode('append')"
    ".option('topic', 't').save('root')\n"
    "print('count', spark.read.format('tidelog').load('root').count())\n"
)
MAKE = (
    "from pyspark.sql import SparkSession\n"
    f"builder = SparkSession.builder.master('local[1]').config(map={SETTINGS!r})\n"
    "spark = builder.getOrCreate()\n"
    "spark.sparkContext.setLogLevel('OFF')\n"
)


def outside_of_the_environment(script: str, directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script by the interpreter's path, as cron does: nothing is activated, no variable is set."""
    import os
    import shutil

    java = shutil.which("java") or "java"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "VIRTUAL_ENV"))
    }
    environment |= {"PATH": f"{Path(java).parent}:/usr/bin:/bin", **more}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_importing_chooses_this_python_and_keeps_one_that_was_chosen(tmp_path: Path) -> None:
    script = (
        "import os, tidelog.spark; print(os.environ['PYSPARK_PYTHON'], os.environ['PYSPARK_DRIVER_PYTHON'])"
    )
    done = outside_of_the_environment(script, tmp_path)
    assert done.stdout.split() == [sys.executable] * 2, done.stderr
    chosen = outside_of_the_environment(script, tmp_path, PYSPARK_PYTHON="/opt/python")
    assert chosen.stdout.split() == ["/opt/python"] * 2, chosen.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "import tidelog.spark\n" + MAKE + READ,
        MAKE + "import tidelog.spark\ntidelog.spark.register(spark)\n" + READ,
        MAKE + "import tidelog.spark\ntidelog.spark.register(spark)\n" + WRITE,
    ],
    ids=["session after import", "register", "register and write"],
)
def test_the_source_is_found_though_the_environment_is_not_activated(script: str, tmp_path: Path) -> None:
    require_spark()
    done = outside_of_the_environment(script, tmp_path)
    assert "count " in done.stdout, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 0


def test_registering_again_is_harmless(spark: SparkSession) -> None:
    import tidelog.spark

    tidelog.spark.register(spark)
    tidelog.spark.register(spark)
    assert spark.read.format("tidelog").load(CLEAN).count() > 0


QUIET = """
import tidelog.spark
with tidelog.spark.quiet_session("local[2]") as spark:
    print(spark.sparkContext.parallelize(range(8), 4).map(lambda n: n + 1).sum())
"""


@pytest.mark.slow
def test_a_quiet_session_ends_without_a_word(tmp_path: Path) -> None:
    require_spark()
    done = subprocess.run(
        [sys.executable, "-c", QUIET], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout == "36\n"
    assert not re.search("Traceback|log level|Error", done.stderr), done.stderr
