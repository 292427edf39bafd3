"""`tidelog rewrite`: records erased, redacted, recompressed or upgraded, with all other offsets kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.app import Debug, Json, OnSpark, ServerProperties, app
from tidelog.cli.declare import Argument, Exit, Option
from tidelog.cli.options.reading import (
    EndOffset,
    EndTime,
    Header,
    KeyMatch,
    StartOffset,
    StartTime,
    Tombstones,
    ValueContains,
    ValueMatch,
    grouped,
)

if TYPE_CHECKING:
    from tidelog.rewriting.edits import Edits

__all__ = ["rewrite"]


@dataclass(frozen=True, slots=True)
class Which:
    """Which records."""

    key: Annotated[
        list[str] | None, Option("--key", metavar="TEXT", help="Records with this key; may be repeated.")
    ] = None
    keys_from: Annotated[
        Path | None,
        Option(
            "--keys-from", metavar="FILE", help="Records with one of the keys in this file, one per line."
        ),
    ] = None
    keys_hex: Annotated[bool, Option("--keys-hex", help="Keys are given as hexadecimal digits.")] = False
    key_match: KeyMatch = None
    contains: ValueContains = None
    match: ValueMatch = None
    header: Header = None
    tombstones: Tombstones = False
    offset: StartOffset = None
    since: StartTime = None
    to_offset: EndOffset = None
    until: EndTime = None


@dataclass(frozen=True, slots=True)
class What:
    """What is done."""

    erase: Annotated[bool, Option("--erase", help="Remove the records; their offsets become gaps.")] = False
    redact: Annotated[
        list[str] | None,
        Option(
            "--redact",
            metavar="PART",
            help="Replace this part of the records: value, key or headers; may be repeated.",
        ),
    ] = None
    replacement: Annotated[
        str | None,
        Option("--with", metavar="TEXT", help="What redacted keys and values become.", show_default="null"),
    ] = None
    compression: Annotated[
        str | None,
        Option(
            "--compression", metavar="CODEC", help="Compress all batches: none, gzip, snappy, lz4 or zstd."
        ),
    ] = None
    level: Annotated[int | None, Option("--level", metavar="N", help="The codec's compression level.")] = None
    upgrade: Annotated[bool, Option("--upgrade", help="Write messages of magic 0 and 1 as magic 2.")] = False
    earliest: Annotated[
        str | None,
        Option("--earliest", metavar="TIME", help="Raise earlier and missing timestamps to this one."),
    ] = None
    latest: Annotated[
        str | None, Option("--latest", metavar="TIME", help="Lower later timestamps to this one.")
    ] = None

    def edits(self, which: Which) -> Edits:
        """Both as one value. Raises UsageError."""
        from tidelog.cli.actions.rewrite import make_edits

        return make_edits(which, self)


@app.command()
@grouped
def rewrite(
    paths: Annotated[
        list[Path],
        Argument(metavar="PATH", help="A root (log.dirs), ROOT/TOPIC, or a partition's directory."),
    ],
    what: What,
    which: Which,
    dry_run: Annotated[bool, Option("--dry-run", help="Only count what would change.")] = False,
    discard: Annotated[
        bool, Option("--discard", help="Delete the originals instead of keeping them in the quarantine.")
    ] = False,
    manifest: Annotated[
        Path | None,
        Option(
            "--manifest",
            metavar="FILE",
            help="Write a JSON manifest: digests, counts and offsets, without keys, values or headers.",
        ),
    ] = None,
    server_properties: ServerProperties = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Erase or redact records, recompress, upgrade or correct timestamps; all other offsets are kept.

    The new segments take the place of the old ones as after compaction. The originals, with everything that
    was erased, stay in the root's quarantine until tidelog fix --empty-quarantine deletes them, and tidelog
    fix --undo brings them back; --discard deletes them at once. No broker may be running on the root, and it
    must have been closed cleanly. Conditions apply to bytes; all must hold. Control records never change.
    Internal topics are left alone unless they are named.
    """
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.actions.rewrite import rewrite_paths
    from tidelog.cli.render.output import make_output

    raise Exit(
        rewrite_paths(
            paths,
            what.edits(which),
            make_output(json=json),
            dry_run=dry_run,
            discard=discard,
            manifest=manifest,
            master=spark,
            options=RootOptions(server_properties),
        )
    )
