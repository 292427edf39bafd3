"""What `cat` and `tail` do with a selection: read it, and show its records in the form that was asked for."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidelog.cli.actions.reading import Selection, last_records, read_tasks
from tidelog.cli.actions.tail import follow as followed
from tidelog.cli.errors import FOUND_WRONG
from tidelog.cli.interrupts import interruptible
from tidelog.cli.render.output import Output
from tidelog.cli.render.record_lines import RecordLines
from tidelog.errors import DataLossError

__all__ = ["show_last", "show_records", "show_selection"]


def show_selection(selection: Selection, lines: RecordLines, out: Output, limit: int | None = None) -> int:
    """Show all records, `limit` at most; the exit code."""
    tasks = selection.tasks()
    with out.progress(sum(task.size for task in tasks), "reading") as progress:
        advance = (lambda size: None) if out.terminal else progress.advance
        found = read_tasks(tasks, lines.columns, selection.wanted, advance, selection.damage)
        code = show_records(found, lines, out, limit)
    if limit is None:
        selection.complain()
    return selection.damage.tell(out) or code


def show_records(
    batches: Iterable[pa.RecordBatch], lines: RecordLines, out: Output, limit: int | None = None
) -> int:
    """Show records, `limit` at most; the exit code."""
    left = limit
    for batch in batches:
        shown = batch if left is None else batch.slice(0, left)
        out.write(lines.lines(shown))
        if left is not None:
            left -= shown.num_rows
            if left <= 0:
                break
    return _told(lines, out)


def show_last(selection: Selection, lines: RecordLines, out: Output, count: int, *, follow: bool) -> int:
    """Show the last records of each partition, and with `follow` those that come after them."""
    for one in selection.ranges:
        try:
            for batch in last_records(selection, one, count, lines.columns) if count else ():
                out.write(lines.lines(batch))
        except (DataLossError, FileNotFoundError) as error:
            if not follow:
                raise
            out.warn(f"tidelog: {error}")
    if follow:
        with interruptible() as check:
            for found in followed(selection, lines.columns, out, check):
                if found is None:
                    out.flush()
                else:
                    out.write(lines.lines(found))
    selection.complain()
    return selection.damage.tell(out) or _told(lines, out)


def _told(lines: RecordLines, out: Output) -> int:
    if not lines.undecodable:
        return 0
    if lines.typed:
        what = " and ".join(f"{one.column}s" for one in lines.typed)
        out.warn(
            f"tidelog: {lines.undecodable} {what} did not decode and are shown as bytes; --json tells why"
        )
    else:
        out.warn(f"tidelog: {lines.undecodable} records are not what --decode says: try another decoder")
    return FOUND_WRONG
