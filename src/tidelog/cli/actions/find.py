"""Questions about partitions, answered without opening them for writing.

The files are looked at as they are now; the high watermark is taken for the log end. With --json each
question gets one line; asked of a root or of several partitions, each partition answers on a line of its own
that begins with `partition`, and an offset that it does not have is null:

    (none asked)       log_start_offset, log_end_offset, segments, size   and   last_stable_offset
    --offset N         offset, segment, index_offset, index_position, batch_offset, batch_position
    --timestamp MS     timestamp, found: null or {timestamp, offset}
    --committed-from N committed_from, aborted: [[producer id, first offset]...]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.errors import OffsetOutOfRangeError
from tidelog.scanning.fetching import aborted_from, check_offset, find_in_segment, log_ends
from tidelog.scanning.partitions import Partition, find_partitions, look_steadily
from tidelog.scanning.plan import segments_in_range
from tidelog.scanning.timestamps import look_up_time
from tidelog.scanning.views import segment_views

__all__ = ["Questions", "answer", "one_partition"]

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked."""

    offsets: Sequence[int] = ()
    timestamps: Sequence[int] = ()
    committed_from: Sequence[int] = ()


def one_partition(path: str | Path) -> Partition:
    """The partition in a directory or at a URL; UsageError if it holds none, or several."""
    found = find_partitions(path)
    if len(found) != 1 or not found[0].is_named:
        raise UsageError(f"{path} is not a partition directory, <topic>-<partition>; name one of those in it")
    if not found[0].segments:
        raise UsageError(f"{path} holds no segment")
    return found[0]


def answer(path: Path, questions: Questions, output: Output, topics: Sequence[str] | None = None) -> None:
    """Answer the questions, in the order of the options in the help."""
    found = _partitions(path, topics)
    alone = len(found) == 1 and found[0].is_named
    views = [(None if alone else str(one.topic_partition), look_steadily(one, _See)) for one in found]
    if not (questions.offsets or questions.timestamps or questions.committed_from):
        _ask(output, views, [_overview])
        _ask(output, views, [_stable_offset])
    where = _find_offset if alone else _find_offset_if_there
    _ask(output, views, [partial(where, offset=offset) for offset in questions.offsets])
    _ask(output, views, [partial(_find_timestamp, timestamp=time) for time in questions.timestamps])
    _ask(output, views, [partial(_find_aborted, offset=offset) for offset in questions.committed_from])


def _partitions(path: Path, topics: Sequence[str] | None) -> list[Partition]:
    """The partitions that are asked; UsageError if there are none."""
    found = [one for one in find_partitions(path, topics) if one.segments]
    if not found:
        raise UsageError(f"{path} holds no partition with a segment: name a root or a partition directory")
    return found


class _See:
    """A partition and its offsets, looked at together."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.ends = log_ends(partition)

    def ask(self, question: Callable[[_See], Answer]) -> Answer:
        """The answer; once more where the files have changed in the meantime."""
        return look_steadily(
            self.partition, lambda one: question(self if one is self.partition else _See(one))
        )


def _ask(
    output: Output,
    views: Sequence[tuple[str | None, _See]],
    questions: Sequence[Callable[[_See], Answer]],
) -> None:
    """Questions of one kind to each partition, which is named where there may be several."""
    _show(
        output,
        (
            view.ask(question) if name is None else {"partition": name, **view.ask(question)}
            for question in questions
            for name, view in views
        ),
    )


def _stable_offset(seen: _See) -> Answer:
    return {"last_stable_offset": seen.ends.last_stable}


def _overview(seen: _See) -> Answer:
    segments = segment_views(seen.partition)
    return {
        "log_start_offset": seen.ends.log_start,
        "log_end_offset": seen.ends.log_end,
        "segments": len(segments),
        "size": sum(segment.size for segment in segments),
    }


def _find_offset_if_there(seen: _See, offset: int) -> Answer:
    """Where an offset is; nulls where the partition does not have it."""
    try:
        return _find_offset(seen, offset)
    except OffsetOutOfRangeError:
        names = ("segment", "index_offset", "index_position", "batch_offset", "batch_position")
        return {"offset": offset, **dict.fromkeys(names)}


def _find_offset(seen: _See, offset: int) -> Answer:
    check_offset(seen.ends, offset)
    partition = seen.partition
    segment = segments_in_range(partition.segments, offset, offset + 1)[0]
    entry = partition.offset_index(segment).lookup(offset)
    batch = find_in_segment(partition, segment, offset)
    return {
        "offset": offset,
        "segment": segment.base_offset,
        "index_offset": entry.offset,
        "index_position": entry.position,
        "batch_offset": None if batch is None else batch.offset,
        "batch_position": None if batch is None else batch.position,
    }


def _find_timestamp(seen: _See, timestamp: int) -> Answer:
    found = look_up_time(seen.partition, timestamp)
    told = None if found is None else {"timestamp": found.timestamp, "offset": found.offset}
    return {"timestamp": timestamp, "found": told}


def _find_aborted(seen: _See, offset: int) -> Answer:
    aborted = aborted_from(seen.partition, seen.ends, offset)
    return {"committed_from": offset, "aborted": [[txn.producer_id, txn.first_offset] for txn in aborted]}


def _show(output: Output, answers: Iterable[Answer]) -> None:
    """JSON lines for machines, a table for people."""
    if output.json:
        for one in answers:
            output.write(json.dumps(one, separators=(",", ":")).encode() + b"\n")
        return
    rows = iter(answers)
    first = next(rows, None)
    if first is not None:
        columns = [Column(name, name.replace("_", " "), right=name != "partition") for name in _cells(first)]
        output.table(columns, _table(first, rows))


def _table(first: Answer, rest: Iterator[Answer]) -> Iterator[Sequence[Cell]]:
    yield list(_cells(first).values())
    for one in rest:
        yield list(_cells(one).values())


def _cells(one: Answer) -> dict[str, Cell]:
    """An answer without what is nested in it."""
    cells: dict[str, Cell] = {}
    for name, value in one.items():
        if name == "found":
            cells["found_timestamp"] = None if value is None else value["timestamp"]
            cells["found_offset"] = None if value is None else value["offset"]
        elif name == "aborted":
            cells[name] = " ".join(f"{producer}@{offset}" for producer, offset in value) or None
        else:
            cells[name] = value
    return cells
