"""The checkpoints of a root, for the logs that a store has open.

    a log that was changed here           what is true of it now
    a log that is as it was found         what the checkpoint said, or nothing where it said nothing
    a log that is offline                 what the checkpoint said last
    a log that was deleted or moved away  nothing
    anything else, here or not            what the checkpoint said

So opening a root, or changing one partition in it, keeps what a broker has written about the others. An old
recovery point is safe: recovery looks at more than it needs to. An old high watermark is, too: a broker takes
it as the lower bound that it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tidelog.layout.roots import Checkpoint, Offsets, Root
from tidelog.log import Log
from tidelog.manager.store.partition import Partition
from tidelog.types import TopicPartition

__all__ = ["Checkpointed", "checkpointed_offset"]


def _start_to_tell(log: Log) -> int | None:
    """The log start, where the first segment does not tell it."""
    return log.log_start_offset if log.log_start_offset > log.segments.base_offsets[0] else None


_OFFSETS: dict[Checkpoint, Callable[[Log], int | None]] = {
    Checkpoint.LOG_STARTS: _start_to_tell,
    Checkpoint.RECOVERY_POINTS: lambda log: log.recovery_point,
    Checkpoint.HIGH_WATERMARKS: lambda log: log.high_watermark,
}


def checkpointed_offset(kind: Checkpoint, log: Log) -> int | None:
    """A log's offset for a checkpoint; None for no entry."""
    return _OFFSETS[kind](log)


_State = tuple[int, int, int, int]


def _state(log: Log) -> _State:
    """What changes when a log is changed; a flush changes nothing."""
    return log.log_start_offset, log.log_end_offset, log.high_watermark, log.truncations


class Checkpointed:
    """Tracks which logs are unchanged since they were opened, and which have been in this root."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[Root, TopicPartition], _State] = {}
        self._seen: dict[Root, set[TopicPartition]] = {}

    def found(self, root: Root, partition: Partition) -> None:
        """A log was opened that nobody was asked to change."""
        with self._lock:
            self._found[root, partition.topic_partition] = _state(partition.log)

    def offsets(
        self,
        kind: Checkpoint,
        root: Root,
        partitions: Iterable[Partition],
        logs: Iterable[tuple[Partition, Log]],
        before: Offsets,
    ) -> dict[TopicPartition, int]:
        """What a checkpoint should say now, in the order that it has.

        `partitions` are all of the store's, `logs` those that are online in this root.
        """
        with self._lock:
            here = {one.topic_partition for one in partitions if one.root is root}
            seen = self._seen.setdefault(root, set())
            seen |= here | {name for place, name in self._found if place is root}
            for name in seen - here:
                self._found.pop((root, name), None)
            now = {one.topic_partition: log for one, log in logs if self._is_changed(root, one, log)}
            said = {name: checkpointed_offset(kind, log) for name, log in now.items()}
            kept = {name: offset for name, offset in before.items() if name in here or name not in seen}
            return {name: offset for name, offset in (kept | said).items() if offset is not None}

    def _is_changed(self, root: Root, partition: Partition, log: Log) -> bool:
        """Whether a log is not as it was found; once it is so, it stays so."""
        key = root, partition.topic_partition
        if key in self._found and self._found[key] == _state(log):
            return False
        self._found.pop(key, None)
        return True
