"""Where many growing logs end: what has come to them since an earlier look, read together.

Of each log it is a few batches in its last segment. They are read and scanned like one file (`pieces`); a log
of which more has come, or anything but whole batches in order, is looked at by itself (`log_tail`), which
tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.scanning.log_end import LogTail, log_tail
from tidelog.scanning.partitions import Partition, reading_roots_once
from tidelog.scanning.pieces import read_pieces
from tidelog.scanning.tasks import NO_END
from tidelog.storage.stretches import Stretch

__all__ = ["log_tails"]

_SMALL_BYTES = 64 << 10


def log_tails(
    partitions: Sequence[Partition], known: Sequence[LogTail | None], *, damage_ends_it: bool = False
) -> list[LogTail]:
    """Look where logs end, as `log_tail` does; `known` has what an earlier look told of each."""
    found: list[LogTail] = []
    grown = _grown(partitions, known)
    with reading_roots_once(partitions[at] for at in grown):
        starts = {at: partitions[at].log_start_offset for at in grown}
    for at, (partition, since) in enumerate(zip(partitions, known, strict=True)):
        tail = grown.get(at)
        if tail is None:
            tail = log_tail(partition, since, damage_ends_it=damage_ends_it)
        elif tail.end_offset < starts[at]:
            tail = LogTail(tail.base_offset, tail.position, starts[at])
        found.append(tail)
    return found


def _grown(partitions: Sequence[Partition], known: Sequence[LogTail | None]) -> dict[int, LogTail]:
    """The tails of those that have got a few batches, and nothing else."""
    asked: list[tuple[int, LogTail, int]] = []
    wanted = []
    for at, (partition, since) in enumerate(zip(partitions, known, strict=True)):
        if since is None or "://" in partition.url or not partition.segments:
            continue
        last = partition.segments[-1]
        if last.base_offset == since.base_offset and 0 < last.size - since.position <= _SMALL_BYTES:
            asked.append((at, since, last.size))
            wanted.append(
                Stretch(f"{partition.url}/{last.log_name}", since.position, last.size - since.position)
            )
    pieces = read_pieces(wanted, check_crc=False)
    floors = np.array([since.end_offset for _, since, _ in asked], np.int64)
    sound = pieces.whole & pieces.in_order(floors, np.full(len(asked), NO_END))
    ends = (pieces.last_offsets() + 1).tolist()
    return {
        at: LogTail(since.base_offset, size, end)
        for (at, since, size), is_sound, end in zip(asked, sound.tolist(), ends, strict=True)
        if is_sound
    }
