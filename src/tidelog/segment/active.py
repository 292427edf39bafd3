"""The segment that is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from tidelog.config import LogConfig
from tidelog.index import AbortedTxn
from tidelog.records.batches import BatchTable
from tidelog.segment.base import Segment
from tidelog.segment.sealed import SealedSegment
from tidelog.storage import Directory
from tidelog.storage.names import Transient

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ActiveSegment", "RecoveryState"]


class RecoveryState(Protocol):
    """What a recovery rebuilds besides the segment's own files: producer state and leader epochs."""

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        """Take in a run of sound batches, all or none; answers the transactions they abort, in order.

        The batches lie in `buffer` at their positions. A CorruptRecordError (with the position of a batch)
        ends the recovery after that batch.
        """


class ActiveSegment(Segment):
    """The segment that takes appends. One thread writes."""

    created_ms: int
    jitter_ms: int

    @classmethod
    def create(
        cls,
        directory: Directory,
        base_offset: int,
        config: LogConfig,
        *,
        clock: Callable[[], int],
        jitter_ms: int = 0,
        transient: Transient = Transient.NONE,
    ) -> ActiveSegment:
        """A new, empty segment; FileExistsError where its `.log` file is there already."""
        raise NotImplementedError

    @classmethod
    def open(
        cls,
        directory: Directory,
        base_offset: int,
        config: LogConfig,
        *,
        clock: Callable[[], int],
        jitter_ms: int = 0,
        transient: Transient = Transient.NONE,
    ) -> ActiveSegment:
        """The segment on existing files, to be appended to; nothing of the log is read."""
        raise NotImplementedError

    @property
    def index_full(self) -> bool:
        """Whether the segment must roll because an index has no room."""
        raise NotImplementedError

    def append(self, data: Buffer, batches: BatchTable) -> None:
        """Write batches, whole or not at all. `batches` is their table; their offsets are final.

        Refused with nothing changed: offsets out of the segment's reach (IndexOffsetOverflowError), entries
        that an index has no room for (IndexFullError: roll, then append). A failed write is undone and its
        OSError raised; where it cannot be undone, the segment takes no more (LogOfflineError).
        """
        raise NotImplementedError

    def seal(self) -> SealedSegment:
        """End the segment: final time entry, indexes and file trimmed. This object goes on answering."""
        raise NotImplementedError

    def truncate_to(self, offset: int) -> int:
        """Remove the batches from the one that holds `offset` on; how many bytes that were."""
        raise NotImplementedError

    def recover(self, state: RecoveryState) -> int:
        """Check every batch, rebuild the indexes, cut the file behind the last sound batch; the bytes cut."""
        raise NotImplementedError
