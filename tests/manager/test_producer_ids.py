"""Ids of producers: none is given out that a log knows, or its first batch would pass for a duplicate."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import tidelog
from tidelog.errors import UncleanShutdownError
from tidelog.records import Record, encode_records
from tidelog.storage import LOCAL
from tidelog.testing.faults import FaultyFileSystem, fail_on


def batch(producer_id: int) -> bytes:
    """A producer's first batch."""
    encoded = encode_records(
        [Record(b"v", b"k")], base_offset=0, producer_id=producer_id, producer_epoch=0, base_sequence=0
    )
    return bytes(encoded)


def test_a_move_keeps_them_known(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots, background=False) as store:
        store.create_topic("t", 2)
    with tidelog.open(roots, background=False) as store:
        partition = store.partition("t", 0)
        partition.append(batch(7))
        target = next(root for root in roots if os.fspath(root) != str(Path(partition.path).parent))
        store.move_partition("t", 0, target)
    with tidelog.open(roots, background=False) as store:
        assert store.reserve_producer_ids() > 7


def test_closing_that_cannot_register_them_leaves_the_root_to_recovery(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    with tidelog.open(tmp_path, fs=fs, background=False) as store:
        store.create_topic("t", 1)[0].append(batch(7), sync=True)
        fs.rule = fail_on("create", "bootstrap.checkpoint*", errno.ENOSPC, times=1)
    with pytest.raises(UncleanShutdownError):
        tidelog.open(tmp_path, background=False)
    with tidelog.open(tmp_path, background=False, recover=True) as store:
        assert store.reserve_producer_ids() > 7
