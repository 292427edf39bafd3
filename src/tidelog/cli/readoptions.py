"""Options that the commands which read records share, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tidelog.cli.output import Output
    from tidelog.cli.recordlines import RecordLines

__all__ = [
    "AvroSchema",
    "Committed",
    "Decode",
    "EndOffset",
    "EndTime",
    "Format",
    "Key",
    "KeyMatch",
    "Limit",
    "Partitions",
    "Paths",
    "Show",
    "StartOffset",
    "StartTime",
    "Topics",
    "ValueContains",
    "ValueMatch",
    "record_lines",
]

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Partition or root directories, globs, or URLs.", show_default=False),
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="Only this topic.", show_default=False)
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", help="Only partitions of this number.", show_default=False),
]
StartOffset = Annotated[
    int | None,
    typer.Option("--offset", metavar="N", min=0, help="From this offset on.", show_default=False),
]
StartTime = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="From this time on: 2026-11-15T10:00 (UTC), milliseconds, or '10 minutes ago'.",
        show_default=False,
    ),
]
EndOffset = Annotated[
    int | None,
    typer.Option("--to-offset", metavar="N", min=0, help="Up to before this offset.", show_default=False),
]
EndTime = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Up to before the first record of this time.", show_default=False
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", metavar="N", min=0, help="No more than so many.", show_default=False),
]
Committed = Annotated[bool, typer.Option("--committed", help="Leave out aborted and undecided transactions.")]
Key = Annotated[
    str | None, typer.Option("--key", metavar="TEXT", help="Only with this key.", show_default=False)
]
KeyMatch = Annotated[
    str | None,
    typer.Option("--key-match", metavar="REGEX", help="Only where the key matches.", show_default=False),
]
ValueContains = Annotated[
    str | None,
    typer.Option("--contains", metavar="TEXT", help="Only where the value holds this.", show_default=False),
]
ValueMatch = Annotated[
    str | None,
    typer.Option("--match", metavar="REGEX", help="Only where the value matches.", show_default=False),
]
Format = Annotated[str, typer.Option("--format", metavar="FORM", help="plain, json or hex.")]
Show = Annotated[
    str | None,
    typer.Option(
        "--show",
        metavar="A,B",
        help="In plain and hex lines, before the value: topic, partition, offset, timestamp, key, headers.",
        show_default=False,
    ),
]
Decode = Annotated[
    str | None,
    typer.Option(
        "--decode", metavar="HOW", help="Show payloads decoded, see tidelog dump --help.", show_default=False
    ),
]
AvroSchema = Annotated[
    Path | None,
    typer.Option("--avro-schema", metavar="FILE", help="Of values, for --decode avro.", show_default=False),
]


def record_lines(
    out: Output, form: str, show: str | None, decode: str | None, avro_schema: Path | None
) -> RecordLines:
    """The form of lines that the options ask for. Raises UsageError."""
    from tidelog.cli.decoding import make_decoder
    from tidelog.cli.recordlines import RecordLines
    from tidelog.cli.showing import split_shown

    return RecordLines(
        "json" if out.json else form,
        split_shown(show),
        make_decoder(decode, avro_schema=avro_schema) if decode else None,
        out.terminal,
    )
