"""`tidelog append`: records from a file or a pipe into a topic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.readoptions import grouped

if TYPE_CHECKING:
    from tidelog.cli.appending import Destination
    from tidelog.cli.inputs import InputOptions

__all__ = ["append"]

Place = Annotated[
    Path, typer.Argument(help="A root (log.dirs) or one partition's directory.", show_default=False)
]
Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="NAME", help="Where to append to, in a root.", show_default=False),
]
Partition = Annotated[
    int | None,
    typer.Option(
        "--partition",
        min=0,
        help="Append to this one; else each record's key decides, as with Kafka's producer.",
        show_default=False,
    ),
]
Create = Annotated[
    int | None,
    typer.Option(
        "--create",
        metavar="N",
        min=1,
        help="Make the topic, with so many partitions, if it is not there; also the root.",
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", help="What to append; standard input if there is none.", show_default=False
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="HOW",
        help="lines (a value each), json (objects with key, value, headers, timestamp) or parquet.",
    ),
]
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", metavar="TEXT", help="Lines have a key before this.", show_default=False),
]
Base64 = Annotated[
    bool, typer.Option("--base64", help="Payloads in JSON are base64, as dump --json prints them.")
]
CodecName = Annotated[
    str | None,
    typer.Option(
        "--codec",
        metavar="NAME",
        help="Compress with gzip, snappy, lz4 or zstd; the topic's compression.type counts first.",
        show_default=False,
    ),
]
Sync = Annotated[
    bool, typer.Option("--sync", help="Have everything on the disk block by block, not only at the end.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only read the input and count.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go."""

    path: Place
    topic: Topic = None
    partition: Partition = None
    create: Create = None

    def destination(self) -> Destination:
        """What that stands for. Raises UsageError."""
        from tidelog.cli.appending import Destination

        return Destination.of(self.path, self.topic, self.partition, self.create)


@dataclass(frozen=True, slots=True)
class Input:
    """What they are read from."""

    file: File = None
    format: Format = "lines"
    key_separator: KeySeparator = None
    base64: Base64 = False

    def options(self) -> InputOptions:
        """How they are read. Raises UsageError."""
        from tidelog.cli.inputs import InputOptions

        return InputOptions(self.format, self.key_separator, self.base64)


@app.command()
@grouped
def append(
    target: Target,
    source: Input,
    codec: CodecName = None,
    sync: Sync = False,
    dry_run: DryRun = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Append records from lines, JSON lines or Parquet.

    No broker may be running on the root. Input that cannot be read ends the command; the blocks before it
    are appended then, and counted.
    """
    from tidelog.cli.appending import append_records, parse_codec
    from tidelog.cli.output import make_output

    append_records(
        target.destination(),
        source.file,
        source.options(),
        make_output(json=json),
        codec=parse_codec(codec),
        sync=sync,
        dry_run=dry_run,
    )
