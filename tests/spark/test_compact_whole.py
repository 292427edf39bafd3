"""Partitions that a task compacts whole, on a copy: what the driver does with it, and what errors tell."""

from __future__ import annotations

import errno
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cleanup.test_splitting import FAR, made
from tests.log.logs import NOW_MS, Clock, all_records
from tests.spark.in_process import run_here
from tests.spark.test_compact_passes import CONFIG, generate, state
from tidelog.cleanup.cleaner import LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.errors import CorruptRecordError
from tidelog.layout.roots import Identity, Root, look_at
from tidelog.log import Log
from tidelog.manager.store.partition import Partition
from tidelog.records import Record, encode_records
from tidelog.spark.compaction.whole import WholeDone, WholeSplit, WholeWork, put_in_place
from tidelog.spark.runtime.jobs import Bin
from tidelog.storage import LOCAL
from tidelog.types import TopicPartition


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    path = tmp_path / "staging"
    path.mkdir()
    return path


def opened(path: Path) -> Log:
    return Log.open(path, CONFIG, clean=True, now_ms=Clock())


def compact_copy(log: Log, staging: Path) -> WholeDone:
    """What a task makes of all of a log but its active segment."""
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    log.flush()
    active = log.segments.last.base_offset
    split = WholeSplit(
        log.path, CONFIG.overrides(), log.log_start_offset, log.high_watermark, 0, active, active, NOW_MS, 1
    )
    work = WholeWork(str(staging), 1 << 16, 0.9)
    ((done,),) = run_here(work, [Bin(0, (split,))])
    assert isinstance(done, WholeDone)
    return done


def partition_of(log: Log) -> Partition:
    partition = Partition(TopicPartition("t", 0), uuid.UUID(int=0), 0)
    facts = look_at(LOCAL, str(Path(log.path).parent))
    root = Root(LOCAL, None, Identity(1, "c", uuid.UUID(int=1)), facts)
    partition.attach(log, root)
    return partition


class Dying:
    """A gate that lets so many in and then dies."""

    def __init__(self, swaps: int) -> None:
        self.left = swaps

    def __enter__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        pass


class Guarded:
    """A partition with a gate of its own."""

    def __init__(self, partition: Partition, gate: Dying) -> None:
        self._partition = partition
        self.gate = gate

    def __getattr__(self, name: str) -> object:
        return getattr(self._partition, name)


def refuse(self: Path, target: Path) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


@pytest.mark.parametrize("links", [True, False])
def test_what_comes_out_is_what_the_local_cleaner_leaves(
    links: bool, staging: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where staging is on another file system than the root."""
    path = generate(tmp_path / "t-0", 4)
    local = Path(shutil.copytree(path, tmp_path / "local" / "t-0"))
    with Log.open(local, CONFIG, clean=True) as log:  # by the clock, as a task: it judges producers
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        bounds = {"first_dirty_offset": 0, "upper_bound": log.log_end_offset, "now_ms": NOW_MS}
        report = clean_log(log, LocalPasses(OffsetMap(1 << 16)), **bounds)
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    with opened(path) as log:
        done = compact_copy(log, staging)
        put_in_place(partition_of(log), Path(done.staged))
    assert state(path) == state(local)
    assert done.report.stats == report.stats


def test_damage_is_told_with_the_file_of_the_root(staging: Path, tmp_path: Path) -> None:
    path = generate(tmp_path / "t-0", 9)
    damaged = sorted(path.glob("*.log"))[3]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with opened(path) as log, pytest.raises(CorruptRecordError, match=re.escape(f"({damaged},")) as told:
        compact_copy(log, staging)
    assert told.value.source == str(damaged)


def test_an_attempt_that_comes_too_late_leaves_nothing(tmp_path: Path) -> None:
    """Staging was swept by then; links that nobody removes would hold the disk's space."""
    with opened(generate(tmp_path / "t-0", 9)) as log, pytest.raises(FileNotFoundError):
        compact_copy(log, tmp_path / "swept")
    assert not (tmp_path / "swept").exists()


@pytest.mark.parametrize("swaps", range(4))
def test_a_driver_that_dies_after_a_split_has_lost_nothing(swaps: int, staging: Path, tmp_path: Path) -> None:
    """What was split off goes into one segment with the next; no record may be in neither meanwhile."""

    def segment(*offsets: int) -> bytes:
        return b"".join(
            encode_records([Record(b"v", b"%d" % offset, timestamp=NOW_MS)], base_offset=offset)
            for offset in offsets
        )

    offsets = [0, 1, FAR + 5, FAR + 6, FAR + 10, FAR + 20, FAR + 21]
    split, second, third = segment(*offsets[:4]), segment(*offsets[4:5]), segment(*offsets[5:])
    path = made(tmp_path / "t-0", (0, split), (FAR + 10, second), (FAR + 20, third))
    with opened(path) as log:
        done = compact_copy(log, staging)
        assert [len(list(one.glob("*.log"))) for one in (path, Path(done.staged))] == [4, 3]
        partition = partition_of(log)
        with suppress(KeyboardInterrupt):
            put_in_place(cast(Any, Guarded(partition, Dying(swaps))), Path(done.staged))
        assert [record.offset for record in all_records(log)] == offsets
    with opened(path) as log:
        assert [record.offset for record in all_records(log)] == offsets
