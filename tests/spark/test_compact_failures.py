"""Compaction on Spark whose tasks fail or run twice, whose driver dies: nothing is lost, nothing is left."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
import tidelog.spark
from tests.cleanup.cleaning import PassesBy, clean_directory
from tests.log.logs import NOW_MS
from tests.spark.in_process import LocalSpark, run_here
from tests.spark.test_compact import COMPACTED, NOW, files, make_root, same_files
from tests.spark.test_compact_passes import CONFIG, generate, state
from tidelog.errors import CorruptRecordError
from tidelog.manager.publishing.mark import begin_staging, discard_staging, is_just_begun, is_ours
from tidelog.manager.upkeep.compacting import Compaction, compact_at_rest
from tidelog.records import Record
from tidelog.spark.compaction.passes import DistributedPasses, Run
from tidelog.spark.compaction.tasks import MapWork, MergeWork, RewriteWork
from tidelog.storage import LOCAL
from tidelog.testing.faults import CHANGES, Call, FaultyFileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKS = [MapWork, MergeWork, RewriteWork]


def passes(staging: Path, run: Run, **options: Any) -> PassesBy:
    return lambda memory, load: DistributedPasses(
        run, staging, share_bytes=3000, dedupe_bytes=memory, load_factor=load, **options
    )


def clean(path: Path, by: PassesBy | None = None) -> None:
    """A map that takes several rounds."""
    clean_directory(path, CONFIG, clean_at_ms=NOW_MS, now_ms=NOW_MS, map_bytes=24 * 45, by=by)


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, tuple[bytes, int]]:
    """What the local cleaner leaves of the log in `t-0`."""
    path = Path(shutil.copytree(generate(tmp_path / "t-0", 3), tmp_path / "local" / "t-0"))
    clean(path)
    return state(path)


def test_tasks_that_run_twice_do_not_meet(expected: dict[str, Any], tmp_path: Path) -> None:
    """Of two attempts either may be the one whose answer counts."""

    def twice(work: Callable[[int, Any], Any], splits: Sequence[Any]) -> list[Any]:
        attempts = [run_here(work, splits) for _ in range(2)]
        return [attempts[number % 2][number] for number in range(len(splits))]

    clean(tmp_path / "t-0", passes(tmp_path / "staging", twice))
    assert state(tmp_path / "t-0") == expected
    assert not (tmp_path / "staging").exists()


@pytest.mark.parametrize("which", WORKS)
@pytest.mark.parametrize("good", [0, 1])
def test_a_job_that_fails_leaves_whole_rounds(
    which: type, good: int, expected: dict[str, Any], tmp_path: Path
) -> None:
    """In the first round nothing has changed by then; what is done again leaves what it always does."""
    path = tmp_path / "t-0"
    before, left = state(path), good

    def fail(work: Callable[[int, Any], Any], splits: Sequence[Any]) -> list[Any]:
        nonlocal left
        if isinstance(work, which):
            left -= 1
            if left < 0:
                run_here(work, splits[: len(splits) // 2])
                raise OSError("the executor is gone")
        return run_here(work, splits)

    with pytest.raises(OSError, match="executor is gone"):
        clean(path, passes(tmp_path / "staging", fail))
    assert not list(path.glob("*.cleaned"))
    assert (state(path).items() >= before.items()) == (good == 0)
    if not good:
        clean(path, passes(tmp_path / "staging", run_here))
        assert state(path) == expected


def test_a_driver_that_dies_between_two_groups_has_compacted_some(
    expected: dict[str, Any], tmp_path: Path
) -> None:
    """Each group is in its place or not; going through all again leaves the same records."""
    path, swaps = tmp_path / "t-0", 0

    @contextmanager
    def dying() -> Iterator[None]:
        nonlocal swaps
        swaps += 1
        if swaps == 3:
            raise KeyboardInterrupt
        yield

    class Gate:
        def __enter__(self) -> None:
            self.now = dying()
            self.now.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.now.__exit__(*error)

    with pytest.raises(KeyboardInterrupt):
        clean(path, passes(tmp_path / "staging", run_here, gate=Gate()))
    assert not list(path.glob("*.cleaned"))
    clean(path, passes(tmp_path / "staging", run_here))
    assert {name: files[0] for name, files in state(path).items()} == {
        name: files[0] for name, files in expected.items()
    }


@pytest.mark.parametrize("most", [None, 12_000])
def test_damage_in_one_partition_is_told_and_staging_swept(
    most: int | None, spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    make_root(root)
    log = sorted((root / "a-1").glob("*.log"))[2]
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    before = files(root / "a-1")
    with pytest.raises(CorruptRecordError, match=re.escape(str(log))):
        tidelog.spark.compact(spark, root, now_ms=NOW, max_bytes_per_task=most)
    assert (
        files(root / "a-1").items()
        >= {name: data for name, data in before.items() if name.endswith(".log")}.items()
    )
    assert not list((tmp_path / ".tidelog-staging-root").iterdir())
    log.write_bytes(data)
    tidelog.spark.compact(spark, root, now_ms=NOW, max_bytes_per_task=most)
    with tidelog.open(root) as store:
        assert not store.offline_partitions


def test_many_small_partitions_share_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Forty partitions, two tasks."""
    with tidelog.open(tmp_path / "local") as store:
        store.create_topic("t", 40, COMPACTED)
        for partition in store.partitions:
            for _ in range(3):
                partition.append([Record(b"value", b"key", timestamp=NOW)])
    shutil.copytree(tmp_path / "local", tmp_path / "spark")
    names = tuple(path.name for path in (tmp_path / "local").iterdir() if path.is_dir())
    assert len(list(compact_at_rest(Compaction(LOCAL, str(tmp_path / "local"), names, NOW)))) == 40
    context = spark.sparkContext
    context.setJobGroup("small", "small")
    try:
        rows = tidelog.spark.compact(spark, tmp_path / "spark", now_ms=NOW).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert len(rows) == 40
    tracker = context.statusTracker()
    infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("small")]
    stages = [tracker.getStageInfo(stage) for info in infos if info for stage in info.stageIds]
    assert max(stage.numTasks for stage in stages if stage) == 2
    assert same_files(tmp_path / "spark", tmp_path / "local")


