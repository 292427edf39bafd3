"""`tidelog search`: records by offset, time, key or value, over many partitions."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, app
from tidelog.cli.declare import Exit, Option
from tidelog.cli.options.reading import Corrupt, Form, Limit, Spread, Wanted, grouped

__all__ = ["search"]

Count = Annotated[bool, Option("--count", help="Only print the number of matches.")]
Threads = Annotated[
    int | None,
    Option("--threads", metavar="N", min=1, help="The number of threads.", show_default="all cores"),
]


@app.command()
@grouped
def search(
    wanted: Wanted,
    spread: Spread,
    form: Form,
    corrupt: Corrupt = "fail",
    limit: Limit = None,
    count: Count = False,
    threads: Threads = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find records in many partitions. Print them with topic, partition and offset, or count them.

    Conditions apply to the bytes of keys and values; all must hold. Matches are printed in order of partition
    and offset.
    """
    from tidelog.cli.actions.cat import show_records
    from tidelog.cli.actions.search import COUNT_COLUMNS, count_matches, search_by_spark, search_on_threads
    from tidelog.cli.render.output import make_output
    from tidelog.cli.render.spark_progress import Reporter
    from tidelog.storage.processes import available_cpus

    out = make_output(json=json)
    selection = wanted.select(spread.bounds(), corrupt)
    lines = form.lines(out, selection, "topic,partition,offset,key")
    columns = COUNT_COLUMNS if count else lines.columns
    with ExitStack() as stack:
        if spark is not None:
            reporter = Reporter(out, stack, "searching")
            found = search_by_spark(selection, columns, limit, spark, reporter)
        else:
            total = sum(task.size for task in selection.tasks())
            progress = stack.enter_context(out.progress(total, "searching"))
            workers = threads or available_cpus()
            found = search_on_threads(selection, columns, limit, workers, progress.advance)
        code = count_matches(found, out) if count else show_records(found, lines, out, limit)
    if limit is None:
        selection.complain()
    raise Exit(selection.damage.tell(out) or code)
