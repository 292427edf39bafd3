"""What may and what must be in a partition after a power cut at any step of a store's life.

A life notes of each record the steps (`CrashFileSystem.steps`) between which its fate changed:

    began       from here on it may be there: the append was called
    acked       from here on it must be there: `append(sync=True)`, `flush()`, a move or `close()` returned
    going       from here on it need not be: a truncation, a deletion of records or retention was called
    gone        from here on it must not be: the truncation returned, or a checkpoint with the log start

A cut at step `s` finds a record only if began <= s < gone, and finds it for sure if acked <= s < going. Where
compaction has begun, a record may give way to a later one of its key that is there and was not aborted, and
what was aborted may go.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["NEVER", "Entry", "Found", "History", "Name"]

NEVER = 1 << 60

Name = tuple[uuid.UUID, int]
"""A partition, by its topic's id: a topic of the same name may come again."""


@dataclass(slots=True)
class Entry:
    """A record that was appended at an offset, or a marker."""

    offset: int
    value: bytes | None
    key: bytes | None
    began: int
    acked: int = NEVER
    going: int = NEVER
    gone: int = NEVER
    producer: int | None = None
    """The producer of the transaction that it is in, or ends."""
    commits: bool | None = None
    """What a marker says; None for a record."""
    batch: int = -1
    """The first offset of its batch: a truncation takes batches whole."""

    def may_be_there(self, step: int) -> bool:
        """Whether a cut at `step` may leave it."""
        return self.began <= step < self.gone

    def must_be_there(self, step: int) -> bool:
        """Whether a cut at `step` must leave it."""
        return self.acked <= step < self.going

    def matches(self, found: Found) -> bool:
        """Whether what was found at its offset is this."""
        if found.producer != (-1 if self.producer is None else self.producer):
            return False
        if self.commits is not None:
            return found.control and found.key == (b"\0\0\0\1" if self.commits else b"\0\0\0\0")
        return not found.control and (found.value, found.key) == (self.value, self.key)


@dataclass(frozen=True, slots=True)
class Found:
    """A record that was read after a cut."""

    offset: int
    value: bytes | None
    key: bytes | None
    producer: int
    control: bool


@dataclass(slots=True)
class History:
    """What happened to a partition."""

    entries: dict[int, list[Entry]] = field(default_factory=dict)
    """By offset; after a truncation others come to the same offsets."""
    registered: int = NEVER
    """The step at which its topic was there for sure."""
    deleting: int = NEVER
    deleted: int = NEVER
    """The steps at which the deletion of its topic was called, and had returned."""
    cleaned: int = NEVER
    """The step at which it was compacted first."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Records were appended."""
        for entry in entries:
            self.entries.setdefault(entry.offset, []).append(entry)

    def _all(self) -> Iterable[Entry]:
        return (entry for listed in self.entries.values() for entry in listed)

    def acknowledge(self, step: int, end: int) -> None:
        """What lies below `end` now is on the disk."""
        for entry in self._all():
            if entry.offset < end and entry.going == NEVER:
                entry.acked = min(entry.acked, step)

    def cut_off(self, offset: int, going: int, gone: int) -> None:
        """The log was truncated by a call between these steps; the batch that holds the offset goes whole."""
        held = [entry.batch for entry in self._all() if entry.offset >= offset and entry.going == NEVER]
        self.leave(min([offset, *(batch for batch in held if batch >= 0)]), NEVER, going, gone)

    def leave(self, start: int, end: int, going: int, gone: int = NEVER) -> None:
        """What lies in [start, end) was removed by a call between these steps."""
        for entry in self._all():
            if start <= entry.offset < end and entry.began <= going:
                entry.going = min(entry.going, going)
                entry.gone = min(entry.gone, gone)

    def check(self, found: Mapping[int, Found], step: int, where: str) -> None:
        """Compare what was found after a cut at `step`."""
        for offset, one in found.items():
            fitting = [entry for entry in self.entries.get(offset, ()) if entry.matches(one)]
            assert fitting, f"{where}: offset {offset} has bytes that were never written there: {one}"
            assert any(entry.began <= step for entry in fitting), f"{where}: {one} comes from the future"
            assert any(entry.may_be_there(step) for entry in fitting), (
                f"{where}: {one} was removed at step {fitting[-1].gone} and is back"
            )
        lost = self.missing(found, step)
        assert not lost, f"{where}: acknowledged and lost: {lost}"

    def missing(self, found: Mapping[int, Found], step: int) -> list[Entry]:
        """What must be there after a cut at `step`, and is not."""
        if self.deleting <= step:
            return []
        compacted = self.cleaned <= step
        aborted = self._aborted(step) if compacted else set()
        newest = self._newest(found, step, aborted) if compacted else {}
        lost = []
        for entry in self._all():
            if not entry.must_be_there(step):
                continue
            there = found.get(entry.offset)
            if there is not None and entry.matches(there):
                continue
            if compacted and (entry.commits is not None or id(entry) in aborted):
                continue
            if compacted and entry.key is not None and newest.get(entry.key, -1) > entry.offset:
                continue
            lost.append(entry)
        return lost

    def _newest(self, found: Mapping[int, Found], step: int, aborted: set[int]) -> dict[bytes, int]:
        """The last offset of each key that compaction may have kept instead of earlier ones.

        It is there, or has been removed since by something else than compaction.
        """
        newest: dict[bytes, int] = {}
        for entry in self._all():
            if entry.key is None or entry.began > step or id(entry) in aborted:
                continue
            there = found.get(entry.offset)
            if entry.going <= step or (there is not None and entry.matches(there)):
                newest[entry.key] = max(newest.get(entry.key, -1), entry.offset)
        return newest

    def _aborted(self, step: int) -> set[int]:
        """The records (by identity) whose transactions had been aborted by `step`."""
        pending: dict[int, list[int]] = {}
        aborted: set[int] = set()
        for entry in sorted(self._all(), key=lambda entry: entry.began):
            if entry.producer is None or entry.began > step:
                continue
            if entry.commits is None:
                pending.setdefault(entry.producer, []).append(id(entry))
            else:
                done = pending.pop(entry.producer, [])
                if not entry.commits:
                    aborted.update(done)
        return aborted

    def transactions(self, found: Mapping[int, Found]) -> tuple[set[tuple[int, int]], int | None]:
        """(producer, marker) of each aborted transaction, and where the first open one begins."""
        opened: dict[int, int] = {}
        aborted = set()
        for offset in sorted(found):
            entry = next(entry for entry in self.entries[offset] if entry.matches(found[offset]))
            if entry.producer is None:
                continue
            if entry.commits is None:
                opened.setdefault(entry.producer, offset)
            else:
                began = opened.pop(entry.producer, None)
                if began is not None and not entry.commits:
                    aborted.add((entry.producer, offset))
        return aborted, min(opened.values(), default=None)
