"""What `tidelog move` does: opens the roots of a node, and moves one partition between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.actions.directories import check_root, existing_directory, live_partition, log_bytes
from tidelog.cli.actions.loading import (
    RootOptions,
    check_changeable,
    check_online,
    check_ready,
    opened_root,
    refuse_unknown,
)
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Column, Output
from tidelog.errors import LogError
from tidelog.layout.partitions import check_files
from tidelog.manager.metadata.files import home_of_metadata, read_cluster_metadata
from tidelog.manager.verification.findings import Kind
from tidelog.manager.verification.partition import verify_partition
from tidelog.storage import LOCAL
from tidelog.storage.names import FileKind

__all__ = ["move_partition"]

_MOVED = (
    Column("partition", "partition"),
    Column("size_bytes", "bytes", right=True),
    Column("source", "from", folds=True),
    Column("target", "to", folds=True),
)


def move_partition(
    partition: Path,
    target: Path,
    others: Sequence[Path],
    output: Output,
    *,
    dry_run: bool,
    options: RootOptions,
) -> None:
    """Move a partition to another root, or show what would be moved."""
    directory = existing_directory(partition)
    name = live_partition(directory)
    source = str(Path(directory).parent)
    destination = existing_directory(target)
    named = [source, destination, *map(existing_directory, others), *options.roots(source)]
    roots = list(dict.fromkeys(named))
    for root in roots:
        if any(Path(root).iterdir()):  # an empty directory becomes a root of the node
            check_root(root)
    if destination == source:
        raise UsageError(f"{name} is in {source} already")
    if Path(destination, str(name)).exists():
        raise UsageError(
            f"{destination} has a {name} of its own: `tidelog describe` shows which one is newer"
        )
    size = log_bytes(directory)
    check_ready(roots, options)
    check_ready(destination)
    if not read_cluster_metadata(LOCAL, home_of_metadata(LOCAL, roots)).image.has(name):
        raise refuse_unknown(source, name)
    check_changeable(roots, options)
    check_online(roots, options, {name})
    check_files(LOCAL, directory)
    if dry_run:
        _check_sound(directory)
    else:
        with opened_root(roots, output, options, topics={name}) as store:
            store.move_partition(name.topic, name.partition, destination)
    output.table(_MOVED, [(str(name), size, source, destination)])
    output.say(f"{name} {'would be' if dry_run else 'is'} moved")


def _check_sound(directory: str) -> None:
    """Refuse a damaged log, as copying it would."""
    for found in verify_partition(LOCAL, directory).findings:
        if found.kind is Kind.DAMAGE and found.file.endswith(FileKind.LOG.value):
            raise LogError(f"{found.file}: {found.cause}")
