"""Runs `rewrite` on the given roots, and prints the result."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.actions.directories import live_partition, log_bytes
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import parse_time
from tidelog.manager.metadata.files import home_of_metadata
from tidelog.rewriting.edits import Edits, Span
from tidelog.rewriting.rewrite import (
    Rewriting,
    Rewritten,
    RewrittenPartition,
    Runner,
    partitions_in,
    plan_rewrite,
    rewrite_root,
    threads,
)
from tidelog.scanning.filters import RecordFilter
from tidelog.storage import LOCAL, atomic_write
from tidelog.storage.directory import is_partition
from tidelog.storage.processes import available_cpus
from tidelog.types import Codec

if TYPE_CHECKING:
    from tidelog.cli.commands.rewrite import What, Which

__all__ = ["make_edits", "rewrite_paths"]

_COLUMNS = (
    Column("partition", "PARTITION"),
    Column("segments", "SEGMENTS", right=True),
    Column("segments_changed", "CHANGED", right=True),
    Column("records_read", "RECORDS", right=True),
    Column("records_erased", "ERASED", right=True),
    Column("records_redacted", "REDACTED", right=True),
    Column("records_retimed", "RETIMED", right=True, optional=True),
    Column("batches_rewritten", "BATCHES", right=True, optional=True),
    Column("batches_emptied", "EMPTIED", right=True, optional=True),
    Column("batches_dropped", "DROPPED", right=True, optional=True),
    Column("bytes_before", "BYTES", right=True),
    Column("bytes_after", "AFTER", right=True),
    Column("originals", "ORIGINALS", optional=True),
)


def make_edits(which: Which, what: What) -> Edits:
    """What the options ask for; InvalidInputError for what does not go together."""
    now_ms = time.time_ns() // 1_000_000
    keys = [_key(text, which.keys_hex) for text in which.key or ()]
    if which.keys_from is not None:
        lines = [line.removesuffix(b"\r") for line in which.keys_from.read_bytes().split(b"\n")]
        keys += [_key(line.decode("latin-1"), True) if which.keys_hex else line for line in lines if line]
        if not keys:
            raise UsageError(f"{which.keys_from} has no keys: give one per line")
    wanted = RecordFilter(
        None,
        which.key_match,
        which.contains,
        which.match,
        which.header,
        which.tombstones,
        RecordFilter.keys_of(keys) if keys else None,
    )

    def moment(text: str | None) -> int | None:
        return None if text is None else parse_time(text, now_ms)

    try:
        codec = None if what.compression is None else Codec.parse(what.compression)
    except KeyError:
        names = ", ".join(one.label for one in Codec)
        raise UsageError(f"there is no codec {what.compression}: choose from {names}") from None
    return Edits(
        wanted,
        Span(which.offset, which.to_offset, moment(which.since), moment(which.until)),
        what.erase,
        tuple(what.redact or ()),
        None if what.replacement is None else what.replacement.encode(),
        codec,
        what.level,
        what.upgrade,
        moment(what.earliest),
        moment(what.latest),
    )


def _key(text: str, is_hex: bool) -> bytes:
    try:
        return bytes.fromhex(text) if is_hex else text.encode("utf-8", "surrogateescape")
    except ValueError:
        raise UsageError("a key is not made of hexadecimal digits, as --keys-hex says") from None


def _chosen(paths: Sequence[Path]) -> dict[str, list[str]]:
    """The partitions' directories that are meant, by their root."""
    chosen: dict[str, list[str]] = {}
    for path in paths:
        directory = path.absolute()
        if directory.is_dir() and is_partition(LOCAL, str(directory)):
            live_partition(str(directory))
            root, names = str(directory.parent), [directory.name]
        elif directory.is_dir():
            root = str(directory)
            names = partitions_in(LOCAL, root)
        elif directory.parent.is_dir():
            root = str(directory.parent)
            names = partitions_in(LOCAL, root, [directory.name])
        else:
            names = []
        if not names:
            raise UsageError(
                f"{directory} is not a root, a topic or a partition with a log: name a root (log.dirs), "
                "ROOT/TOPIC or a partition's directory"
            )
        known = chosen.setdefault(root, [])
        known += [name for name in names if name not in known]
    return chosen


