"""A segment that takes no more appends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.config import LogConfig
from tidelog.segment.base import Segment
from tidelog.storage import Directory
from tidelog.storage.names import Transient

if TYPE_CHECKING:
    from tidelog.segment.active import ActiveSegment

__all__ = ["SealedSegment"]


class SealedSegment(Segment):
    """A read-only segment: nothing is opened or mapped before it is used."""

    @classmethod
    def open(
        cls, directory: Directory, base_offset: int, *, transient: Transient = Transient.NONE
    ) -> SealedSegment:
        """The segment on existing files."""
        raise NotImplementedError

    @classmethod
    def snapshot(cls, directory: Directory, base_offset: int) -> SealedSegment:
        """The segment as it is now, for a reader in another process than its writer's: whole batches only."""
        raise NotImplementedError

    def activate(self, config: LogConfig, *, clock: Callable[[], int], jitter_ms: int = 0) -> ActiveSegment:
        """The same files as the active segment, to truncate and append. Readers of this one keep what they see."""
        raise NotImplementedError
