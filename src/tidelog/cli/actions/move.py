"""What `tidelog move` does: opens the roots of a node, and moves one partition between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.actions.directories import check_root, existing_directory, log_bytes
from tidelog.cli.actions.loading import check_ready, opened_root
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Column, Output
from tidelog.storage.names import DirectoryState, parse_partition_directory

__all__ = ["move_partition"]

_MOVED = (
    Column("partition", "partition"),
    Column("size_bytes", "bytes", right=True),
    Column("source", "from", folds=True),
    Column("target", "to", folds=True),
)


def move_partition(
    partition: Path, target: Path, others: Sequence[Path], output: Output, *, dry_run: bool
) -> None:
    """Move a partition to another root, or show what would be moved."""
    directory = existing_directory(partition)
    found = parse_partition_directory(Path(directory).name)
    if found.state is not DirectoryState.LIVE:
        raise UsageError(f"{directory} is marked {found.state.value}: only live partitions can be moved")
    source = str(Path(directory).parent)
    roots = [source, existing_directory(target), *map(existing_directory, others)]
    for root in roots:
        if any(Path(root).iterdir()):  # an empty directory becomes a root of the node
            check_root(root)
    name = found.topic_partition
    if roots[1] == source:
        raise UsageError(f"{name} is in {source} already")
    if Path(roots[1], str(name)).exists():
        raise UsageError(f"{roots[1]} has a {name} of its own: `tidelog describe` shows which one is newer")
    size = log_bytes(directory)
    check_ready(roots)
    if not dry_run:
        with opened_root(list(dict.fromkeys(roots)), output, topics={name.topic}) as store:
            store.move_partition(name.topic, name.partition, roots[1])
    output.table(_MOVED, [(str(name), size, source, roots[1])])
    output.say(f"{name} {'would be' if dry_run else 'is'} moved")
