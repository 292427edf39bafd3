"""One partition: its copies are looked through, merged and written as one log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelog.errors import InvalidInputError
from tidelog.manager.reconciling.choosing import History, decide, merge
from tidelog.manager.reconciling.copies import Copy, Int64s, Row, look_through
from tidelog.manager.reconciling.outcome import MAX_REPORTED, Ledger, Outcome
from tidelog.manager.reconciling.writing import LogWriter, segment_starts
from tidelog.scanning.partitions import Partition
from tidelog.storage import FileSystem

__all__ = ["LogStart", "look_at_copies", "reconcile_partition", "write_truncated"]


@dataclass(frozen=True, slots=True)
class LogStart:
    """Where the new log is to start: at an offset, or where a copy does."""

    offset: int | None = None
    latest: bool = False
    """Where the last copy starts to which the history goes back, not the first."""

    def of(self, history: History) -> int:
        """The log start for a history."""
        if self.offset is not None:
            return min(self.offset, history.winner.end)
        starts = [
            copy.start for copy in history.copies if copy.number == history.order[0] or _adds(history, copy)
        ]
        return max(starts) if self.latest else min(starts)


def _adds(history: History, copy: Copy) -> bool:
    """Whether a copy has something that belongs to the history."""
    return copy.start < history.agreed[copy.number]


def look_at_copies(
    partitions: Sequence[Partition], advance: Callable[[int], None] = lambda size: None
) -> list[Copy]:
    """Read copies of one partition; InvalidInputError if they are of several."""
    names = {one.topic_partition for one in partitions}
    if len(names) != 1:
        raise InvalidInputError(f"copies of several partitions: {', '.join(map(str, sorted(names)))}")
    return [look_through(number, one, advance) for number, one in enumerate(partitions)]


def reconcile_partition(
    fs: FileSystem,
    partitions: Sequence[Partition],
    target: str | None,
    *,
    topic_id: uuid.UUID | None = None,
    start: LogStart | None = None,
    advance: Callable[[int], None] = lambda size: None,
    truncated_to: Callable[[Copy], str] | None = None,
) -> Outcome:
    """Merge copies of one partition into a new log at `target`; with None, only find out what that would be.

    `truncated_to` names, for a copy that has records besides the history, the directory of a log for them.
    """
    copies = look_at_copies(partitions, advance)
    history = decide(copies)
    log_start = (start or LogStart()).of(history)
    ledger = Ledger(history, log_start)
    writer: LogWriter | None = None
    try:
        for block in merge(history, log_start):
            ledger.add(block)
            if target is not None and len(block.chosen):
                writer = writer or _writer(fs, target, topic_id, history, log_start, block.chosen)
                writer.write(_restamped(block.chosen, history))
        end = max(history.winner.end, log_start)
        if target is not None:
            writer = writer or _writer(fs, target, topic_id, history, log_start, None, end)
            producers = list(writer.log.active_producers)
            end = writer.close(end)
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    ledger.close(end)
    if target is not None and truncated_to is not None:
        for copy in copies:
            write_truncated(fs, history, copy, truncated_to)
    largest = max(producers, default=-1) if target is not None else -1
    return _outcome(history, ledger, log_start, end, largest)


def _writer(
    fs: FileSystem,
    target: str,
    topic_id: uuid.UUID | None,
    history: History,
    log_start: int,
    rows: Int64s | None,
    end: int = 0,
) -> LogWriter:
    first = end
    if rows is not None:
        row = rows[0]
        copy = history.copies[int(row[Row.COPY])]
        base = int(row[Row.BASE]) if row[Row.MAGIC] >= 2 else copy.segment_bases[int(row[Row.SEGMENT])]
        first = min(base, log_start)
    return LogWriter(
        fs,
        target,
        history.copies,
        first_offset=first,
        cuts=segment_starts(history, log_start),
        topic_id=topic_id,
        epochs=[(one.epoch, max(one.start, first)) for one in history.lineage.epochs],
    )


def _restamped(rows: Int64s, history: History) -> Int64s:
    """The rows with the epochs of the history."""
    if rows[:, Row.STRAY].any():
        rows[:, Row.EPOCH] = history.lineage.epochs_at(rows[:, Row.BASE])
    return rows


def write_truncated(fs: FileSystem, history: History, copy: Copy, name: Callable[[Copy], str]) -> None:
    """Write what a copy has besides the history into a log of its own."""
    writer: LogWriter | None = None
    for rows in copy.rows():
        left = rows[history.is_left(rows) & (rows[:, Row.LAST] >= copy.start)]
        if len(left):
            writer = writer or LogWriter(
                fs, name(copy), [copy], first_offset=int(left[0, Row.BASE]), cuts=(), topic_id=None
            )
            writer.write(left)
    if writer is not None:
        writer.close(0)


def _outcome(history: History, ledger: Ledger, log_start: int, end: int, largest: int) -> Outcome:
    winner = history.winner
    others = [copy for copy in history.copies if copy is not winner]
    epoch = winner.lineage.last_epoch
    same = [copy for copy in others if copy.lineage.last_epoch == epoch]
    why = "it is the only copy"
    if history.outvoted is not None:
        why = (
            f"it knows records to be committed that leader epoch {history.outvoted} does not have, and none "
            "of that epoch's was: it was elected later, and its leader-epoch-checkpoint is gone"
        )
    elif others and not same:
        why = f"it has the newest leader epoch, {epoch}"
    elif others:
        why = f"of the copies with the newest leader epoch, {epoch}, it is the longest"
    notes = [f"{copy.name}: {note}" for copy in history.copies for note in copy.notes]
    if ledger.restamped:
        notes.append(f"{ledger.restamped} batches got the leader epoch of those around them")
    for one in ledger.conflicts:
        notes.append(
            f"offsets {one.first_offset} to {one.last_offset} of leader epoch {one.epoch} differ between "
            f"{history.copies[one.taken].name}, which was taken, and {history.copies[one.left].name}"
        )
    if len(ledger.conflicts) == MAX_REPORTED:
        notes.append("there may be more such differences")
    brought = min(history.whole_from) > log_start and history.cleaned_end > log_start
    if brought and len(history.copies) > 1 and any(copy.losses for copy in history.copies):
        notes.append(
            "no copy is whole over the offsets that were cleaned: a key that was deleted may have come back"
        )
    return Outcome(
        winner.partition.topic_partition,
        tuple(copy.name for copy in history.copies),
        winner.name,
        why,
        log_start,
        end,
        max(history.lineage.last_epoch, -1),
        largest,
        tuple(ledger.ranges),
        tuple(ledger.truncated()),
        tuple(ledger.lost),
        tuple(notes),
    )
