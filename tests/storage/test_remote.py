"""Directories behind URLs, read-only."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.golden import GOLDEN
from tidelog.errors import InvalidInputError
from tidelog.storage import DirEntry
from tidelog.storage.remote import open_ro

LOG = "golden-none-0/00000000000000000000.log"


def test_a_local_url() -> None:
    root = open_ro((GOLDEN / "clean").as_uri())
    assert DirEntry("golden-none-0", True) in root.list()
    assert DirEntry("meta.properties", False) in root.list()
    whole = (GOLDEN / "clean" / LOG).read_bytes()
    assert DirEntry("00000000000000000000.log", False) in root.list("golden-none-0")
    assert root.size(LOG) == len(whole)
    assert root.read_range(LOG, 0, len(whole)) == whole
    assert root.read_range(LOG, 100, 50) == whole[100:150]
    assert root.read_range(LOG, len(whole) - 5, 50) == whole[-5:]
    assert root.read_range(LOG, 100, 0) == b""


def test_another_file_system() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/logs/t-0/a", b"0123456789")
    root = open_ro("memory://logs")
    assert root.list() == [DirEntry("t-0", True)]
    assert root.list("t-0") == [DirEntry("a", False)]
    assert root.read_range("t-0/a", 3, 4) == b"3456"
    assert "memory://logs" in repr(root)


def test_bad_requests(tmp_path: Path) -> None:
    root = open_ro(tmp_path.as_uri())
    with pytest.raises(InvalidInputError, match="not a range: 5 bytes at -1"):
        root.read_range("f", -1, 5)
    with pytest.raises(FileNotFoundError):
        root.size("f")
    with pytest.raises(InvalidInputError, match="cannot open 'nosuch://x'"):
        open_ro("nosuch://x")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'tidelog\[remote\]'"):
        open_ro("s3://bucket/logs")
