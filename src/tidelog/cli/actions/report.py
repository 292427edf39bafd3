"""What `tidelog report` does: the facts gathered here or on Spark, and the page written."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tidelog.cli.actions.doctor import start_time
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Output
from tidelog.cli.render.spark_progress import Reporter
from tidelog.cli.render.units import are, counted, size_text
from tidelog.report.facts import gather
from tidelog.report.page import MARK, page
from tidelog.storage import LOCAL, atomic_write

__all__ = ["write_report"]


def write_report(
    paths: Sequence[str],
    target: Path | None,
    output: Output,
    *,
    doctor: bool,
    records: bool,
    now: str | None,
    properties: Path | None,
    master: str | None,
) -> int:
    """Gather the facts, write the page and print the facts, as asked for; the exit code."""
    if target is not None:
        _check_target(target)
    logging.getLogger("tidelog").setLevel(logging.CRITICAL)  # what is found is in the facts
    asked: dict[str, Any] = {
        "examine": doctor,
        "records": records,
        "now_ms": start_time(now),
        "config": RootOptions(properties).broker,
    }
    with ExitStack() as stack:
        asked["progress"] = Reporter(output, stack, "looking")
        facts = gather(list(paths), **asked) if master is None else _on_spark(paths, master, asked)
    if target is not None:
        text = page(facts)
        atomic_write(LOCAL, target.absolute(), text.encode())
        totals = facts["totals"]
        damaged = totals["damaged"]
        output.say(
            f"{target}: {counted(totals['topics'], 'topic')}, {counted(totals['partitions'], 'partition')}, "
            f"{size_text(totals['size_bytes'])}; {counted(damaged, 'partition')} {are(damaged)} damaged"
        )
    if output.json:
        output.write(f"{json.dumps(facts, separators=(',', ':'))}\n".encode())
    return FOUND_WRONG if facts["totals"]["damaged"] else 0


def _on_spark(paths: Sequence[str], master: str, asked: dict[str, Any]) -> dict[str, Any]:
    from tidelog.spark import quiet_session
    from tidelog.spark.reporting.job import report_facts

    with quiet_session(master) as session:
        return report_facts(session, list(paths), **asked)


def _check_target(target: Path) -> None:
    """Refuse to write where something else is."""
    if target.is_dir():
        raise UsageError(f"{target} is a directory: name the page, such as {target / 'report.html'}")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target.absolute().parent} is not a directory: make it first")
    if target.exists():
        with target.open("rb") as file:
            if file.read(len(MARK)) != MARK.encode():
                raise UsageError(f"{target} exists and is not a report: it is not replaced")
