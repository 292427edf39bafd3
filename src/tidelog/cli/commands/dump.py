"""`tidelog dump`: what is in Kafka's files, in the words of kafka-dump-log or as JSON lines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, app, report
from tidelog.cli.declare import Argument, BadParameter, Context, Exit, Option
from tidelog.cli.options.values import AvroSchema

__all__ = ["dump"]

Files = Annotated[
    list[Path] | None, Argument(metavar="FILE", help="Files of any kind, or partition directories.")
]
MoreFiles = Annotated[
    str | None, Option("--files", metavar="FILE,FILE", help="Files, as kafka-dump-log takes them.")
]
Deep = Annotated[bool, Option("--deep", "--deep-iteration", help="Show each record, not only each batch.")]
PrintDataLog = Annotated[bool, Option("--print-data-log", help="Show keys and payloads too; implies --deep.")]
Decode = Annotated[
    str | None,
    Option(
        "--decode",
        metavar="HOW",
        help="Decode payloads: string, json, avro, consumer-offsets, transaction-state, share-group-state"
        " or cluster-metadata; implies --deep.",
    ),
]
AvroKeySchema = Annotated[
    Path | None,
    Option("--avro-key-schema", metavar="FILE", help="The schema of keys; default: keys are text."),
]
OffsetsDecoder = Annotated[bool, Option("--offsets-decoder", help="The same as --decode consumer-offsets.")]
TransactionsDecoder = Annotated[bool, Option("--transaction-log-decoder", hidden=True)]
MetadataDecoder = Annotated[bool, Option("--cluster-metadata-decoder", hidden=True)]
SharesDecoder = Annotated[bool, Option("--share-group-state-decoder", hidden=True)]
SkipMetadata = Annotated[
    bool, Option("--skip-record-metadata", help="Print only key and payload of records.")
]
VerifyIndexOnly = Annotated[
    bool, Option("--verify-index-only", help="Compare indexes with their logs; print no entries.")
]
IndexSanityCheck = Annotated[
    bool, Option("--index-sanity-check", help="Check indexes on their own, without their logs.")
]
MaxBytes = Annotated[
    int | None, Option("--max-bytes", metavar="N", min=0, help="Read no more than this of each log.")
]

WithFile = Annotated[
    bool, Option("--with-file", help="With --json and --deep, name the file in every record.")
]


@app.command()
def dump(
    ctx: Context,
    files: Files = None,
    more_files: MoreFiles = None,
    deep: Deep = False,
    print_data_log: PrintDataLog = False,
    decode: Decode = None,
    avro_schema: AvroSchema = None,
    avro_key_schema: AvroKeySchema = None,
    offsets: OffsetsDecoder = False,
    transactions: TransactionsDecoder = False,
    metadata: MetadataDecoder = False,
    shares: SharesDecoder = False,
    skip_record_metadata: SkipMetadata = False,
    verify_index_only: VerifyIndexOnly = False,
    index_sanity_check: IndexSanityCheck = False,
    max_bytes: MaxBytes = None,
    with_file: WithFile = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the contents of files: logs, indexes, snapshots, checkpoints, properties.

    For a log, batches are printed, with --deep records; every checksum is checked. Indexes are compared with
    their log. If a file is damaged, the command prints an error, continues with the next file, and exits with
    1. JSON lines name their file (lines of records only with --with-file). In JSON, keys, values and header
    values are in base64 unless they are decoded.
    """
    paths = [*(files or ()), *(Path(name.strip()) for name in (more_files or "").split(",") if name.strip())]
    if not paths:
        raise BadParameter("name a file, or a partition's directory")
    aliases = {
        "consumer-offsets": offsets,
        "transaction-state": transactions,
        "cluster-metadata": metadata,
        "share-group-state": shares,
    }
    how = _decoder_name(decode, aliases)
    if how is None and print_data_log and skip_record_metadata:
        how = "string"

    from tidelog.cli.actions.dump import DumpStyle, dump_files
    from tidelog.cli.render.lines import LineStyle
    from tidelog.cli.render.output import make_output
    from tidelog.decoding import make_decoder

    decoder = make_decoder(how, avro_schema=avro_schema, avro_key_schema=avro_key_schema) if how else None
    if how == "string" and not json and not skip_record_metadata:
        decoder, print_data_log = None, True  # the line kernel writes such text itself
    is_deep = deep or print_data_log or decoder is not None
    lines = LineStyle(json, is_deep, print_data_log, skip_record_metadata)
    style = DumpStyle(lines, decoder, index_sanity_check, verify_index_only, max_bytes, with_file)
    raise Exit(dump_files(paths, style, make_output(json=json), partial(report, ctx)))


def _decoder_name(decode: str | None, aliases: Mapping[str, bool]) -> str | None:
    """The decoder that was asked for, by either name."""
    chosen = [name for name in [decode, *(name for name, is_on in aliases.items() if is_on)] if name]
    if len(chosen) > 1:
        raise BadParameter(f"choose one decoder, not {' and '.join(chosen)}")
    return chosen[0] if chosen else None
