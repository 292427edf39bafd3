"""The pytest plugin, as a user's tests meet it: in a process and a directory of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_tests(directory: Path, text: str, *args: str) -> str:
    """What pytest says of a file of tests."""
    (directory / "test_user.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tidelog.testing.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--strict-markers", "--rootdir", str(directory), *args, "test_user.py"],
        cwd=directory,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


USERS_TESTS = """
import pytest
import tidelog
from tidelog.records import Record

seen = []

def test_a_store(tidelog_store, tidelog_root):
    tidelog_store.create_topic("orders")
    tidelog_store["orders"][0].append([Record(b"1")])
    assert [one.value for one in tidelog_store["orders"][0]] == [b"1"]
    seen.append(tidelog_root)

def test_another_store(tidelog_store, tidelog_root):
    assert not tidelog_store.topics
    assert (seen[0] / ".kafka_cleanshutdown").exists()
    assert seen[0] != tidelog_root

@pytest.mark.tidelog(topics={"orders": 3}, config={"retention.ms": -1})
def test_topics(tidelog_store):
    assert len(tidelog_store["orders"]) == 3
    assert tidelog_store["orders"].config == {"retention.ms": "-1"}

@pytest.mark.tidelog(topics=["a", "b"])
def test_names(tidelog_store):
    assert sorted(tidelog_store.topics) == ["a", "b"]

def test_a_log(tidelog_log):
    path = tidelog_log.records(10).roll().records(5).close()
    assert tidelog.scan(path).read_all().num_rows == 15
"""


def test_fixtures_give_stores_and_logs(tmp_path: Path) -> None:
    assert "5 passed" in run_tests(tmp_path, USERS_TESTS)


def test_a_mark_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.tidelog(topic='t')\ndef test_it(tidelog_store): pass\n"
    assert "takes topics= and config=" in run_tests(tmp_path, text)


def test_nothing_heavy_is_imported_before_it_is_used(tmp_path: Path) -> None:
    text = "import sys\ndef test_it(): assert not {'pyarrow', 'numpy', 'hypothesis'} & set(sys.modules)\n"
    assert "1 passed" in run_tests(tmp_path, text)


def test_fixtures_are_shown(tmp_path: Path) -> None:
    said = run_tests(tmp_path, "", "--fixtures")
    assert "tidelog_store" in said
    assert "tidelog_log" in said
    assert "@pytest.mark.tidelog(topics=(), config=None)" in run_tests(tmp_path, "", "--markers")


def test_it_is_there_when_tidelog_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tidelog": "tidelog.testing.plugin"}
