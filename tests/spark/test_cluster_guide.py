"""The guide to a Spark cluster does what it says, on a master and two workers that it starts itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.spark.conftest import require_spark
from tests.test_docs import ROOT, run_document

GUIDE = ROOT / "docs/guides/spark-cluster.md"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[Path]]:
    """Where the guide keeps process ids; what runs in the end is killed."""
    files = [tmp_path / f"{name}.pid" for name in ("worker-1", "worker-2", "master")]
    yield files
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if b"org.apache.spark.deploy" in Path(f"/proc/{pid}/cmdline").read_bytes():  # ids are used again
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_guide_runs(tmp_path: Path, daemons: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    require_spark()
    monkeypatch.delenv("SPARK_HOME", raising=False)
    port, web_port = free_ports(2)
    text = GUIDE.read_text()
    assert text.count("7077") > 5
    guide = tmp_path / "guide.md"
    guide.write_text(text.replace("7077", str(port)).replace("8080", str(web_port)))
    run_document(guide, tmp_path, monkeypatch)
    assert all(file.exists() for file in daemons)