def test_what_killed_runs_have_staged_goes_with_the_next(tmp_path: Path) -> None:
    """Also of runs that were killed before they had marked it; nothing else goes."""
    root, staging = tmp_path / "root", tmp_path / ".tidelog-staging-root"
    make_root(root)
    begin_staging(LOCAL, f"{staging}/compact@killed", "nobody")
    (staging / "compact@killed/000000-x").mkdir()
    (staging / "compact@killed/000000-x/0.log").write_bytes(b"staged")
    (staging / "compact@begun").mkdir()
    (staging / "compact@marking").mkdir()
    (staging / "compact@marking/tidelog-staging").touch()
    begin_staging(LOCAL, f"{staging}/compact-orders", "nobody")  # of a write with that name
    (staging / "compact@mine").mkdir()
    (staging / "compact@mine/notes").write_text("not a writer's")
    session: Any = LocalSpark()
    assert tidelog.spark.compact(session, root, now_ms=NOW).toArrow().num_rows == 4
    assert sorted(path.name for path in staging.iterdir()) == ["compact-orders", "compact@mine"]


def test_a_sweep_that_is_cut_short_leaves_what_the_next_one_knows(tmp_path: Path) -> None:
    for last in count(1):
        staging = tmp_path / str(last)
        begin_staging(LOCAL, str(staging), "nobody")
        for name in ("0.log", "a/b/1.log", "z"):
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).write_bytes(b"staged")
        left = last

        def rule(call: Call) -> None:
            nonlocal left
            left -= call.operation in CHANGES
            if not left:
                raise KeyboardInterrupt

        try:
            discard_staging(FaultyFileSystem(LOCAL, rule), str(staging))
        except KeyboardInterrupt:
            assert not staging.exists() or is_ours(LOCAL, str(staging)) or is_just_begun(LOCAL, str(staging))
        else:
            assert last > 8
            return
