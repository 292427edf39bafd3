"""Compaction whose passes are done by tasks leaves what the local cleaner leaves, file by file."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cleanup.cleaning import clean_directory
from tests.cleanup.test_cleaner_golden import CLEANED_MS, NAMES, OPENED_MS, kafkas, told
from tests.cleanup.test_splitting import made
from tests.golden import golden_partition
from tests.log.logs import NOW_MS, Clock, abort, commit, golden_config
from tests.segment.crafting import batch
from tests.spark.in_process import distributed
from tidelog.cleanup.cleaner import clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.rounds import LocalPasses
from tidelog.config import LogConfig
from tidelog.errors import CorruptRecordError
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.types import Codec

CONFIG = LogConfig(
    internal_segment_bytes=1500,
    index_interval_bytes=200,
    segment_index_bytes=4096,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
)


def state(path: Path) -> dict[str, tuple[bytes, int]]:
    """The files of a partition's sealed segments, with the times by which old tombstones are judged."""
    active = max(file.stem for file in path.glob("*.log"))
    return {
        file.name: (file.read_bytes(), int(file.stat().st_mtime * 1000) if file.suffix == ".log" else 0)
        for file in sorted(path.iterdir())
        if file.suffix in (".log", ".index", ".timeindex", ".txnindex") and file.stem != active
    }


class Twins:
    """One log twice: cleaned in this process, and by tasks."""

    def __init__(self, source: Path, config: LogConfig, scratch: Path) -> None:
        self.config = config
        self.local = Path(shutil.copytree(source, scratch / "local" / source.name))
        self.spread = Path(shutil.copytree(source, scratch / "spread" / source.name))
        self.staging = scratch / "staging"

    def clean(self, clean_at_ms: int, *, share_bytes: int = 1, **options: Any) -> int:
        """Clean both and compare; how many rounds it took."""
        options = {"now_ms": NOW_MS, "clean_at_ms": clean_at_ms} | options
        mine = clean_directory(self.local, self.config, **options)
        by = distributed(self.staging, share_bytes)
        theirs = clean_directory(self.spread, self.config, by=by, **options)
        told = ("first_dirty_offset", "end_offset", "segments_after", "bytes_after", "records_read")
        for name in (*told, "keys_mapped", "stats", "rounds"):
            assert getattr(theirs, name) == getattr(mine, name), name
        assert state(self.spread) == state(self.local)
        assert not self.staging.exists()
        return mine.rounds


def generate(path: Path, seed: int, batches: int = 150) -> Path:
    """A log of several producers at once: committed and aborted transactions of all lengths, tombstones."""
    dice = random.Random(seed)
    sequences, open_ = dict.fromkeys(range(1, 6), 0), set[int]()
    with Log.open(path, CONFIG, clean=True, now_ms=Clock()) as log:
        for number in range(batches):
            producer = dice.randrange(6)
            if producer in open_ and dice.random() < 0.4:
                (abort if dice.random() < 0.5 else commit)(log, producer)
                open_.remove(producer)
                continue
            records = [
                Record(
                    None if dice.random() < 0.15 else b"%d" % number * dice.randrange(1, 30),
                    b"key %d" % dice.randrange(60),
                    timestamp=NOW_MS + number,
                )
                for _ in range(dice.randrange(1, 6))
            ]
            codec = dice.choice(list(Codec))
            if not producer:
                log.append_as_leader(records, codec=codec)
                continue
            fields = {"producer_id": producer, "producer_epoch": 0, "transactional": True, "codec": codec}
            log.append_as_leader(encode_records(records, base_sequence=sequences[producer], **fields))
            sequences[producer] += len(records)
            open_.add(producer)
        for producer in sorted(open_):
            (abort if dice.random() < 0.5 else commit)(log, producer)
    return path


