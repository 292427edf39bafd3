"""The directory that holds partitions, as readers see it: what its checkpoints and its write journal say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from tidelog.errors import InvalidIndexError
from tidelog.layout.roots import TAKEN_AS_EMPTY, Checkpoint, warn_once
from tidelog.scanning.volumes import open_volume
from tidelog.storage import FileState
from tidelog.storage.checkpoints import parse_offsets
from tidelog.storage.local import state_of
from tidelog.storage.write_journal import JOURNAL_FILE, PendingPartition, parse_journal
from tidelog.types import TopicPartition

__all__ = ["RootView"]


class RootView:
    """The directory that holds partitions: what its checkpoints say, each read at first use."""

    def __init__(self, url: str, *, has_journal: bool = True) -> None:
        """`has_journal` may be False if it is known that there is no journal of bulk writes."""
        self.url = url
        self._has_journal = has_journal
        self._journal_state: FileState | None = None
        self._journal_pending: dict[TopicPartition, PendingPartition] = {}
        self._held: dict[TopicPartition, PendingPartition] | None = None
        self._pending_before = self._pending()  # before anything in here is looked at

    def again(self) -> RootView:
        """The same directory, to be looked at again."""
        return RootView(self.url, has_journal=self._has_journal)

    def pending(self, name: TopicPartition) -> PendingPartition | None:
        """How a partition was before a bulk write that is being published, or was left half published."""
        found = self._pending() if self._held is None else self._held
        return self._pending_before.get(name) or found.get(name)

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Within it the journal is what it is now: for many logs that were all read before."""
        _ = self.log_starts  # before the journal: a bulk write that is pending may raise them
        self._held = self._pending()
        try:
            yield
        finally:
            self._held = None

    def _pending(self) -> dict[TopicPartition, PendingPartition]:
        if not self._has_journal:
            return {}
        path = f"{self.url}/{JOURNAL_FILE}"
        try:
            state = None if "://" in path else state_of(path)
            if state is not None and state == self._journal_state:
                return self._journal_pending  # it is replaced as a whole: this is the same file
            data = open_volume(self.url).content(JOURNAL_FILE)
        except OSError:
            return {}
        pending = parse_journal(data, path).pending
        self._journal_state = state
        self._journal_pending = (
            {} if pending is None else {one.topic_partition: one for one in pending.partitions}
        )
        return self._journal_pending

    @cached_property
    def log_starts(self) -> dict[TopicPartition, int]:
        """Log start offsets; empty without the file."""
        return self._offsets(Checkpoint.LOG_STARTS) or {}

    @cached_property
    def high_watermarks(self) -> dict[TopicPartition, int] | None:
        """High watermarks; None without the file."""
        return self._offsets(Checkpoint.HIGH_WATERMARKS)

    def _offsets(self, kind: Checkpoint) -> dict[TopicPartition, int] | None:
        try:
            data = open_volume(self.url).content(kind.value)
        except OSError:
            return None
        try:
            return parse_offsets(data, f"{self.url}/{kind.value}")
        except InvalidIndexError as error:  # as Kafka does: a checkpoint that is damaged tells nothing
            warn_once(f"{error}; {TAKEN_AS_EMPTY}")
            return None
