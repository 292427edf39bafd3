"""A real cluster: a standalone master and two workers on the loopback, an executor killed on the way.

The workers get tidelog the documented way: a wheel, installed into a Python environment of the workers' own,
which `PYSPARK_PYTHON` names to the driver.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.golden import GOLDEN, golden_partitions
from tests.ports import free_ports
from tests.scanning import expected
from tests.spark.archive import QUICK_JAVA
from tests.spark.conftest import SETTINGS, require_spark
from tests.spark.connector import ROOT
from tests.spark.writer import LogWriter
from tidelog.manager.verification import verify_root
from tidelog.storage import LOCAL

PARTITIONS, BATCHES, PER_BATCH = 24, 40, 500


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    work: Path
    """Where executors have their directories."""

    python: Path

    def executors(self) -> list[int]:
        """The process ids of the executors' JVMs, which are known by where they run."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with contextlib.suppress(OSError):
                    inside = self.work in (process / "cwd").readlink().parents
                    if inside and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                        found.append(int(process.name))
        return found

    @contextlib.contextmanager
    def driver(self, script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """A driver that runs a script: its arguments are the master, settings as JSON, and what is given."""
        settings = SETTINGS | {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JAVA,
            "spark.driver.host": "127.0.0.1",
        }
        environment = os.environ | {
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        driver = subprocess.Popen(
            [sys.executable, "-c", script, self.master, json.dumps(settings), *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield driver
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()

    def kill_one_that_stages(self, driver: subprocess.Popen[str], staging: Path, pattern: str) -> int:
        """Kill an executor while tasks are staging files of a pattern, and say which."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and driver.poll() is None:
            executors = self.executors()
            if len(executors) > 1 and any(staging.glob(pattern)):
                os.kill(executors[0], signal.SIGKILL)
                return executors[0]
            time.sleep(0.02)
        pytest.fail("no task was seen staging")


def expect_line(driver: subprocess.Popen[str], line: str) -> None:
    """Wait for the line that a driver says next."""
    assert driver.stdout is not None
    assert driver.stdout.readline().strip() == line, driver.stderr.read() if driver.stderr else ""


def last_line(driver: subprocess.Popen[str]) -> Any:
    """Wait for a driver's end; what its last line says, as JSON."""
    said, errors = driver.communicate(timeout=1200)
    assert driver.returncode == 0, errors[-4000:]
    return json.loads(said.splitlines()[-1])


@pytest.fixture(scope="module")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; what the wheel depends on is borrowed from this one."""
    require_spark()
    scratch = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(scratch),
    ]
    subprocess.run([*command, str(ROOT)], check=True, timeout=900, capture_output=True)
    (wheel,) = scratch.glob("*.whl")
    venv.create(scratch / "env", with_pip=False)
    python = scratch / "env/bin/python"
    (site,) = (scratch / "env/lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    target = ["--target", str(site), "--no-deps", "-q", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "install", *target], check=True, timeout=300)
    where = subprocess.run(
        [python, "-c", "import tidelog, pyspark_tidelog; print(tidelog.__file__)"],
        check=True,
        capture_output=True,
        text=True,
        cwd=scratch,
        env={"PATH": os.environ["PATH"]},
    )
    assert where.stdout.startswith(str(site)), "the wheel is not what the workers would use"
    return python


@pytest.fixture(scope="module")
def cluster(worker_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One master, two workers of one core each."""
    import pyspark

    home = Path(pyspark.__file__).parent
    work = tmp_path_factory.mktemp("work")
    port, web_port = free_ports(2)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    worker = [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    commands = [
        [
            f"{deploy}.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            str(web_port),
        ],
        *([*worker, "--work-dir", str(work / name), master] for name in ("one", "two")),
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            daemons.append(
                subprocess.Popen(
                    [str(home / "bin/spark-class"), *command],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            if len(daemons) == 1:
                _await_port(port)
        yield Cluster(master, work, worker_python)
    finally:
        for daemon in reversed(daemons):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
        for executor in Cluster(master, work, worker_python).executors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)


SCRIPT = """
import json, sys, time
import tidelog.spark, tidelog.spark.runtime.jobs
master, settings, golden, log, out = sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:6]
spark = tidelog.spark.session(master, config=settings)
spark.sparkContext.setLogLevel("OFF")
read = spark.read.format("tidelog").option("minPartitions", 40)
rows = read.load(json.loads(golden)).select("topic", "partition", "offset").collect()

def module(batches):
    import pyarrow, tidelog
    for batch in batches:
        yield pyarrow.record_batch({"file": [tidelog.__file__]})

modules = spark.range(0, 8, 1, 8).mapInArrow(module, "file string").distinct().collect()
print("exporting", flush=True)
report = tidelog.spark.export(spark, log, out, value_format="string").collect()
profiled = tidelog.spark.profile(spark, log).selectExpr("sum(records) AS n").first().n
tidelog.spark.runtime.jobs._MIN_SHARE_BYTES = 1  # several tasks for little data
print("verifying", flush=True)
found = [tidelog.spark.verify(spark, log, piece_bytes=5000).collect() for _ in range(3)]
rebuilt = tidelog.spark.reindex(spark, log, piece_bytes=2000).collect()
after = tidelog.spark.verify(spark, log).where("kind = 'damage'").count()
print(json.dumps({
    "found": [[list(row) for row in each] for each in found],
    "rebuilt": [row.indexes for row in rebuilt],
    "after": after,
    "rows": sorted([row.topic, row.partition, row.offset] for row in rows),
    "modules": [row.file for row in modules],
    "records": sum(row.records for row in report),
    "profiled": profiled,
}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_reads_exports_and_verifies_though_executors_die(cluster: Cluster, tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    log, out = tmp_path / "log", tmp_path / "out"
    number = 0
    for partition in range(PARTITIONS):
        writer = LogWriter(log, "events", partition)
        for _ in range(BATCHES):
            writer.append([str(number + n).encode() for n in range(PER_BATCH)])
            number += PER_BATCH
    findings = [
        [one.kind.value, one.file, one.position, one.offset, one.end_offset, one.cause]
        for one in verify_root(LOCAL, str(log))
    ]
    damaged = [one for one in findings if one[0] == "damage"]
    missing = [one for one in damaged if one[5] == "the index is missing"]
    assert len(missing) > PARTITIONS
    golden = json.dumps([str(GOLDEN / "clean"), str(GOLDEN / "legacy")])
    with cluster.driver(SCRIPT, golden, log, out) as driver:
        expect_line(driver, "exporting")
        killed = [cluster.kill_one_that_stages(driver, out / "_tidelog/staging", "*/0*")]
        expect_line(driver, "verifying")
        killed.append(cluster.executors()[-1])
        os.kill(killed[-1], signal.SIGKILL)
        found = last_line(driver)
    assert not {*killed} & {*cluster.executors()}
    assert found["found"] == [findings] * 3
    assert sum(map(len, found["rebuilt"])) == len(missing)
    assert found["after"] == len(damaged) - len(missing)
    wanted = [
        [row["topic"], row["partition"], row["offset"]]
        for partition in golden_partitions()
        if not partition.name.startswith("__")
        for row in expected.rows(partition, control=False)
    ]
    assert found["rows"] == sorted(wanted)
    assert found["records"] == found["profiled"] == number
    assert all(str(cluster.python.parents[1]) in module for module in found["modules"]), found["modules"]
    values = ds.dataset(out, partitioning="hive").to_table(columns=["value"])["value"].to_pylist()
    assert sorted(map(int, values)) == list(range(number))


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    pytest.fail("the master did not come up")