@pytest.mark.parametrize("share_bytes", [1, 4000])
@pytest.mark.parametrize("seed", range(4))
def test_generated_logs_are_left_alike(seed: int, share_bytes: int, tmp_path: Path) -> None:
    """With transactions over the borders of parts and groups; again when tombstones and markers may go."""
    twins = Twins(generate(tmp_path / "t-0", seed), CONFIG, tmp_path)
    for clean_at_ms in (NOW_MS, NOW_MS + 500, NOW_MS + 2000, NOW_MS + 5000):
        twins.clean(clean_at_ms, share_bytes=share_bytes)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("keys", [9, 20, 59, 60, 61])
def test_rounds_end_where_those_of_the_local_cleaner_end(keys: int, seed: int, tmp_path: Path) -> None:
    """Keys that do not fit take more rounds; the last one that fits is found, however parts are cut."""
    twins = Twins(generate(tmp_path / "t-0", seed, batches=80), CONFIG, tmp_path)
    for number, clean_at_ms in enumerate((NOW_MS, NOW_MS + 2000)):
        rounds = twins.clean(
            clean_at_ms, share_bytes=(1, 5000)[seed], map_bytes=24 * (keys + 1), load_factor=1.0
        )
        assert number or rounds > (keys < 59)


@pytest.mark.parametrize("first_dirty", [1, 77, 150])
def test_cleaning_goes_on_from_within_a_segment(first_dirty: int, tmp_path: Path) -> None:
    """What lies before is walked only; whose transactions are open there counts all the same."""
    twins = Twins(generate(tmp_path / "t-0", 7), CONFIG, tmp_path)
    twins.clean(NOW_MS, first_dirty=first_dirty)
    twins.clean(NOW_MS + 2000, first_dirty=first_dirty + 20)


def test_small_segments_become_one(tmp_path: Path) -> None:
    twins = Twins(generate(tmp_path / "t-0", 8), replace(CONFIG, internal_segment_bytes=4000), tmp_path)
    before = len(list(twins.local.glob("*.log")))
    twins.clean(NOW_MS)
    twins.clean(NOW_MS + 2000)
    assert 2 < len(list(twins.local.glob("*.log"))) < before / 2


@pytest.mark.parametrize("name", NAMES)
def test_golden_partitions_are_left_as_kafka_leaves_them(name: str, tmp_path: Path) -> None:
    partition = golden_partition(name)
    twins = Twins(partition.directory, golden_config(partition), tmp_path)
    for number, clean_at_ms in enumerate(CLEANED_MS, 1):
        twins.clean(clean_at_ms, now_ms=OPENED_MS)
        assert told(twins.spread) == kafkas(name, number)


def test_segments_that_reach_too_far_are_split(tmp_path: Path) -> None:
    """As in the local cleaner: groups before are compacted by then, and all begins anew."""
    far = 2**31
    near, behind = (b"".join(batch(start + n) for n in range(3)) for start in (0, far + 5))
    further = b"".join(batch(offset) for offset in (3 * far, 5 * far))
    source = made(tmp_path / "t-0", (0, near + behind), (3 * far, further))
    found = []
    for by in (None, distributed(tmp_path / "staging")):
        path = Path(shutil.copytree(source, tmp_path / str(by is None) / "t-0"))
        with Log.open(path, CONFIG, clean=True, now_ms=Clock()) as log:
            log.update_high_watermark(log.log_end_offset)
            log.roll()
            assert [segment.has_overflow for segment in log.segments] == [True, True, False]
            passes = LocalPasses(OffsetMap(1 << 16)) if by is None else by(1 << 16, 0.9)
            bounds = {"first_dirty_offset": 0, "upper_bound": log.log_end_offset, "now_ms": NOW_MS}
            report = clean_log(log, passes, **bounds)
            assert report.end_offset == 5 * far + 1
        found.append(state(path))
    assert found[0] == found[1]
    assert len([name for name in found[0] if name.endswith(".log")]) == 3


def test_damage_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    path = generate(tmp_path / "t-0", 9)
    damaged = sorted(path.glob("*.log"))[3]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    before = state(path)
    with pytest.raises(CorruptRecordError, match=damaged.name):
        clean_directory(path, CONFIG, clean_at_ms=NOW_MS, now_ms=NOW_MS, by=distributed(tmp_path / "staging"))
    assert state(path).items() >= before.items()
    assert not list(path.glob("*.cleaned"))
