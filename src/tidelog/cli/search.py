"""`tidelog search`: records by offset, time, key or value, over many partitions."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli import readoptions as options
from tidelog.cli.app import Debug, Json, app

if TYPE_CHECKING:
    from tidelog.cli.output import Output, Progress

__all__ = ["search"]

Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=1, help="How many at a time.", show_default="all cores"),
]
Spark = Annotated[
    str | None,
    typer.Option(
        "--spark", metavar="MASTER", help="Let Spark do it, such as 'local[*]'.", show_default=False
    ),
]


@app.command()
def search(
    paths: options.Paths,
    topic: options.Topics = None,
    partition: options.Partitions = None,
    key: options.Key = None,
    key_match: options.KeyMatch = None,
    contains: options.ValueContains = None,
    match: options.ValueMatch = None,
    offset: options.StartOffset = None,
    since: options.StartTime = None,
    to_offset: options.EndOffset = None,
    until: options.EndTime = None,
    committed: options.Committed = False,
    limit: options.Limit = None,
    count: Annotated[bool, typer.Option("--count", help="Only tell how many there are.")] = False,
    threads: Threads = None,
    spark: Spark = None,
    format: options.Format = "plain",
    show: options.Show = "topic,partition,offset,key",
    decode: options.Decode = None,
    avro_schema: options.AvroSchema = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find records in many partitions, and print them with their places, or count them.

    Conditions on keys and values look at the bytes; all have to hold. Matches come in the order of
    partitions and offsets.
    """
    from tidelog.cli.filters import RecordFilter
    from tidelog.cli.output import make_output
    from tidelog.cli.reading import Bounds, select
    from tidelog.cli.searching import COUNT_COLUMNS, count_matches, search_by_spark, search_on_threads
    from tidelog.cli.showing import show_records

    out = make_output(json=json)
    lines = options.record_lines(out, format, show, decode, avro_schema)
    selection = select(
        paths,
        topics=topic,
        partitions=partition,
        bounds=Bounds(offset, since, to_offset, until),
        committed_only=committed,
        wanted=RecordFilter(key, key_match, contains, match),
    )
    columns = COUNT_COLUMNS if count else lines.columns
    with ExitStack() as stack:
        reporter = _Reporter(out, stack, sum(task.size for task in selection.tasks()))
        if spark is not None:
            found = search_by_spark(selection, columns, limit, spark, reporter.reached)
        else:
            workers = threads or os.cpu_count() or 1
            found = search_on_threads(selection, columns, limit, workers, reporter.advance)
        code = count_matches(found, out) if count else show_records(found, lines, out, limit)
    if limit is None:
        selection.complain()
    raise typer.Exit(code)


class _Reporter:
    """Shows progress, told by bytes more or by bytes in all."""

    def __init__(self, out: Output, stack: ExitStack, total: int) -> None:
        self._progress: Progress = stack.enter_context(out.progress(total, "searching"))
        self._done = 0

    def advance(self, size_bytes: int) -> None:
        """So many bytes more are done."""
        self._done += size_bytes
        self._progress.advance(size_bytes)

    def reached(self, done: int, total: int) -> None:
        """So many bytes are done."""
        self.advance(done - self._done)
