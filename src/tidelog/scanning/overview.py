"""What a partition holds, found without reading it: its listing, the ends of its indexes, its last batches.

1. The listing gives the segments and their sizes.
2. Indexes grow, and what a writer preallocated is zeros: a binary search finds the last entry.
3. From the last offset index entry on, batch headers are read up to the end of the log.

That is a handful of small reads a partition, whatever its size, so thousands of them take seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.errors import CorruptRecordError
from tidelog.records.batches import BatchTable
from tidelog.scanning.log_end import read_segment
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.volumes import FileView
from tidelog.storage.names import DirectoryState, FileKind, format_segment_file
from tidelog.types import Codec, TopicPartition

__all__ = ["Overview", "overview"]

_HEADER_BYTES = 61
_OFFSET_ENTRY, _TIME_ENTRY = 8, 12
_CODECS = {int(codec): codec.label for codec in Codec}


@dataclass(frozen=True, slots=True)
class Overview:
    """A partition at a glance. Timestamps are -1 if there is none."""

    url: str
    topic_partition: TopicPartition
    size: int
    segments: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    first_timestamp: int
    last_timestamp: int
    codecs: tuple[str, ...]
    """Of the batches that were looked at: the first one and the last ones."""
    damage: tuple[str, ...]
    notes: tuple[str, ...]
    """What is no damage but worth knowing: an unfinished last write, files that wait for the next start."""
    state: DirectoryState = DirectoryState.LIVE
    """Whether it is live, or what its directory is marked as."""


def overview(partition: Partition) -> Overview:
    """Look at a partition. What cannot be read on this machine is damage, for the others are listed, too."""
    try:
        segments = partition.segments
        damage, notes = _look_at_files(partition)
    except OSError as error:
        if _is_remote(partition):
            raise
        return _unreadable(partition, error)
    tail = _Tail(partition.log_start_offset)
    if segments:
        try:
            _read_tail(partition, segments[-1], tail)
        except CorruptRecordError as error:
            damage.append(f"{segments[-1].log_name}, position {error.position}: {error.reason}")
        except OSError as error:
            damage.append(f"{segments[-1].log_name}: {error.strerror or error}")
    if tail.torn_bytes:
        notes.append(f"an unfinished last write of {tail.torn_bytes} bytes")
    first, codec, last = -1, None, tail.max_timestamp
    try:
        first, codec = _first_batch(partition)
        last = max([last, *(_last_time(partition, one) for one in segments[-2:])])
    except OSError as error:
        if _is_remote(partition):
            raise
        damage.append(_told(error))
    codecs = {name for name in (codec, *tail.codecs) if name is not None}
    return Overview(
        partition.url,
        partition.topic_partition,
        sum(segment.size for segment in segments),
        len(segments),
        partition.log_start_offset,
        partition.published_end(max(tail.end_offset, partition.log_start_offset)),
        partition.high_watermark,
        first,
        last,
        tuple(sorted(codecs)),
        tuple(damage),
        tuple(notes),
        partition.state,
    )


def _is_remote(partition: Partition) -> bool:
    return "://" in partition.url


def _told(error: OSError) -> str:
    return f"{Path(error.filename or '').name}: {error.strerror or error}"


def _unreadable(partition: Partition, error: OSError) -> Overview:
    """A partition whose files cannot even be listed."""
    name = partition.topic_partition
    return Overview(partition.url, name, 0, 0, 0, 0, None, -1, -1, (), (_told(error),), (), partition.state)


@dataclass(slots=True)
class _Tail:
    """What the end of the log says."""

    end_offset: int
    max_timestamp: int = -1
    torn_bytes: int = 0
    codecs: tuple[str, ...] = ()


def _look_at_files(partition: Partition) -> tuple[list[str], list[str]]:
    damage, notes = [], []
    if partition.missing_logs:
        first = format_segment_file(partition.missing_logs[0], FileKind.LOG)
        damage.append(f"{len(partition.missing_logs)} logs are missing, such as {first}")
    lacking = sum(FileKind.OFFSET_INDEX not in segment.kinds for segment in partition.segments)
    if lacking:
        damage.append(f"{lacking} segments have no offset index")
    waiting = len(partition.files().transient)
    if waiting:
        notes.append(f"{waiting} files wait for the next start (.cleaned, .swap or .deleted)")
    if not partition.segments:
        notes.append("there is no segment")
    return damage, notes


def _read_tail(partition: Partition, segment: SegmentFacts, tail: _Tail) -> None:
    """Read the headers from the last index entry to the end."""
    position = min(_last_position(partition, segment), segment.size)
    tail.end_offset = max(tail.end_offset, segment.base_offset)
    for _, _, table in read_segment(partition, segment, position):
        _note(tail, table)
        position = table.end
    tail.torn_bytes = segment.size - position


def _note(tail: _Tail, table: BatchTable) -> None:
    tail.end_offset = max(tail.end_offset, int(table.last_offset[-1]) + 1)
    tail.max_timestamp = max(tail.max_timestamp, int(table.max_timestamp.max()))
    known = {_CODECS.get(codec, "unknown") for codec in set(table.codec[~table.is_control].tolist())}
    tail.codecs = tuple(sorted({*tail.codecs, *known}))


def _last_position(partition: Partition, segment: SegmentFacts) -> int:
    """Where to begin looking for the end: at the last batch but one that is indexed, or at 0."""
    if FileKind.OFFSET_INDEX not in segment.kinds:
        return 0
    view = partition.volume.view(format_segment_file(segment.base_offset, FileKind.OFFSET_INDEX))
    # A writer's last entry may be half written; the one before it is whole.
    slot = _entries(view, _OFFSET_ENTRY) - 2
    if slot < 0:
        return 0
    position = int.from_bytes(view.read(slot * _OFFSET_ENTRY + 4, 4), "big")
    return position if 0 < position < segment.size else 0


def _last_time(partition: Partition, segment: SegmentFacts) -> int:
    """The segment's largest timestamp, as its time index has it."""
    if FileKind.TIME_INDEX not in segment.kinds:
        return -1
    view = partition.volume.view(format_segment_file(segment.base_offset, FileKind.TIME_INDEX))
    slot = _entries(view, _TIME_ENTRY) - 1
    return int.from_bytes(view.read(slot * _TIME_ENTRY, 8), "big", signed=True) if slot >= 0 else -1


