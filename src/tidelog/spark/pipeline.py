"""`pipeline`: jobs one after the other (`pipeline_config`), each skipped when it is done already.

A step is done if it was finished with these very settings, no step before it had anything to do in this run,
and what it works on is as it was then: for an ingest the files of its source, for all others where the logs
of the root end. That is written down after each step, so a pipeline that was stopped goes on where it
stopped; the jobs themselves are resumable besides.

Damage that `verify` finds ends the pipeline: nothing is compacted or exported from a damaged root.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import DataLossError, InvalidIndexError, TidelogError
from tidelog.manager.verification.findings import Kind
from tidelog.scanning.partitions import list_partitions
from tidelog.scanning.stability import log_end_offset
from tidelog.spark.compacting import compact
from tidelog.spark.exporting import export
from tidelog.spark.ingesting import Columns, FileSource, ingest
from tidelog.spark.pipeline_config import PipelineConfig, Step, sink_options
from tidelog.spark.retaining import retention
from tidelog.spark.verifying import verify
from tidelog.storage import LOCAL, atomic_write
from tidelog.storage.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StepReport", "plan_pipeline", "run_pipeline"]

DONE, SKIPPED, FAILED, NOT_RUN, WOULD_RUN = "done", "skipped", "failed", "not run", "would run"


@dataclass(frozen=True, slots=True)
class StepReport:
    """What became of a step."""

    step: str
    status: str
    seconds: float = 0.0
    detail: str = ""


def plan_pipeline(config: PipelineConfig) -> list[StepReport]:
    """Which steps would run; those behind one that runs may turn out to have nothing to do."""
    state = _State(config.state)
    reports, ran = [], False
    for step in config.steps:
        is_done = not ran and state.is_done(step, _input_of(step, config))
        ran = ran or not is_done
        reports.append(StepReport(step.name, SKIPPED if is_done else WOULD_RUN))
    return reports


def run_pipeline(
    session: Callable[[], SparkSession],
    config: PipelineConfig,
    tell: Callable[[StepReport], None] = lambda report: None,
) -> list[StepReport]:
    """Run the steps that are not done; a report of each, also told as they end.

    `session` makes the Spark session when the first step needs one. A step that fails ends the pipeline: the
    report says why, and what was not run.
    """
    state = _State(config.state)
    reports: list[StepReport] = []
    ran, failed = False, False

    def add(report: StepReport) -> None:
        reports.append(report)
        tell(report)

    for step in config.steps:
        if failed:
            add(StepReport(step.name, NOT_RUN))
            continue
        if not ran and state.is_done(step, _input_of(step, config)):
            add(StepReport(step.name, SKIPPED))
            continue
        begin = time.monotonic()
        try:
            detail, changed = _RUN[step.kind](session(), step, config)
        except (TidelogError, OSError) as error:
            failed = True
            add(StepReport(step.name, FAILED, time.monotonic() - begin, str(error)))
            continue
        ran = ran or changed
        state.done(step, _input_of(step, config))
        add(StepReport(step.name, DONE, time.monotonic() - begin, detail))
    return reports


# ---- what was done


class _State:
    """The file that says which steps are done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._steps: dict[str, Any] = {}
        if path.exists():
            try:
                self._steps = json.loads(path.read_bytes())["steps"]
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidIndexError(f"{path} does not say which steps are done: {error}") from error

    def is_done(self, step: Step, given: str) -> bool:
        """Whether a step was finished with these settings on this input."""
        return bool(given) and self._steps.get(step.name) == [_digest(dict(step.settings)), given]

    def done(self, step: Step, given: str) -> None:
        """Write down that a step was finished."""
        self._steps[step.name] = [_digest(dict(step.settings)), given]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(LOCAL, self._path, json.dumps({"version": 1, "steps": self._steps}).encode())


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _input_of(step: Step, config: PipelineConfig) -> str:
    """What a step works on, as a digest; empty where that cannot be told."""
    if step.kind == "ingest":
        return _source_state(step.settings["source"])
    if not config.root.is_dir():
        return ""
    there = list_partitions(config.root)
    ends = {
        str(one.topic_partition): log_end_offset(one, damage_ends_it=True)
        for one in there
        if one.topic_partition.topic != CLUSTER_METADATA_TOPIC
    }
    return _digest(ends)


def _source_state(source: str) -> str:
    """Names, sizes and times of a source's files."""
    if "://" in source:
        return ""
    found = []
    anchor = Path(source).anchor
    is_glob = any(sign in source for sign in "*?[")
    matches = sorted(Path(anchor).glob(source.removeprefix(anchor))) if is_glob else [Path(source)]
    for path in matches:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        found += [[str(one), one.stat().st_size, one.stat().st_mtime_ns] for one in files]
    return _digest(found)


# ---- the steps: what they did in words, and whether it changed anything for those that follow


def _ingest(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    settings = step.settings
    options = sink_options(step, config.root)
    topic = options.pop("topic", None)
    del options["path"]
    rows = ingest(
        spark,
        FileSource(settings["format"], settings["source"], settings.get("options", {})),
        config.root,
        topic=topic,
        columns=Columns(
            value=settings.get("value"), key=settings.get("key"), timestamp=settings.get("timestamp")
        ),
        name=settings.get("name"),
        options=options,
    ).toArrow()
    records = sum(rows.column("records").to_pylist())
    return f"{records} records into {rows.num_rows} partitions", records > 0


def _verify(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    found = verify(spark, config.root, deep=step.settings.get("deep", False)).toArrow().to_pylist()
    damage = [row for row in found if row["kind"] == Kind.DAMAGE.value]
    if damage:
        first = damage[0]
        raise DataLossError(f"{len(damage)} findings of damage, first in {first['file']}: {first['cause']}")
    return f"sound, {len(found)} notes", False


def _compact(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    settings = step.settings
    rows = compact(
        spark,
        config.root,
        topics=settings.get("topics"),
        from_start=settings.get("from_start", False),
    ).toArrow()
    before, after = (sum(rows.column(name).to_pylist()) for name in ("bytes_before", "bytes"))
    return f"{rows.num_rows} partitions, {before} bytes became {after}", before != after


def _retention(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    rows = retention(spark, config.root, topics=step.settings.get("topics")).toArrow()
    freed = sum(rows.column("bytes").to_pylist())
    return f"{rows.num_rows} segments are deleted, {freed} bytes", rows.num_rows > 0


def _export(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    settings = step.settings
    rows = export(
        spark,
        config.root,
        settings["to"],
        topics=settings.get("topics"),
        value_format=settings.get("values", "bytes"),
        schema=settings.get("schema"),
    ).toArrow()
    records = sum(rows.column("records").to_pylist())
    return f"{records} records", False


_RUN: Mapping[str, Callable[[SparkSession, Step, PipelineConfig], tuple[str, bool]]] = {
    "ingest": _ingest,
    "verify": _verify,
    "compact": _compact,
    "retention": _retention,
    "export": _export,
}
