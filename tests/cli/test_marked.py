"""Commands that are given a directory which its name says is set aside, moving or to be deleted.

Its partition's name is also that of the one in use, which must not be taken for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tidelog.records import Record
from tidelog.storage.names import DirectoryState

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with orders-0, which starts at 5, and an older copy of it under each mark."""
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        store.create_topic("orders", 1, {"retention.ms": 1})
        store.partition("orders").append([Record(b"v%d" % n, b"k%d" % n, timestamp=1000) for n in range(10)])
    for state in DirectoryState:
        if state is not DirectoryState.LIVE:
            shutil.copytree(root / "orders-0", root / f"orders-0.{ID}{state.value}")
    return root


def files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("state", ["stray", "delete", "future"])
@pytest.mark.parametrize(
    "command",
    [
        ("trim", "--before", "5"),
        ("retention",),
        ("retention", "--dry-run"),
        ("rewrite", "--erase", "--key", "k1"),
        ("append", "--create", "1"),
        ("append",),
        ("compact",),
    ],
)
def test_what_changes_the_partition_in_use_refuses_another_directory(
    root: Path, command: tuple[str, ...], state: str
) -> None:
    before = files(root)
    answer = run(command[0], root / f"orders-0.{ID}-{state}", *command[1:], said=b"v\n")
    assert answer.code == 2, answer
    assert "orders-0" in answer.err
    assert f"-{state}" in answer.err
    assert files(root) == before
