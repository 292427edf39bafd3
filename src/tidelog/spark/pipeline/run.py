"""`pipeline`: jobs one after the other (`config`), each skipped when it is done already.

A step is done if it was finished with these very settings, no step before it changed anything in this run,
and what it works on is what it was when the step began (`inputs`). Steps that depend on the clock
(`retention`, `trim`, and `compact` for its tombstones) are done only if nothing is due now. That is written
down after each step (`state`), so a pipeline that was stopped continues where it stopped. A step whose end
could not be written down runs again: the jobs take only what they have not taken yet.

Damage that `verify` finds ends the pipeline: nothing is compacted or exported from a damaged root.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.errors import DataLossError, TidelogError
from tidelog.manager.verification.findings import Kind
from tidelog.spark.compaction.job import compact
from tidelog.spark.exporting.job import export
from tidelog.spark.ingesting.job import Columns, FileSource, ingest
from tidelog.spark.pipeline.checks import check_topics
from tidelog.spark.pipeline.config import PipelineConfig, Step, sink_options, trim_bounds
from tidelog.spark.pipeline.inputs import (
    expired_topics,
    horizon_of,
    input_of,
    is_due,
    output_of,
    settings_of,
)
from tidelog.spark.pipeline.state import PipelineState
from tidelog.spark.upkeep.retention import retention, trim
from tidelog.spark.upkeep.verification import verify

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
    """Which steps would run; those behind one that runs may turn out to have nothing to do.

    InvalidInputError where a step names a topic that will not be there.
    """
    check_topics(config)
    state = PipelineState(config.state)
    reports, ran = [], False
    for step in config.steps:
        is_done = not ran and _is_done(state, step, config, input_of(step, config))
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
    state = PipelineState(config.state)
    reports: list[StepReport] = []
    ran, failed = False, False

    def add(report: StepReport) -> None:
        reports.append(report)
        tell(report)

    for step in config.steps:
        if failed:
            add(StepReport(step.name, NOT_RUN))
            continue
        given = input_of(step, config)  # before the step looks: what comes later is the next run's
        if not ran and _is_done(state, step, config, given):
            add(StepReport(step.name, SKIPPED))
            continue
        begin, begin_ms = time.monotonic(), _now_ms()
        try:
            state.begin(step.name)
            detail, changed = _RUN[step.kind](session(), step, config)
            state.done(step.name, _note(step, config, given, begin_ms), changed=changed)
        except (TidelogError, OSError) as error:
            failed = True
            add(StepReport(step.name, FAILED, time.monotonic() - begin, str(error)))
            continue
        ran = ran or changed
        add(StepReport(step.name, DONE, time.monotonic() - begin, detail))
    return reports


def _note(step: Step, config: PipelineConfig, given: str, begin_ms: int) -> dict[str, Any]:
    """What is written down of a step that is finished."""
    note: dict[str, Any] = _expected(step, config, given)
    if step.kind == "compact":
        note["left"] = list(horizon_of(config.root, step.settings.get("topics"), after_ms=begin_ms))
    return note


def _expected(step: Step, config: PipelineConfig, given: str) -> dict[str, str]:
    return {"settings": settings_of(step, config), "input": given, "output": output_of(step, config)}


def _is_done(state: PipelineState, step: Step, config: PipelineConfig, given: str) -> bool:
    note = state.note(step.name)
    if note is None or not given:
        return False
    if any(note.get(name) != value for name, value in _expected(step, config, given).items()):
        return False
    return not is_due(step, config, note.get("left"), _now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---- the steps: what they did in words, and whether it changed anything for those that follow


def _ingest(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    settings = step.settings
    options = sink_options(step, config.root)
    topic = options.pop("topic", None)
    del options["path"]
    if config.recover:
        options["recover"] = "true"
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
    """Compact what is dirty; and, from the start, topics with tombstones whose time has come."""
    topics, from_start = step.settings.get("topics"), step.settings.get("from_start", False)
    now_ms = _now_ms()

    def run(chosen: list[str] | None, from_start: bool) -> list[dict[str, Any]]:
        found = compact(
            spark,
            config.root,
            topics=chosen,
            now_ms=now_ms,
            from_start=from_start,
            recover=config.recover,
        )
        rows: list[dict[str, Any]] = found.toArrow().to_pylist()
        return rows

    expired = [] if from_start else expired_topics(config.root, topics, now_ms)
    rows = run(topics, from_start) + (run(expired, True) if expired else [])
    partitions = {(row["topic"], row["partition"]) for row in rows}
    freed = sum(row["bytes_before"] - row["bytes"] for row in rows)
    return f"{len(partitions)} partitions, {freed} bytes freed", freed != 0


def _retention(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    topics = step.settings.get("topics")
    rows = retention(spark, config.root, topics=topics, recover=config.recover).toArrow()
    freed = sum(rows.column("bytes").to_pylist())
    return f"{rows.num_rows} segments are deleted, {freed} bytes", rows.num_rows > 0


def _trim(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    bounds = trim_bounds(step, _now_ms())
    rows = trim(
        spark,
        config.root,
        topics=step.settings.get("topics"),
        before_offset=bounds.get("before_offset"),
        before_ms=bounds.get("before_ms"),
        recover=config.recover,
    ).toArrow()
    freed = sum(rows.column("bytes").to_pylist())
    return f"{rows.num_rows} log starts moved, {freed} bytes deleted", rows.num_rows > 0


def _export(spark: SparkSession, step: Step, config: PipelineConfig) -> tuple[str, bool]:
    settings = step.settings
    rows = export(
        spark,
        config.root,
        settings["to"],
        topics=settings.get("topics"),
        value_format=settings.get("values", "bytes"),
        schema=settings.get("schema"),
        evolve=settings.get("evolve", False),
    ).toArrow()
    records, invalid = (sum(rows.column(name).to_pylist()) for name in ("records", "invalid_values"))
    return f"{records} records" + (f", {invalid} values invalid" if invalid else ""), False


_RUN: Mapping[str, Callable[[SparkSession, Step, PipelineConfig], tuple[str, bool]]] = {
    "ingest": _ingest,
    "verify": _verify,
    "compact": _compact,
    "retention": _retention,
    "trim": _trim,
    "export": _export,
}
