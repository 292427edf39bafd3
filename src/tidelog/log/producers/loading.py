"""The producers' state of a log from its snapshots and its batches: at load, recovery and truncation.

1. The newest sound snapshot that says something about [log start, last offset] is loaded (`producers`).
2. The batches from where it ends up to the last offset are taken in, headers and markers only.
3. On the way, snapshots are written where the next load or truncation will want them: at the bases of the
   last two segments and at the last offset.

Kafka takes the absence of any snapshot after a clean shutdown for an upgrade from a version without them and
assumes that there were no producers. Here the batches are asked, which is slower and always right; only where
they are damaged, the assumption is Kafka's. As in Kafka, a batch that reaches past the end of its segment
ends the walk through that segment; any other damage on the way refuses the log.

Kafka takes a state without producers for one that had none at any earlier offset, and walks through nothing
after a truncation. But producers expire: a truncation may open a transaction again whose producer is long
forgotten. So the batches are asked here, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.errors import CorruptRecordError, TornBatchError
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.log.segments.segments import LogSegments
from tidelog.records.batches import walk_batches
from tidelog.segment import Segment

__all__ = ["rebuild_producers"]

_logger = logging.getLogger(__name__)


def rebuild_producers(
    producers: ProducerStateManager,
    snapshots: SnapshotFiles,
    segments: LogSegments,
    *,
    log_start_offset: int,
    last_offset: int,
    now_ms: Callable[[], int],
    trusted: bool = False,
) -> None:
    """Make `producers` the state after every record of the segments below `last_offset`.

    `trusted` says that the log was closed cleanly.
    """
    bases = segments.base_offsets[-2:]
    without_snapshots = not producers.snapshot_offsets
    gone = producers.truncate_and_reload(log_start_offset, last_offset, now_ms(), snapshots.read)
    snapshots.delete(gone)
    if last_offset > producers.map_end_offset:
        final = segments.floor(last_offset)
        for segment in segments.values(producers.map_end_offset, last_offset):
            start = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.update_map_end_offset(start)
            if segment.base_offset in bases:
                snapshots.take(producers)
            try:
                # As in Kafka, all of a segment counts before the last one, also offsets of damaged batches.
                _load(producers, segment, start, last_offset if segment is final else None)
            except CorruptRecordError as error:
                if not isinstance(error, TornBatchError) and not (trusted and without_snapshots):
                    raise
                _logger.error("what producers did past this is not known: %s", error)
    producers.update_map_end_offset(last_offset)
    snapshots.take(producers)


def _load(producers: ProducerStateManager, segment: Segment, start: int, end: int | None) -> None:
    """Take in the batches of a segment from the one that holds `start` to before the one that holds `end`, if
    there is an end.
    """
    first = segment.translate_offset(start)
    if first is None:
        return
    last = None if end is None else segment.translate_offset(end)
    data = segment.buffer()
    stop = len(data) if last is None else last.position
    source = f"{segment.directory.path}/{segment.base_offset:020d}.log"
    for table in walk_batches(data, start=first.position, end=stop, check_crc=False, source=source):
        producers.load(table, read_markers(data, table, source=source))