def _entries(view: FileView, size: int) -> int:
    """How many entries an index has before the zeros of a preallocated file."""
    low, high = 0, view.size // size
    if high and any(view.read((high - 1) * size, size)):
        return high
    while low < high:
        middle = (low + high) // 2
        if any(view.read(middle * size, size)):
            low = middle + 1
        else:
            high = middle
    return low


def _first_batch(partition: Partition) -> tuple[int, str | None]:
    """The first batch's timestamp and codec."""
    first: Sequence[SegmentFacts] = [segment for segment in partition.segments if segment.size][:1]
    if not first:
        return -1, None
    view = partition.volume.view(first[0].log_name)
    data = bytes(view.read(0, min(_HEADER_BYTES, view.size)))
    magic = data[16] if len(data) > 16 else -1
    if magic == 2 and len(data) == _HEADER_BYTES:
        attributes = int.from_bytes(data[21:23], "big")
        codec = None if attributes & 0x20 else _CODECS.get(attributes & 7, "unknown")
        stamp = data[35:43] if attributes & 8 else data[27:35]  # the log's own time is in maxTimestamp
        return int.from_bytes(stamp, "big", signed=True), codec
    if magic in (0, 1) and len(data) > 26:
        written = int.from_bytes(data[18:26], "big", signed=True) if magic else -1
        return written, _CODECS.get(data[17] & 7, "unknown")
    return -1, None
