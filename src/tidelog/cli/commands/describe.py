"""`tidelog describe`: a partition, drawn."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, BadParameter, Exit, Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cli.render.output import Cell, Output
    from tidelog.scanning.pictures import Picture

__all__ = ["describe"]

_LABEL_WIDTH = 11
_MIN_COLUMNS, _MAX_COLUMNS = 20, 160


@app.command()
def describe(
    partition: Annotated[
        str, Argument(metavar="PARTITION_DIR", help="A directory <topic>-<partition>, or its URL.")
    ],
    quick: Annotated[bool, Option("--quick", help="Read only indexes, not logs.")] = False,
    deep: Annotated[bool, Option("--deep", help="Check the checksums of all batches.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw a partition: segments by offset and by time, index density, key offsets, gaps, damage.

    The exit code is 1 if there is damage. With --json, it prints one line for the partition and one for each
    segment.
    """
    if quick and deep:
        raise BadParameter("choose --quick or --deep")

    from tidelog.cli.actions.find import one_partition
    from tidelog.cli.errors import FOUND_WRONG
    from tidelog.cli.render.drawing import draw
    from tidelog.cli.render.output import make_output
    from tidelog.scanning.pictures import look_at

    out = make_output(json=json)
    found = one_partition(partition)
    width = shutil.get_terminal_size((100, 24)).columns - _LABEL_WIDTH
    columns = min(max(width, _MIN_COLUMNS), _MAX_COLUMNS)
    with out.progress(sum(segment.size for segment in found.segments), "looking") as progress:
        picture = look_at(found, columns, read_logs=not quick, check=deep, advance=progress.advance)
    if json:
        _summary(picture, out)
    else:
        for line in draw(picture):
            out.write(f"{line}\n".encode(errors="backslashreplace"))
        out.say("")
    _segments(picture, out)
    raise Exit(FOUND_WRONG if picture.damage else 0)


def _summary(picture: Picture, out: Output) -> None:
    from tidelog.cli.render.output import Column

    facts = picture.facts
    told: dict[str, Cell] = {
        "topic": facts.topic_partition.topic,
        "partition": facts.topic_partition.partition,
        "path": facts.url,
        "size_bytes": facts.size,
        "segments": facts.segments,
        "log_start_offset": facts.log_start_offset,
        "last_stable_offset": picture.stable_offset,
        "high_watermark": facts.high_watermark,
        "log_end_offset": facts.log_end_offset,
        "first_timestamp": facts.first_timestamp if facts.first_timestamp >= 0 else None,
        "last_timestamp": facts.last_timestamp if facts.last_timestamp >= 0 else None,
        "damage": "; ".join(picture.damage) or None,
        "notes": "; ".join(facts.notes) or None,
    }
    out.table([Column(name, name) for name in told], [list(told.values())])


def _segments(picture: Picture, out: Output) -> None:
    from tidelog.cli.render.output import Column
    from tidelog.cli.render.units import size_text, time_text

    def moment(timestamp: int) -> Cell:
        if out.json:
            return timestamp if timestamp >= 0 else None
        return time_text(timestamp)

    def rows() -> Sequence[Sequence[Cell]]:
        return [
            (
                one.base_offset,
                one.end_offset,
                size_text(one.size) if out.terminal else one.size,
                one.batches if picture.read_logs else None,
                one.records if picture.read_logs else None,
                one.offset_entries,
                one.time_entries,
                one.missing_offsets if picture.read_logs else None,
                moment(one.first_timestamp),
                moment(one.last_timestamp),
                " ".join(one.codecs) or None,
                one.damage,
            )
            for one in picture.segments
        ]

    names = (
        "base_offset",
        "end_offset",
        "size_bytes",
        "batches",
        "records",
        "offset_entries",
        "time_entries",
    )
    titles = ("segment", "up to", "size", "batches", "records", "index entries", "time entries")
    columns = [Column(name, title, right=True) for name, title in zip(names, titles, strict=True)]
    columns += [
        Column("missing_offsets", "missing", right=True),
        Column("first_timestamp", "oldest batch", optional=True),
        Column("last_timestamp", "newest batch", optional=True),
        Column("codecs", "codec", optional=True),
        Column("damage", "damage"),
    ]
    out.table(columns, rows())
