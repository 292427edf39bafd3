"""`tidelog pipeline`: jobs one after the other, as a file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Exit, Option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pipeline"]


@app.command()
def pipeline(
    config: Annotated[Path, Argument(metavar="CONFIG.yaml", help="The pipeline: root and steps.")],
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only check the file, with Spark, and show which steps would run.")
    ] = False,
    spark: Annotated[str | None, Option("--spark", metavar="MASTER", help="Spark's master.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the steps of a file: ingest, verify, compact, retention, trim, export. Finished steps are skipped.

    The whole file is checked before anything starts. A step that fails ends the run; the next run continues
    there.
    """
    from contextlib import ExitStack

    from tidelog.cli.errors import FOUND_WRONG
    from tidelog.cli.render.output import Column, make_output
    from tidelog.spark import MissingDependencyError, quiet_session
    from tidelog.spark.pipeline.checks import check_steps, check_topics, needs_spark
    from tidelog.spark.pipeline.config import read_config
    from tidelog.spark.pipeline.run import FAILED, plan_pipeline, run_pipeline

    output = make_output(json=json)
    wanted = read_config(config)
    with ExitStack() as stack:
        made: list[SparkSession] = []

        def session() -> SparkSession:
            if not made:
                made.append(stack.enter_context(quiet_session(spark or wanted.spark)))
            return made[0]

        if dry_run:
            reports = plan_pipeline(wanted)
            if needs_spark(wanted):
                try:
                    check_steps(session(), wanted)
                except MissingDependencyError as error:
                    output.say(f"formats, expressions and schemas were not checked: {error}")
        else:
            check_topics(wanted)
            reports = run_pipeline(session, wanted)
    columns = [
        Column("step", "step"),
        Column("status", "status"),
        Column("seconds", "seconds", right=True),
        Column("detail", "detail"),
    ]
    output.table(columns, ([one.step, one.status, round(one.seconds, 1), one.detail] for one in reports))
    if any(one.status == FAILED for one in reports):
        raise Exit(FOUND_WRONG)