def rewrite_paths(
    paths: Sequence[Path],
    edits: Edits,
    output: Output,
    *,
    dry_run: bool,
    discard: bool,
    manifest: Path | None,
    master: str | None,
    options: RootOptions,
) -> int:
    """Rewrite what is named, or show what would change; the exit code."""
    chosen = _chosen(paths)
    if manifest is not None and len(chosen) > 1:
        raise UsageError("--manifest is for one root: name the paths of one root")
    requests = [
        Rewriting(
            LOCAL,
            root,
            tuple(names),
            edits,
            discard,
            manifest is not None,
            options.broker.topic_defaults,
            home_of_metadata(LOCAL, options.roots(root)),
        )
        for root, names in chosen.items()
    ]
    total = sum(log_bytes(f"{root}/{name}") for root, names in chosen.items() for name in names)
    done: list[Rewritten] = []
    found: list[RewrittenPartition] = []
    with (
        _evidence(None if dry_run else manifest) as keep,
        output.progress(total, "rewriting") as progress,
        _runner(master, progress.advance) as run,
    ):
        for request in requests:
            if dry_run:
                found += plan_rewrite(request, run)
            else:
                done.append(rewrite_root(request, run))
                found += done[-1].partitions
                keep(done[-1].evidence)
    output.table(_COLUMNS, _rows(found, "discarded" if discard else "in quarantine"))
    _tell(found, output, dry_run=dry_run, kept=any(one.run for one in done), roots=list(chosen))
    if dry_run and manifest is not None:
        output.say(f"a dry run writes no manifest: {manifest} is as it was")
    return 0


@contextmanager
def _evidence(manifest: Path | None) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """What writes the manifest when the work is done. That a file can be there is tried before the work."""
    if manifest is None:
        yield lambda evidence: None
        return
    target = manifest.resolve()
    if target.is_dir():
        raise UsageError(f"{manifest} is a directory: --manifest names a file")
    if target.exists() and not target.is_file():  # a pipe, a terminal

        def print_to(evidence: Mapping[str, object]) -> None:
            target.write_text(_as_text(evidence))

        yield print_to
        return
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    part.touch(exist_ok=False)

    def keep(evidence: Mapping[str, object]) -> None:
        atomic_write(LOCAL, target, _as_text(evidence).encode(), temporary=str(part))

    try:
        yield keep
    finally:
        part.unlink(missing_ok=True)


def _as_text(evidence: Mapping[str, object]) -> str:
    return json.dumps(evidence, indent=1) + "\n"


@contextmanager
def _runner(master: str | None, advance: Callable[[int], None]) -> Iterator[Runner]:
    """What runs the tasks: threads of this process, or a cluster."""
    if master is None:
        yield threads(LOCAL, available_cpus(), advance)
        return
    from tidelog.spark import quiet_session
    from tidelog.spark.rewriting.job import SparkRunner

    with quiet_session(master) as session:
        yield SparkRunner(session)


def _rows(found: Sequence[RewrittenPartition], originals: str) -> Iterator[Sequence[Cell]]:
    for one in found:
        stats = one.stats
        yield (
            str(one.partition),
            len(one.segments),
            one.changed,
            stats.records_read,
            stats.records_erased,
            stats.records_redacted,
            stats.records_retimed,
            stats.batches_rewritten,
            stats.batches_emptied,
            stats.batches_dropped,
            one.bytes_before,
            one.bytes_after,
            originals if one.changed else None,
        )


def _tell(
    found: Sequence[RewrittenPartition], output: Output, *, dry_run: bool, kept: bool, roots: Sequence[str]
) -> None:
    erased = sum(one.stats.records_erased for one in found)
    redacted = sum(one.stats.records_redacted for one in found)
    changed = sum(one.changed for one in found)
    before, after = sum(one.bytes_before for one in found), sum(one.bytes_after for one in found)
    would = "would be " if dry_run else ""
    output.say(
        f"{erased} records {would}erased, {redacted} redacted, {changed} segments {would}rewritten; "
        f"{before} bytes before, {after} after"
    )
    if kept:
        output.say(
            "the originals, with everything that was erased, are in the quarantine until tidelog fix "
            f"--empty-quarantine {' '.join(roots)} deletes them; tidelog fix --undo brings them back"
        )
