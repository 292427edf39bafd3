"""Kafka's own Cleaner and ours on the same logs: what is left is the same, batch for batch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cleanup.cleaning import PassesBy, batches_of, clean_directory, index_files
from tests.oracle.oracle import CODECS, KINDS
from tidelog.config import LogConfig

if TYPE_CHECKING:
    from tests.oracle import Oracle

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIG = {
    "segment.index.bytes": "65536",
    "index.interval.bytes": "512",
    "internal.segment.bytes": "20000",
    "file.delete.delay.ms": "0",
    "delete.retention.ms": str(DAY_MS),
}


class Pair:
    """One log twice: Kafka cleans one, we the other."""

    def __init__(
        self, oracle: Oracle, source: Path, scratch: Path, by: PassesBy | None = None, **config: object
    ) -> None:
        self.oracle = oracle
        self.by = by
        self.config = CONFIG | {key.replace("_", "."): str(value) for key, value in config.items()}
        self.scratch = scratch
        self.theirs = shutil.copytree(source, scratch / "theirs" / source.name)
        self.ours = shutil.copytree(source, scratch / "ours" / source.name)

    def clean(self, *steps: dict[str, Any]) -> list[dict[str, Any]]:
        """Clean both step by step, and compare after each what was told and what is left."""
        copies = [self.scratch / f"after-{number}" / self.ours.name for number in range(len(steps))]
        asked = [
            {"dir": str(self.theirs), "config": self.config, "now_ms": NOW_MS, "copy_to": str(copy)} | step
            for step, copy in zip(steps, copies, strict=True)
        ]
        answers = self.oracle.clean(*asked)
        config = LogConfig.from_properties(self.config)
        for step, answer, copy in zip(steps, answers, copies, strict=True):
            report = clean_directory(self.ours, config, **({"now_ms": NOW_MS, "by": self.by} | step))
            assert report.upper_bound == answer["upper_bound"]
            assert report.end_offset == answer["end_offsets"][-1]
            assert report.rounds == len(answer["end_offsets"])
            assert report.stats.keyless == answer["invalid"]
            compare(self.ours, copy)
        return answers

    def let_kafka_open_ours(self, into: Path) -> None:
        """Kafka recovers our log: nothing is cut, and the indexes it builds are those that we wrote."""
        copy = self.oracle.recover(self.ours, into, config=self.config, now_ms=NOW_MS)
        for log in sorted(self.ours.glob("*.log")):
            assert (copy / log.name).read_bytes() == log.read_bytes()
        for name, data in index_files(self.ours).items():
            if not name.endswith(".txnindex"):
                assert (copy / name).read_bytes() == data, name


def compare(our_path: Path, their_path: Path) -> None:
    """The same segments with the same batches; without compression the same bytes, indexes included."""
    theirs, ours = sorted(their_path.glob("*.log")), sorted(our_path.glob("*.log"))
    assert [log.name for log in ours] == [log.name for log in theirs]
    same_sizes = True
    for their, our in zip(theirs, ours, strict=True):
        batches, expected = batches_of(our), batches_of(their)
        for one, other in zip(batches, expected, strict=False):
            assert one == other
        assert len(batches) == len(expected)
        if not any(batch["attributes"] & 7 for batch in expected):
            assert our.read_bytes() == their.read_bytes()
        same_sizes &= our.stat().st_size == their.stat().st_size
        if our != ours[-1]:
            assert our.stat().st_mtime_ns // 10**6 == their.stat().st_mtime_ns // 10**6
    left, found = index_files(their_path), index_files(our_path)
    for name in found.keys() - left.keys():  # Kafka makes those of an empty active segment later
        assert name.startswith(ours[-1].stem)
        assert not found.pop(name)
    assert found.keys() == left.keys()
    for name, data in left.items():
        if same_sizes or name.endswith(".txnindex"):
            assert found[name] == data, name


def write(oracle: Oracle, into: Path, **options: Any) -> Path:
    """A log that Kafka wrote."""
    path = into / "source" / "t-0"
    path.mkdir(parents=True)
    oracle.write_log(path, config=CONFIG | options.pop("config", {}), now_ms=NOW_MS, **options)
    return path


@pytest.mark.parametrize(
    ("seed", "kinds", "codecs"),
    [
        (1, ("plain",), ("none",)),
        (2, KINDS, ("none",)),
        (3, KINDS, CODECS),
        (4, ("transactional",), ("none",)),
        (5, ("transactional", "horizon"), CODECS),
        (6, ("idempotent",), ("gzip", "none")),
    ],
    ids=str,
)
def test_logs_are_left_as_by_kafka(
    seed: int, kinds: tuple[str, ...], codecs: tuple[str, ...], oracle: Oracle, tmp_path: Path
) -> None:
    """After one pass, after a second when the horizons have come, and after one with nothing to do."""
    source = write(oracle, tmp_path, seed=seed, batches=300, kinds=kinds, codecs=codecs)
    pair = Pair(oracle, source, tmp_path)
    pair.clean(*(at(NOW_MS + after) for after in (0, DAY_MS - 1, 2 * DAY_MS, 4 * DAY_MS)))
    pair.let_kafka_open_ours(tmp_path / "opened")


def at(clean_at_ms: int, **options: Any) -> dict[str, Any]:
    """A step of cleaning."""
    return {"clean_at_ms": clean_at_ms, **options}


def test_producers_that_are_forgotten_leave_no_batch(oracle: Oracle, tmp_path: Path) -> None:
    """A day later the log remembers no producer, so that nothing is kept for them."""
    source = write(oracle, tmp_path, seed=11, batches=200, kinds=KINDS, codecs=("none",))
    pair = Pair(oracle, source, tmp_path)
    pair.clean(at(NOW_MS, now_ms=NOW_MS + 2 * DAY_MS), at(NOW_MS + 2 * DAY_MS, now_ms=NOW_MS + 3 * DAY_MS))


@pytest.mark.parametrize(("map_bytes", "load_factor"), [(24 * 30, 0.9), (24 * 30, 0.5)])
def test_a_small_map_ends_rounds_where_kafkas_do(
    map_bytes: int, load_factor: float, oracle: Oracle, tmp_path: Path
) -> None:
    source = write(oracle, tmp_path, seed=21, batches=120, kinds=KINDS, codecs=("none", "lz4"))
    small = {"map_bytes": map_bytes, "load_factor": load_factor}
    one = Pair(oracle, source, tmp_path / "one")
    one.clean(at(NOW_MS, rounds=1, **small))
    many = Pair(oracle, source, tmp_path / "many")
    answer, _ = many.clean(at(NOW_MS, **small), at(NOW_MS + 2 * DAY_MS, **small))
    assert len(answer["end_offsets"]) > 2


def test_the_logs_own_times_stay(oracle: Oracle, tmp_path: Path) -> None:
    """With LogAppendTime all records of a batch have its max timestamp, whatever their deltas say."""
    stamped = {"message.timestamp.type": "LogAppendTime"}
    source = write(oracle, tmp_path, seed=41, batches=150, codecs=("none", "lz4"), config=stamped)
    pair = Pair(oracle, source, tmp_path)
    pair.clean(at(NOW_MS), at(NOW_MS + 2 * DAY_MS))


def test_cleaning_goes_on_from_a_checkpoint(oracle: Oracle, tmp_path: Path) -> None:
    """What lies before the first dirty offset is judged by the keys behind it only."""
    source = write(oracle, tmp_path, seed=31, batches=200, kinds=KINDS, codecs=("none",))
    pair = Pair(oracle, source, tmp_path)
    pair.clean(at(NOW_MS, first_dirty=700), at(NOW_MS + 2 * DAY_MS, first_dirty=1003))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_messages_of_old_formats_become_batches(codec: str, oracle: Oracle, tmp_path: Path) -> None:
    """Magic 0 and 1; their tombstones go by the times of the files."""
    oracle.write_legacy(tmp_path / "source", seed=5, segments=3, sets=25, config=CONFIG)
    for magic in (0, 1):
        source = tmp_path / "source" / f"legacy-v{magic}-{codec}-0"
        pair = Pair(oracle, source, tmp_path / str(magic), internal_segment_bytes=3000)
        pair.clean(at(NOW_MS, first_dirty=60), at(NOW_MS + 2 * DAY_MS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_many_more_logs(seed: int, oracle: Oracle, tmp_path: Path) -> None:
    source = write(
        oracle, tmp_path, seed=seed, batches=300, max_records=1 + seed % 20, kinds=(*KINDS, "horizon")
    )
    pair = Pair(oracle, source, tmp_path, internal_segment_bytes=5000 + 3000 * (seed % 7))
    pair.clean(*(at(NOW_MS + days * DAY_MS) for days in range(5)))
