"""`tidelog append`: records from a file or a pipe into a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Adopt, Debug, Force, Json, RootOrPartition, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["append"]

Topic = Annotated[str | None, Option("--topic", metavar="NAME", help="The topic to append to, in a root.")]
Partition = Annotated[
    int | None,
    Option(
        "--partition",
        min=0,
        help="Append to this partition. Default: the key chooses the partition, as in Kafka's producer.",
    ),
]
Create = Annotated[
    int | None,
    Option(
        "--create",
        metavar="N",
        min=1,
        help="Create the topic with N partitions if it does not exist; also create the root.",
    ),
]
Config = Annotated[
    list[str] | None,
    Option("--config", metavar="KEY=VALUE", help="A config of the topic that --create makes."),
]
File = Annotated[Path | None, Argument(metavar="FILE", help="The input file; default: standard input.")]
Format = Annotated[
    str,
    Option(
        "--format",
        metavar="HOW",
        help="lines (one value per line), json (objects with key, value, headers, timestamp) or parquet.",
    ),
]
KeySeparator = Annotated[
    str | None, Option("--key-separator", metavar="TEXT", help="Separates key and value in a line.")
]
Base64 = Annotated[
    bool, Option("--base64", help="Decode keys and values in JSON from base64, as dump --json prints them.")
]
CodecName = Annotated[
    str | None,
    Option(
        "--codec",
        metavar="NAME",
        help="Compress with gzip, snappy, lz4 or zstd; the topic's compression.type takes precedence.",
    ),
]
Sync = Annotated[bool, Option("--sync", help="Sync after every block, not only at the end.")]
DryRun = Annotated[bool, Option("--dry-run", help="Only read the input and count.")]


@app.command()
def append(
    path: RootOrPartition,
    file: File = None,
    topic: Topic = None,
    partition: Partition = None,
    create: Create = None,
    config: Config = None,
    format: Format = "lines",
    key_separator: KeySeparator = None,
    base64: Base64 = False,
    codec: CodecName = None,
    sync: Sync = False,
    dry_run: DryRun = False,
    server_properties: ServerProperties = None,
    adopt: Adopt = False,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Append records from text lines, JSON lines or Parquet.

    No broker may be running on the root. Other topics are not touched. A root that was not closed cleanly is
    refused: run tidelog recover first. If the input cannot be read to its end, the command stops; the blocks
    before that are appended and counted.
    """
    from tidelog.cli.actions.append import Destination, append_records, parse_codec
    from tidelog.cli.actions.inputs import InputOptions
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.render.output import make_output

    append_records(
        Destination.of(path, topic, partition, create, config or []),
        file,
        InputOptions(format, key_separator, base64),
        make_output(json=json),
        codec=parse_codec(codec),
        sync=sync,
        dry_run=dry_run,
        root_options=RootOptions(server_properties, adopt, force),
    )
