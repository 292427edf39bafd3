"""Disks that fail, are full or read-only under a store, and files that vanish."""

from __future__ import annotations

import errno
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.manager.stores import SMALL, fill, some, values
from tidelog.errors import (
    InvalidInputError,
    LogOfflineError,
)
from tidelog.manager.metadata.files import read_bootstrap, write_bootstrap
from tidelog.protocol.metadata_records import PartitionRecord
from tidelog.storage import LOCAL
from tidelog.testing.faults import FaultyFileSystem, fail_on, read_only
from tidelog.types import TopicPartition


def test_a_disk_that_fails_takes_its_root_offline_and_no_other(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    store = tidelog.open(roots, fs=fs, background=False)
    store.create_topic("t", 2)
    for partition in store.partitions:
        partition.append(some(4))
    bad = store.partition("t", 0)
    assert bad.root is not None
    path = bad.root.path

    def rule(call: Any) -> Any:
        broken = call.path.startswith(path) and "checkpoint" in call.path
        return fail_on("*", "*", errno.EIO)(call) if broken else None

    fs.rule = rule
    store.checkpoint()
    assert "Input/output error" in store.offline_roots[path]
    with pytest.raises(LogOfflineError, match="Input/output error"):
        bad.append(some(1))
    assert len(values(store, "t", 1)) == 4
    with pytest.raises(InvalidInputError, match="offline"):
        store.move_partition("t", 1, path)
    store.close()
    good = roots[1] if path == str(roots[0]) else roots[0]
    assert (good / ".kafka_cleanshutdown").exists()
    assert not (Path(path) / ".kafka_cleanshutdown").exists()
    with tidelog.open(roots, recover=True) as again:
        assert [len(values(again, "t", number)) for number in range(2)] == [4, 4]


def test_a_full_disk_refuses_appends_and_loses_nothing(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    store = tidelog.open(tmp_path, fs=fs, background=False)
    store.create_topic("t")
    store.partition("t").append(some(4), sync=True)
    fs.rule = fail_on("pwrite", "*.log", errno.ENOSPC, written=30)
    with pytest.raises((OSError, LogOfflineError), match="No space left"):
        store.partition("t").append(some(100))
    fs.rule = lambda call: None
    store.close()
    with tidelog.open(tmp_path, recover=True) as again:
        assert values(again, "t") == [one.value for one in some(4)]


def test_a_read_only_disk_is_a_clear_error(tmp_path: Path) -> None:
    tidelog.open(tmp_path).close()
    with pytest.raises(OSError, match="Read-only file system"):
        tidelog.open(tmp_path, fs=FaultyFileSystem(LOCAL, read_only()))
    first, second = tmp_path / "a", tmp_path / "b"

    def rule(call: Any) -> Any:
        return read_only()(call) if call.path.startswith(str(second)) else None

    second.mkdir()
    with tidelog.open([first, second], fs=FaultyFileSystem(LOCAL, rule), background=False) as store:
        assert "Read-only" in store.offline_roots[str(second)]
        store.create_topic("t", 2)
        assert all(partition.root is store.roots[0] for partition in store.partitions)


def test_a_file_that_vanished_is_reported_and_nothing_else_is_lost(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t", 2, SMALL)
        for partition in store.partitions:
            fill(partition, 40)
        bases = store.partition("t", 0).log.segments.base_offsets
    (tmp_path / "t-0" / f"{bases[1]:020}.log").unlink()
    with tidelog.open(tmp_path) as store:
        assert len(values(store, "t", 1)) == 40
        found = store.partition("t", 0)
        assert found.log_end_offset == 40
        kept = values(store, "t", 0)
        assert kept == [
            one.value for one in some(40) if not bases[1] <= int((one.value or b"")[1:]) < bases[2]
        ]


def test_a_disk_with_the_directory_id_of_another_is_refused(tmp_path: Path) -> None:
    """Somebody has formatted it by copying `meta.properties`; by that id partitions are looked for."""
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots[0]) as store:
        store.create_topic("t")
        store.partition("t").append(some(3))
    roots[1].mkdir()
    copy = roots[1] / "meta.properties"
    copy.write_text((roots[0] / "meta.properties").read_text())
    with pytest.raises(InvalidInputError, match=r"b/meta.properties has the directory.id of .*/a: "):
        tidelog.open(roots)
    assert sorted(one.name for one in roots[1].iterdir() if one.name != ".lock") == ["meta.properties"]
    copy.write_text("".join(line for line in copy.open() if not line.startswith("directory.id")))
    with tidelog.open(roots) as store:
        assert len(values(store, "t")) == 3


def test_no_log_is_begun_for_a_partition_that_may_be_on_a_disk_that_fails(tmp_path: Path) -> None:
    """The metadata names no directory, as before Kafka 3.7."""
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots) as store:
        store.create_topic("t", 2)
        for partition in store.partitions:
            partition.append(some(3))
    nowhere = (uuid.UUID(int=0),)
    records = [
        replace(one, directories=nowhere) if isinstance(one, PartitionRecord) else one
        for one in read_bootstrap(LOCAL, roots[0])
    ]
    write_bootstrap(LOCAL, roots[0], records, timestamp_ms=0)
    properties = roots[1] / "meta.properties"
    good = properties.read_text()
    properties.write_text("version=9")
    with tidelog.open(roots) as store:
        assert f"it may be in {roots[1]}" in store.offline_partitions[TopicPartition("t", 1)]
        assert len(values(store, "t", 0)) == 3
    assert not (roots[0] / "t-1").exists()
    properties.write_text(good)
    with tidelog.open(roots) as store:
        assert [len(values(store, "t", number)) for number in range(2)] == [3, 3]
