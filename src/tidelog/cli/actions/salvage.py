"""What `tidelog salvage` does: saves partitions, and reports each loss and what was saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.cli.actions.directories import check_target, existing_directory
from tidelog.cli.errors import FOUND_WRONG
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import counted
from tidelog.manager.upkeep.salvaging import Salvaged, salvage_partitions
from tidelog.scanning.partitions import find_partitions
from tidelog.storage import LOCAL
from tidelog.storage.files import parent
from tidelog.storage.lock import holder_of

__all__ = ["salvage_to"]

_LOSSES = (
    Column("topic", "topic"),
    Column("partition", "partition", right=True),
    Column("file", "file", folds=True),
    Column("start_position", "from byte", right=True),
    Column("end_position", "to byte", right=True),
    Column("first_offset", "from offset", right=True),
    Column("end_offset", "to offset", right=True),
    Column("reason", "reason", folds=True),
)


def salvage_to(source: Path, target: Path, topics: Sequence[str] | None, output: Output) -> int:
    """Save what is sound under `source` into `target`; the exit code.

    Losses come as rows. Both ends that are called "to" are exclusive.
    """
    directory = existing_directory(source)
    check_target(target, [source])
    partitions = find_partitions(directory, topics)
    for root in dict.fromkeys(parent(one.url) for one in partitions):
        if holder_of(root) is not None:
            output.warn(f"{root} is in use: what is written to it from now on may not be saved")
    done: list[Salvaged] = []

    def rows() -> Iterator[Sequence[Cell]]:
        total = sum(segment.size for one in partitions for segment in one.segments)
        with output.progress(total, "salvaging") as progress:
            for one in salvage_partitions(LOCAL, partitions, str(target.absolute()), progress.advance):
                done.append(one)
                for loss in one.losses:
                    file = loss.source.removeprefix(f"{directory}/") if output.terminal else loss.source
                    yield (
                        loss.topic,
                        loss.partition,
                        file,
                        loss.start_position,
                        loss.end_position,
                        loss.first_offset,
                        loss.end_offset,
                        loss.reason,
                    )

    output.table(_LOSSES, rows())
    losses = [loss for one in done for loss in one.losses]
    saved, before = sum(one.size_bytes for one in done), sum(one.bytes_before for one in done)
    batches = sum(one.batches for one in done)
    output.say(
        f"saved {counted(batches, 'batch', 'batches')}, {saved} of {before} bytes; "
        f"{counted(len(losses), 'loss', 'losses')}"
    )
    return FOUND_WRONG if losses else 0
