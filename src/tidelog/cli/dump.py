"""`tidelog dump`: what is in Kafka's files, in the words of kafka-dump-log or as JSON lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.app import Debug, Json, app, report

__all__ = ["dump"]


@app.command()
def dump(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="Files of any kind, or partition directories.", show_default=False
        ),
    ] = None,
    files_option: Annotated[
        str | None,
        typer.Option("--files", metavar="FILE,FILE", help="More files, as kafka-dump-log has them."),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", "--deep-iteration", help="Show each record, not only each batch."),
    ] = False,
    print_data_log: Annotated[
        bool,
        typer.Option("--print-data-log", help="Show keys and payloads too; implies --deep."),
    ] = False,
    decode: Annotated[
        str | None,
        typer.Option(
            "--decode",
            metavar="HOW",
            help="Show payloads decoded: string, json, avro, consumer-offsets, transaction-state, "
            "share-group-state or cluster-metadata; implies --deep.",
        ),
    ] = None,
    avro_schema: Annotated[
        Path | None, typer.Option("--avro-schema", metavar="FILE", help="Of values, for --decode avro.")
    ] = None,
    avro_key_schema: Annotated[
        Path | None, typer.Option("--avro-key-schema", metavar="FILE", help="Of keys; else they are text.")
    ] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets-decoder", help="--decode consumer-offsets, by kafka-dump-log's name.")
    ] = False,
    transactions: Annotated[bool, typer.Option("--transaction-log-decoder", hidden=True)] = False,
    cluster: Annotated[bool, typer.Option("--cluster-metadata-decoder", hidden=True)] = False,
    shares: Annotated[bool, typer.Option("--share-group-state-decoder", hidden=True)] = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Of records, show only key and payload.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Compare indexes with their logs; show no entries.")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Look only whether indexes are sound in themselves.")
    ] = False,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", metavar="N", min=0, help="Read no more than this of each log."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what is in files of any kind: logs, indexes, snapshots, checkpoints, properties.

    Of a log the batches are shown, with --deep the records; every checksum is checked. Indexes are compared
    with their log. At damage the file is left with an error and the next one is read; the exit code is
    then 1. JSON lines of records have keys, values and header values in base64, unless they are decoded.
    """
    paths = [
        *(files or ()),
        *(Path(name.strip()) for name in (files_option or "").split(",") if name.strip()),
    ]
    if not paths:
        raise typer.BadParameter("name a file, or a partition's directory")
    aliases = {
        "consumer-offsets": offsets,
        "transaction-state": transactions,
        "cluster-metadata": cluster,
        "share-group-state": shares,
    }
    chosen = [name for name in [decode, *(name for name, is_on in aliases.items() if is_on)] if name]
    if len(chosen) > 1:
        raise typer.BadParameter(f"choose one decoder, not {' and '.join(chosen)}")

    from tidelog.cli.decoding import make_decoder
    from tidelog.cli.dumping import DumpStyle, dump_files
    from tidelog.cli.lines import LineStyle
    from tidelog.cli.output import make_output

    how = chosen[0] if chosen else "string" if print_data_log and skip_record_metadata else None
    decoder = make_decoder(how, avro_schema=avro_schema, avro_key_schema=avro_key_schema) if how else None
    if how == "string" and not json and not skip_record_metadata:
        decoder, print_data_log = None, True  # the line kernel writes such text itself
    style = DumpStyle(
        LineStyle(json, deep or print_data_log or decoder is not None, print_data_log, skip_record_metadata),
        decoder,
        index_sanity_check,
        verify_index_only,
        max_bytes,
    )
    raise typer.Exit(dump_files(paths, style, make_output(json=json), partial(report, ctx)))
