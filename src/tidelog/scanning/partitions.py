"""What is on disk: the partitions under a path, their segments and what their small files say. Nothing is
locked.

A path is a root directory (of partitions), a partition directory, a list of them, or a glob of local ones.
Segments are the `.log` files that a reader may see: not `.deleted`, `.cleaned` or `.swap` ones. The log
start offset is the checkpoint's, if the root has one, or the first segment's base offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tidelog.errors import InvalidInputError
from tidelog.index import OffsetIndex, TimeIndex
from tidelog.scanning.volumes import Volume, open_volume
from tidelog.storage import Directory
from tidelog.storage.checkpoints import parse_offsets
from tidelog.storage.names import (
    DirectoryState,
    FileKind,
    Transient,
    format_segment_file,
    parse_partition_directory,
    parse_segment_file,
)
from tidelog.types import TopicPartition

__all__ = ["Partition", "SegmentFacts", "find_partitions"]

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)

_LOG_START_CHECKPOINT = "log-start-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment as its directory lists it: base offset, bytes of its log, which other files it has."""

    base_offset: int
    size: int
    kinds: frozenset[FileKind]

    @property
    def log_name(self) -> str:
        """The log file's name."""
        return format_segment_file(self.base_offset, FileKind.LOG)


class Partition:
    """A partition directory, read-only; its listing is taken once."""

    def __init__(
        self, url: str, topic_partition: TopicPartition, checkpointed_start: int | None = None
    ) -> None:
        self.url = url
        self.topic_partition = topic_partition
        self._checkpointed_start = checkpointed_start

    def __repr__(self) -> str:
        """With its place."""
        return f"Partition({self.url!r})"

    @cached_property
    def volume(self) -> Volume:
        """The directory."""
        return open_volume(self.url)

    @cached_property
    def segments(self) -> tuple[SegmentFacts, ...]:
        """Its segments by base offset."""
        kinds: dict[int, set[FileKind]] = {}
        for name, is_directory in self.volume.names():
            parsed = None if is_directory else parse_segment_file(name)
            if parsed is not None and parsed.transient is Transient.NONE:
                kinds.setdefault(parsed.offset, set()).add(parsed.kind)
        return tuple(
            SegmentFacts(
                base, self.volume.size(format_segment_file(base, FileKind.LOG)), frozenset(kinds[base])
            )
            for base in sorted(kinds)
            if FileKind.LOG in kinds[base]
        )

    @cached_property
    def snapshot_offsets(self) -> tuple[int, ...]:
        """Offsets of its producer snapshots."""
        parsed = (parse_segment_file(name) for name, is_directory in self.volume.names() if not is_directory)
        return tuple(
            sorted(
                file.offset
                for file in parsed
                if file is not None and file.kind is FileKind.SNAPSHOT and file.transient is Transient.NONE
            )
        )

    @property
    def log_start_offset(self) -> int:
        """The first offset a reader may see."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self._checkpointed_start or 0)

    def offset_index(self, segment: SegmentFacts) -> OffsetIndex:
        """A copy of the segment's offset index, as far as it can be trusted; without a file it is empty."""
        return self._index(OffsetIndex, segment)

    def time_index(self, segment: SegmentFacts) -> TimeIndex:
        """A copy of the segment's time index, as far as it can be trusted; without a file it is empty."""
        return self._index(TimeIndex, segment)

    def _index(self, kind: type[_Index], segment: SegmentFacts) -> _Index:
        """The leading entries that grow as they must. A writer's preallocated file goes on with zeros;
        there the last entry may be half written and is left out, which costs a reader a few kilobytes more.
        """
        if kind.KIND not in segment.kinds:
            return kind.from_bytes(Directory(self.url), segment.base_offset, b"")
        data = self.volume.content(format_segment_file(segment.base_offset, kind.KIND))
        index = kind.from_bytes(Directory(self.url), segment.base_offset, data)
        sound = index.growing_entries()
        if sound == index.entries and any(data[: kind.ENTRY_SIZE]):
            return index
        whole = data[: max(sound - 1, 0) * kind.ENTRY_SIZE] if any(data[: kind.ENTRY_SIZE]) else b""
        return kind.from_bytes(Directory(self.url), segment.base_offset, whole)


def find_partitions(
    path: str | Path | Iterable[str | Path], topics: Collection[str] | None = None
) -> list[Partition]:
    """The partitions under `path`, of the `topics` named (None: all), ordered by topic and number."""
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    found: dict[TopicPartition, Partition] = {}
    for url in (url for one in paths for url in _expand(str(one))):
        for partition in _partitions_at(url):
            name = partition.topic_partition
            if topics is not None and name.topic not in topics:
                continue
            if name in found:
                raise InvalidInputError(f"{name} is there twice: {found[name].url} and {partition.url}")
            found[name] = partition
    missing = set(topics or ()) - {name.topic for name in found}
    if missing:
        raise InvalidInputError(f"no partition of topic {', '.join(sorted(missing))} under {_words(paths)}")
    if not found:
        raise InvalidInputError(f"no Kafka partition directory under {_words(paths)}")
    return [found[name] for name in sorted(found)]


def _words(paths: list[str | Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _expand(path: str) -> list[str]:
    if "://" in path or not any(sign in path for sign in "*?[") or Path(path).exists():
        return [path]
    whole = Path(path).absolute()
    matches = sorted(str(match) for match in Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))
    if not matches:
        raise InvalidInputError(f"nothing matches {path}")
    return matches


def _partitions_at(url: str) -> Iterator[Partition]:
    """The partition at `url`, or those in the root at `url`."""
    url = url.rstrip("/") or "/"
    if "://" not in url and not Path(url).is_dir():
        raise InvalidInputError(f"{url} is not a directory")
    name = _partition_name(url.rpartition("/")[2] if "://" in url else Path(url).resolve().name)
    names = open_volume(url).names()
    if name is not None and not any(is_directory for _, is_directory in names):
        parent = url.rpartition("/")[0] if "://" in url else str(Path(url).resolve().parent)
        yield Partition(url, name, _checkpointed_starts(parent).get(name))
        return
    starts = _checkpointed_starts(url)
    for entry, is_directory in names:
        name = _partition_name(entry) if is_directory else None
        if name is not None:
            yield Partition(f"{url}/{entry}", name, starts.get(name))


def _partition_name(name: str) -> TopicPartition | None:
    try:
        parsed = parse_partition_directory(name)
    except InvalidInputError:
        return None
    return parsed.topic_partition if parsed.state is DirectoryState.LIVE else None


def _checkpointed_starts(root: str) -> dict[TopicPartition, int]:
    volume = open_volume(root)
    try:
        data = volume.content(_LOG_START_CHECKPOINT)
    except OSError:
        return {}
    return parse_offsets(data, f"{root}/{_LOG_START_CHECKPOINT}")
