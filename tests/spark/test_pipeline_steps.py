"""When a step of a pipeline runs: by what it consumed, not by what is there at its end; and by the clock.

The steps here stand in for Spark's jobs: only the pipeline's own decisions are under test.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.errors import InvalidInputError
from tidelog.records import Record

pytest.importorskip("pyspark")

from tidelog.spark.pipeline import run as pipeline
from tidelog.spark.pipeline.config import PipelineConfig, Step, read_config
from tidelog.spark.pipeline.inputs import is_due

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Callable[[Any, Step, PipelineConfig], tuple[str, bool]]
DAY_MS = 86_400_000


class Jobs:
    """Stand-ins for the jobs: what each kind does when it runs, and how often it ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.during: dict[str, Callable[[], None]] = {}
        self.changes: set[str] = set()
        self.ran: list[str] = []
        monkeypatch.setattr(pipeline, "_RUN", {kind: self._job(kind) for kind in pipeline._RUN})

    def _job(self, kind: str) -> Job:
        def job(spark: Any, step: Step, config: PipelineConfig) -> tuple[str, bool]:
            self.ran.append(step.name)
            self.during.pop(kind, lambda: None)()
            return "", kind in self.changes

        return job


class Clock:
    """The pipeline's time: what it is, or later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.later_ms = 0
        monkeypatch.setattr(pipeline, "_now_ms", lambda: time.time_ns() // 1_000_000 + self.later_ms)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    return Jobs(monkeypatch)


def test_every_kind_of_step_runs_and_says_when_it_is_due(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    append(tmp_path)
    given = {
        "ingest": "{source: in, format: json}",
        "export": "{to: out}",
        "trim": "{before_time: 2 days ago}",
    }
    config = configured(tmp_path, *(f"{kind}: {given.get(kind, '{}')}" for kind in pipeline._RUN))
    assert not any(is_due(step, config, None, 0) for step in config.steps)
    with pytest.raises(InvalidInputError, match=f"there are {', '.join(pipeline._RUN)}"):
        configured(tmp_path, "polish: {}")
    with pytest.raises(NotImplementedError, match="polish"):
        is_due(Step(1, "polish", {}), config, None, 0)


def configured(tmp_path: Path, *steps: str) -> PipelineConfig:
    (tmp_path / "p.yaml").write_text("root: root\nsteps:\n" + "".join(f"  - {step}\n" for step in steps))
    return read_config(tmp_path / "p.yaml")


def statuses(config: PipelineConfig) -> list[str]:
    nothing: Any = None
    return [one.status for one in pipeline.run_pipeline(lambda: nothing, config)]


def append(tmp_path: Path, topic: str = "t", count: int = 1, *, age_ms: int = 0, **config: str) -> None:
    now = time.time_ns() // 1_000_000
    with tidelog.open(tmp_path / "root") as store:
        if topic not in store.topics:
            store.create_topic(topic, config={key.replace("_", "."): value for key, value in config.items()})
        store.topic(topic)[0].append([Record(b"v", key=b"k", timestamp=now - age_ms) for _ in range(count)])


@pytest.mark.parametrize("step", ["verify: {deep: true}", "export: {to: out}", "compact: {}"])
def test_records_that_arrive_during_a_step_are_the_next_runs(tmp_path: Path, jobs: Jobs, step: str) -> None:
    append(tmp_path)
    config = configured(tmp_path, step)
    (tmp_path / "out/_tidelog").mkdir(parents=True)
    (tmp_path / "out/_tidelog/export.json").write_text("{}")
    jobs.during[step.partition(":")[0]] = lambda: append(tmp_path)
    assert statuses(config) == ["done"]
    assert statuses(config) == ["done"]
    assert statuses(config) == ["skipped"]


@pytest.mark.parametrize("source", ["in", "in/*.json", "in/{a,b}*", "in/*/x.json"])
def test_files_that_arrive_during_a_step_are_the_next_runs(tmp_path: Path, jobs: Jobs, source: str) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/a.json").write_text("{}")
    append(tmp_path)
    config = configured(tmp_path, f"ingest: {{source: '{source}', format: json, topic: t}}")
    jobs.during["ingest"] = lambda: (tmp_path / "in/deep/x.json").write_text("{}") and None
    assert statuses(config) == ["done"]
    assert statuses(config) == ["done"]
    assert statuses(config) == ["skipped"]
    (tmp_path / "in/b.json").write_text("{}")
    assert statuses(config) == ["done"]


def test_files_behind_a_link_are_seen(tmp_path: Path, jobs: Jobs) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/loop").symlink_to(tmp_path / "in")
    append(tmp_path)
    config = configured(tmp_path, "ingest: {source: in, format: json, topic: t}")
    assert statuses(config) == ["done"]
    assert statuses(config) == ["skipped"]
    (tmp_path / "elsewhere/new.json").write_text("{}")
    assert statuses(config) == ["done"]


def test_a_step_whose_end_was_not_written_down_runs_again_with_all_that_follow(
    tmp_path: Path, jobs: Jobs
) -> None:
    append(tmp_path)
    config = configured(tmp_path, "verify: {}", "compact: {from_start: true}", "verify: {deep: true}")
    assert statuses(config) == ["done"] * 3
    assert statuses(config) == ["skipped"] * 3

    def die() -> None:
        raise KeyboardInterrupt

    append(tmp_path)
    jobs.during["compact"] = die
    with pytest.raises(KeyboardInterrupt):
        statuses(config)
    jobs.ran.clear()
    assert statuses(config) == ["skipped", "done", "done"]
    assert jobs.ran == ["2-compact", "3-verify"]


def test_what_a_step_changed_makes_later_steps_run_in_the_next_run_too(tmp_path: Path, jobs: Jobs) -> None:
    append(tmp_path)
    config = configured(tmp_path, "compact: {from_start: true}", "verify: {}")
    assert statuses(config) == ["done", "done"]
    append(tmp_path)
    jobs.changes.add("compact")

    def die() -> None:
        raise KeyboardInterrupt

    jobs.during["verify"] = die
    with pytest.raises(KeyboardInterrupt):
        statuses(config)
    assert statuses(config) == ["skipped", "done"]


def test_a_topic_made_anew_with_the_same_ends_is_another_input(tmp_path: Path, jobs: Jobs) -> None:
    append(tmp_path)
    config = configured(tmp_path, "verify: {}")
    assert statuses(config) == ["done"]
    with tidelog.open(tmp_path / "root") as store:
        store.delete_topic("t")
    append(tmp_path)
    assert statuses(config) == ["done"]
    assert statuses(config) == ["skipped"]


def test_what_was_lost_is_made_again(tmp_path: Path, jobs: Jobs) -> None:
    (tmp_path / "in").mkdir()
    append(tmp_path)
    steps = ("ingest: {source: in, format: json, topic: t}", "export: {to: out}")
    config = configured(tmp_path, *steps)
    (tmp_path / "out/_tidelog").mkdir(parents=True)
    (tmp_path / "out/_tidelog/export.json").write_text("{}")
    assert statuses(config) == ["done", "done"]
    shutil.rmtree(tmp_path / "out")
    assert statuses(config) == ["skipped", "done"]
    shutil.rmtree(tmp_path / "root")
    append(tmp_path)
    assert statuses(config)[0] == "done"


def test_other_topics_are_no_reason_to_run(tmp_path: Path, jobs: Jobs) -> None:
    append(tmp_path)
    append(tmp_path, "other")
    config = configured(tmp_path, "retention: {topics: [t]}")
    assert statuses(config) == ["done"]
    append(tmp_path, "other")
    assert statuses(config) == ["skipped"]


def test_retention_of_a_quiet_topic_comes_due(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    append(tmp_path, retention_ms="600000")
    with tidelog.open(tmp_path / "root") as store:
        store.topic("t")[0].log.roll()
    config = configured(tmp_path, "retention: {}")
    assert statuses(config) == ["done"]
    assert statuses(config) == ["skipped"]
    assert [one.status for one in pipeline.plan_pipeline(config)] == ["skipped"]
    clock.later_ms = 600_001
    assert [one.status for one in pipeline.plan_pipeline(config)] == ["would run"]
    assert statuses(config) == ["done"]


def test_trim_comes_due_by_the_clock(tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    append(tmp_path, age_ms=DAY_MS - 600_000)
    append(tmp_path)
    config = configured(tmp_path, "trim: {topics: [t], before_time: 1 day ago}")
    assert statuses(config) == ["done"]
    assert statuses(config) == ["skipped"]
    clock.later_ms = 600_001
    assert statuses(config) == ["done"]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("trim: {topics: [t]}", "one of before_time and before is expected"),
        ("trim: {topics: [t], before: 3, before_time: now}", "one of before_time and before is expected"),
        ("trim: {before: 3}", "name the topics"),
        ("trim: {before_time: soon}", "step 1, trim, before_time: 'soon' is not a time"),
        ("trim: {topics: [t], before: -1}", "step 1, trim, before: an offset of at least 0"),
    ],
)
def test_bad_settings(tmp_path: Path, step: str, words: str) -> None:
    with pytest.raises(tidelog.errors.InvalidInputError, match=words):
        configured(tmp_path, step)


def test_times_as_yaml_reads_them(tmp_path: Path) -> None:
    for text in ("2026-11-15", "2026-11-15T10:00:00Z", "1700000000000", "7 days ago"):
        (step,) = configured(tmp_path, f"trim: {{before_time: {text}}}").steps
        assert isinstance(step.settings["before_time"], str)


def test_tombstones_of_a_quiet_topic_go_when_their_time_has_come(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidelog.open(tmp_path / "root") as store:
        config = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY_MS)}
        partition = store.create_topic("t", config=config)[0]
        partition.append([Record(b"1", key=b"a"), Record(b"2", key=b"b"), Record(None, key=b"a")])
    pipe = configured(tmp_path, "compact: {topics: [t]}", "trim: {topics: [t], before: 1}")

    def run() -> list[str]:
        return [one.status for one in pipeline.run_pipeline(lambda: spark, pipe)]

    def values() -> list[bytes | None]:
        with tidelog.open(tmp_path / "root") as store:
            return [record.value for record in store.topic("t")[0]]

    assert run() == ["done", "done"]
    assert values() == [b"2", None]
    assert run() == ["skipped", "skipped"]
    later = time.time_ns() // 1_000_000 + DAY_MS + 60_000
    monkeypatch.setattr(pipeline, "_now_ms", lambda: later)
    assert [one.status for one in pipeline.plan_pipeline(pipe)] == ["would run", "would run"]
    assert run()[0] == "done"
    assert values() == [b"2"]
    assert run() == ["skipped", "skipped"]
