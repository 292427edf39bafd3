"""Stock brokers on damaged roots do what doctor said, and boot on what fix has mended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import run
from tests.doctor.damages import DAMAGES
from tests.doctor.harming import make_root
from tests.doctor.test_damages import found_on
from tests.oracle.jars import OracleError
from tidelog.doctor import Kind
from tidelog.doctor.fixing import apply_plan
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(600)]

NOW_MS = 1_800_000_000_000
TOGETHER = (
    "cleaned-files",
    "bit-flipped-in-a-safe-segment",
    "offset-index-missing",
    "leader-epochs-are-noise",
    "topic-id-missing",
    "foreign-directory",
    "high-watermarks-cut",
)
NONE, TXN, ZSTD = "golden-none-0", "golden-txn-0", "golden-zstd-0"


def do(name: str, root: Path) -> None:
    next(one for one in DAMAGES if one.name == name).make(root)


@pytest.mark.parametrize("name", ["foreign-directory", "high-watermarks-cut"])
def test_a_broker_does_not_come_up_where_doctor_says_so(oracle: Oracle, tmp_path: Path, name: str) -> None:
    root = make_root(tmp_path / "root", NONE)
    do(name, root)
    _, (verdict,) = found_on([str(root)])
    assert not verdict.starts
    with pytest.raises(OracleError), oracle.broker(root):
        pass


def test_a_broker_does_what_doctor_foretold(oracle: Oracle, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", NONE, TXN, ZSTD)
    do("torn-tail", root)
    (root / ".kafka_cleanshutdown").unlink()
    (root / ZSTD / "partition.metadata").unlink()
    findings, (verdict,) = found_on([str(root)])
    assert verdict.starts
    (cut,) = (one for one in findings if one.kind is Kind.TRUNCATION)
    assert [Path(one.file).parent.name for one in findings if one.kind is Kind.TOPIC_ID] == [ZSTD]
    with oracle.broker(root):
        pass
    assert Path(cut.file).stat().st_size == cut.position
    assert list(root.glob(f"{ZSTD}.*-stray"))


def test_a_broker_boots_on_what_was_mended(oracle: Oracle, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", NONE)
    for name in TOGETHER:
        do(name, root)
    apply_plan(LOCAL, [str(root)], now_ms=NOW_MS)
    promised = shutil.copytree(root / NONE, tmp_path / "promised" / NONE)
    kept = {path.relative_to(root) for path in root.rglob("*") if "tidelog-" in path.name}
    assert kept
    with oracle.broker(root):
        pass
    assert {path.relative_to(root) for path in root.rglob("*") if "tidelog-" in path.name} == kept
    for log in sorted(promised.glob("*.log")):
        assert (root / NONE / log.name).read_bytes() == log.read_bytes()
    assert run("verify", root / NONE, "--quiet").code == 0
