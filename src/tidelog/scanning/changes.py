"""Damage, or a file that its writer changed while it was read?

Nothing is locked: a writer may cut the file, write it again or put another in its place between two reads,
and what was read then makes no sense. That is not damage, and reading again helps. Damage stays where it is.
So a fault is looked at once more:

1. A file that has not been changed since the read was planned, nor in the minute before, is damaged.
2. A file that is shorter than it was when it was opened was cut.
3. Else it is opened again and read from its start. If the same batch is at fault again, it is damaged,
   unless somebody holds the root: a write that is under way shows its bytes one page after the other, for as
   long as its writer has to wait for a processor. Then it is looked at some more, for a second in all.
4. Offsets are wrong or right by what lies around them: a batch that was at fault for them is right only if
   it is followed by one that does not contradict it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tidelog.errors import CorruptRecordError, DataLossError, OffsetDisorderError
from tidelog.records.batches import first_disorder
from tidelog.records.decode import decode_batches
from tidelog.records.windows import Window, read_windows
from tidelog.scanning.volumes import FileView, open_volume
from tidelog.storage.files import parent
from tidelog.storage.lock import holder_of

__all__ = ["ANY_OFFSETS", "may_have_changed", "offset_at", "was_changed"]

_MARGIN_NS = 60_000_000_000  # the clock of a file server may be another
ANY_OFFSETS = range(1 << 63)
"""Of a file whose neighbours are not known."""

_PAUSES_S = (0.001, 0.01, 0.1, 0.3, 0.6)
"""Between looks at a batch that its writer may be at."""


def may_have_changed(view: FileView, planned_ns: int) -> bool:
    """Whether a file may have been changed since a read of it was planned, as far as that can be known."""
    return bool(view.changed_ns) and (view.changed_ns >= planned_ns - _MARGIN_NS or view.has_changed())


def was_changed(
    source: str,
    view: FileView,
    fault: CorruptRecordError,
    planned_ns: int,
    open_view: Callable[[], FileView],
    offsets: range = ANY_OFFSETS,
) -> bool:
    """Whether a fault that was met in a file is its writer's doing, not damage.

    `offsets` are those that the file may have, for its name and those of its neighbours.
    """
    if not may_have_changed(view, planned_ns):
        return False
    if _is_another_now(source, view, fault, open_view, offsets):
        return True
    for pause_s in _PAUSES_S:
        if "://" in source or holder_of(parent(parent(source))) is None:
            return False
        time.sleep(pause_s)
        if _is_another_now(source, view, fault, open_view, offsets):
            return True
    return False


def _is_another_now(
    source: str,
    view: FileView,
    fault: CorruptRecordError,
    open_view: Callable[[], FileView],
    offsets: range,
) -> bool:
    """Whether the fault is not there when the file is read once more."""
    try:
        again = open_view()
    except (DataLossError, FileNotFoundError):
        return True
    if again.size < view.size:
        return True  # cut since it was opened, perhaps inside a batch
    is_sound = False
    try:
        for data, origin, table in _walk(again, source, offsets):
            here = int(table.position.searchsorted(fault.position))
            if here < len(table) and table.position[here] == fault.position:
                decode_batches(data, table[here : here + 1], origin=origin, source=source)
                is_sound = True
                if here + 1 < len(table) or not isinstance(fault, OffsetDisorderError):
                    return True
            elif is_sound or table.end > fault.position:
                return True  # no batch begins there any more
    except CorruptRecordError as error:
        return error.position != fault.position and again.has_changed()
    return True


def offset_at(url: str, name: str, position: int) -> int:
    """The least offset that the batch at a position can have, told by those before it and not by an index.

    Raises CorruptRecordError if no batch begins there.
    """
    floor, source = 0, f"{url}/{name}"
    for _, _, table in _walk(open_volume(url).view(name), source):
        here = int(table.position.searchsorted(position))
        if here < len(table) and table.position[here] == position:
            return int(table.last_offset[here - 1]) + 1 if here else floor
        if table.end > position:
            break
        floor = int(table.last_offset[-1]) + 1
    raise CorruptRecordError(
        "the offset index has an entry where no batch begins", position=position, source=source
    )


def _walk(view: FileView, source: str, offsets: range = ANY_OFFSETS) -> Iterator[Window]:
    """A file's batches from its start on, their checksums and their order checked."""
    floor = offsets.start
    for window in read_windows(view, 0, view.size, check_crc=True, name=source):
        table = window.table
        bad = first_disorder(table, floor, offsets.stop)
        if bad is None:
            floor = int(table.last_offset[-1]) + 1
            yield window
            continue
        if bad:
            yield Window(window.data, window.origin, table[:bad])
        raise OffsetDisorderError("offsets go back", position=int(table.position[bad]), source=source)
