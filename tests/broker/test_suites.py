"""Integration tests that nobody here wrote: kafka-python's and aiokafka's own, against `tidelog serve`.

Their sources come from the package index (kafka-python) or from a checkout (aiokafka: its source distribution
has no tests). What is not run is in `suites/excluded.toml`, with the reason.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import REQUIRE_ORACLE
from tidelog.testing.brokers import start_broker

HERE = Path(__file__).parent / "suites"
EXCLUDED = tomllib.loads((HERE / "excluded.toml").read_text())
AIOKAFKA_SOURCE = "TIDELOG_AIOKAFKA_SOURCE"
OBTAIN_S = 120
SUITE_S = 900
TEST_S = 150
KAFKA = {
    "node.id": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}
"""What the suites set up their own brokers with."""


@dataclass(frozen=True)
class Outcome:
    """What became of a suite's tests."""

    passed: int
    failed: list[str]
    skipped: list[str]


def run_suite(
    directory: Path, suite: str, files: Sequence[str], words: Sequence[str] = (), **environment: str
) -> Outcome:
    """Run files of a suite, without what is excluded. What fails is run once more: their tests give a broker
    and its clients two seconds for what takes longer while the machine does something else.
    """
    excluded = [word for name in EXCLUDED[suite] for word in ("--deselect", name)]
    outcome = run_once(directory, [*excluded, *words, *files], environment)
    if not outcome.failed:
        return outcome
    again = run_once(directory, ["--last-failed", *excluded, *words, *files], environment)
    return Outcome(outcome.passed + again.passed, again.failed, outcome.skipped)


def run_once(directory: Path, words: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    """Run a suite's pytest with these words."""
    report = directory / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-o", "cache_dir=.last-failed"]
    command += ["--timeout", str(TEST_S), f"--junitxml={report}", *words]
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=SUITE_S,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    passed, failed, skipped = 0, list[str](), list[str]()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        bad = [*case.findall("failure"), *case.findall("error")]
        if bad:
            failed.append(f"{name}: {bad[0].get('message')}")
        elif (skip := case.find("skipped")) is not None:
            skipped.append(f"{name}: {skip.get('message')}")
        else:
            passed += 1
    return Outcome(passed, failed, skipped)


def obtain_kafka_python(target: Path) -> Path:
    """The source distribution of the version that is installed, unpacked."""
    version = importlib.metadata.version("kafka-python")
    wanted = ["--no-deps", "--no-binary", "kafka-python", f"kafka-python=={version}"]
    command = [sys.executable, "-m", "pip", "download", "-q", "-d", str(target), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=OBTAIN_S, check=False)
    archives = list(target.glob("kafka*.tar.gz"))
    if done.returncode or not archives:
        why = f"the source distribution of kafka-python cannot be had: {done.stderr[-300:]}"
        if os.environ.get(REQUIRE_ORACLE) == "1":
            pytest.fail(f"{REQUIRE_ORACLE}=1, but {why}", pytrace=False)
        pytest.skip(why)
    with tarfile.open(archives[0]) as archive:
        archive.extractall(target, filter="data")
    (directory,) = (each for each in target.iterdir() if each.is_dir())
    (directory / "test/__init__.py").touch()
    if not (directory / "test/service.py").exists():
        shutil.copy(HERE / "kafka_python_service.py", directory / "test/service.py")
    return directory


def obtain_aiokafka(target: Path) -> Path:
    """A copy of a checkout's tests, with our broker in place of its container."""
    source = os.environ.get(AIOKAFKA_SOURCE)
    if source is None:
        pytest.skip(f"aiokafka's source distribution has no tests: {AIOKAFKA_SOURCE} may name a checkout")
    tests = Path(shutil.copytree(Path(source) / "tests", target / "tests"))
    (tests / "conftest.py").rename(tests / "their_conftest.py")
    shutil.copy(HERE / "aiokafka_conftest.py", tests / "conftest.py")
    return target


@pytest.mark.slow
@pytest.mark.timeout(2 * SUITE_S)
def test_kafka_pythons_own(tmp_path: Path) -> None:
    directory = obtain_kafka_python(tmp_path)
    with start_broker(tmp_path / "root", KAFKA | {"num.partitions": 4}, subprocess=True) as broker:
        outcome = run_suite(
            directory,
            "kafka-python",
            ["test/integration"],
            KAFKA_VERSION="4.3",
            KAFKA_URI=f"kafka://{broker.bootstrap_servers}",
            KAFKA_ROOT=str(tmp_path),
        )
    assert not outcome.failed
    assert outcome.passed >= 45


AIOKAFKA_QUICK = ["admin", "client", "pep492", "producer", "transactional_consumer", "transactional_producer"]
AIOKAFKA_ALL = [*AIOKAFKA_QUICK, "conn", "consumer", "coordinator", "sender"]


@pytest.mark.parametrize(
    ("names", "least"),
    [
        pytest.param(AIOKAFKA_QUICK, 70, marks=pytest.mark.slow, id="some"),
        pytest.param(AIOKAFKA_ALL, 200, marks=pytest.mark.soak, id="all"),
    ],
)
@pytest.mark.timeout(2 * SUITE_S)
def test_aiokafkas_own(names: list[str], least: int, tmp_path: Path) -> None:
    pytest.importorskip("docker")  # its tests import it
    directory = obtain_aiokafka(tmp_path)
    with start_broker(tmp_path / "root", KAFKA | {"num.partitions": 2}, subprocess=True) as broker:
        outcome = run_suite(
            directory,
            "aiokafka",
            [f"tests/test_{name}.py" for name in names],
            ["--docker-image", "tidelog:2.13_4.0.0"],
            TIDELOG_BROKER=broker.bootstrap_servers,
        )
    assert not outcome.failed
    assert outcome.passed >= least
