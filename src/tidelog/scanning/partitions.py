"""What is on disk: the partitions under a path, their segments and what their small files say. Nothing is
locked.

A path is a root directory (of partitions), a partition directory, a list of them, or a glob; on this machine
or behind an fsspec URL. Segments are the `.log` files that a reader may see: not `.deleted`, `.cleaned` or
`.swap` ones. The log start offset is the checkpoint's, if the root has one, or the first segment's base
offset. Partitions that a bulk write is being published to are seen as they were before it. Directories marked
`-delete`, `-future` and `-stray` are skipped unless they are asked for; the root's checkpoints say nothing of
them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.index import OffsetIndex, TimeIndex
from tidelog.layout.partitions import PartitionFiles
from tidelog.layout.roots import warn_once
from tidelog.scanning.roots import RootView
from tidelog.scanning.volumes import (
    FileView,
    RemoteVolume,
    Volume,
    local_path,
    open_volume,
    read_topic_id,
)
from tidelog.storage import Directory
from tidelog.storage.files import parent
from tidelog.storage.local import size_at
from tidelog.storage.lock import holder_of
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    MAPPED_INDEXES,
    DirectoryState,
    FileKind,
    PartitionDirectoryName,
    format_log_file,
    format_segment_file,
    is_internal_topic,
    parse_partition_directory,
)
from tidelog.storage.remote import glob_directories
from tidelog.storage.write_journal import JOURNAL_FILE
from tidelog.types import TopicPartition

__all__ = [
    "Partition",
    "Paths",
    "SegmentFacts",
    "find_partitions",
    "in_words",
    "list_partitions",
    "look_steadily",
    "reading_roots_once",
]

Paths = str | Path | Iterable[str | Path]
"""A root or partition directory, or several."""

_T = TypeVar("_T")
_Index = TypeVar("_Index", OffsetIndex, TimeIndex)


_TRIES = 10
"""Looks at a partition whose files change with every look."""
_PAUSES_S = (0.001, 0.005, 0.02, *(0.1 for _ in range(20)))
"""Between looks at segments that their writer is about to replace."""

_MANY_PARTITIONS = 16
"""From so many on, an object store is asked for all their files at once."""


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment as its directory lists it: base offset, bytes of its log, which other files it has."""

    base_offset: int
    size: int
    kinds: frozenset[FileKind]

    @property
    def log_name(self) -> str:
        """The log file's name."""
        return format_log_file(self.base_offset)


class Partition:
    """A partition directory, read-only; its listing is taken once."""

    def __init__(
        self,
        url: str,
        topic_partition: TopicPartition,
        root: RootView | None = None,
        state: DirectoryState = DirectoryState.LIVE,
        listed: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """`listed` answers the sizes of its files, where they are listed with those of the whole root."""
        self.url = url
        self._listed = listed
        self.topic_partition = topic_partition
        self.state = state
        """Whether it is live, or what its name marks it as."""
        self.is_named = False
        """Whether the path that was given is this directory itself, not a root that holds it."""
        self.unfinished: tuple[int, ...] = ()
        """When it is listed: where segments have lost their names to others that a crash left without one."""
        self.root = root

    def __repr__(self) -> str:
        """With its place."""
        return f"Partition({self.url!r})"

    def has_gone(self) -> bool:
        """Whether its directory is no longer there, as after its topic was deleted."""
        return "://" not in self.url and not Path(self.url).is_dir()

    def again(self) -> Partition:
        """The same directory, to be looked at again."""
        root = None if self.root is None else self.root.again()
        fresh = Partition(self.url, self.topic_partition, root, self.state)
        fresh.is_named = self.is_named
        return fresh

    @property
    def is_internal(self) -> bool:
        """Whether it is of a topic of Kafka's own, which consumers do not read unless they name it."""
        return is_internal_topic(self.topic_partition.topic) or self.is_metadata_log

    @property
    def is_metadata_log(self) -> bool:
        """Whether it is the cluster's metadata log."""
        return self.topic_partition.topic == CLUSTER_METADATA_TOPIC

    @cached_property
    def volume(self) -> Volume:
        """The directory."""
        return open_volume(self.url, None if self._listed is None else self._listed())

    @cached_property
    def topic_id(self) -> uuid.UUID | None:
        """The topic's id, which tells it from one of the same name that was deleted; None if not known."""
        return read_topic_id(self.volume)

    @cached_property
    def file_kinds(self) -> Mapping[int, frozenset[FileKind]]:
        """Which files there are, by the offset in their names."""
        return self.files().kinds

    def files(self) -> PartitionFiles:
        """The files in the directory, listed now."""
        if "://" in self.url:  # an object store lists by name: what is added comes behind what was listed
            return PartitionFiles.of(self.volume.names())
        found = PartitionFiles.look(self.volume.names)
        for pause_s in _PAUSES_S:
            if not found.replacing:
                return found
            in_use = holder_of(parent(self.url)) is not None  # asked before the names are
            found = PartitionFiles.look(self.volume.names)
            if not in_use:
                return self._as_left(found)
            time.sleep(pause_s)
        if found.replacing:
            raise DataLossError(f"segments {found.replacing} of {self.url} are being replaced: look again")
        return found

    def _as_left(self, found: PartitionFiles) -> PartitionFiles:
        self.unfinished = found.replacing
        if found.replacing:
            warn_once(
                f"{self.url}: replacing segments {found.replacing} was cut short, and what they hold is not "
                f"seen: `tidelog recover {self.url}` finishes it"
            )
        return found

    @cached_property
    def segments(self) -> tuple[SegmentFacts, ...]:
        """Its segments by base offset."""
        _ = self.topic_id  # before the listing: of a topic that is made anew meanwhile nothing is mixed in
        for _ in range(_TRIES):
            found = self._listed_segments()
            if None not in found:
                break
            del self.file_kinds  # one was deleted since it was listed, or is being replaced
        return tuple(one for one in found if one is not None)

    def _listed_segments(self) -> list[SegmentFacts | None]:
        """The segments of the listing; None for one that has gone since."""
        found: list[SegmentFacts | None] = []
        for base, kinds in self.file_kinds.items():
            if FileKind.LOG in kinds:
                try:
                    size = self.volume.size(format_segment_file(base, FileKind.LOG))
                    found.append(SegmentFacts(base, size, kinds))
                except FileNotFoundError:
                    found.append(None)
        return found

    def recall(
        self,
        topic_id: uuid.UUID | None,
        kinds: Mapping[int, frozenset[FileKind]],
        segments: tuple[SegmentFacts, ...],
        missing: tuple[int, ...],
    ) -> bool:
        """Take over a listing of a local directory that has not changed since; the last segment may have.

        False if that is gone: list it again.
        """
        if segments:
            last = segments[-1]
            try:
                size = size_at(f"{self.url}/{last.log_name}")
            except FileNotFoundError:
                return False
            if size != last.size:
                segments = (*segments[:-1], SegmentFacts(last.base_offset, size, last.kinds))
        # As if they had been looked up: these are the names of cached properties.
        self.__dict__.update(topic_id=topic_id, file_kinds=kinds, segments=segments, missing_logs=missing)
        return True

    def log_view(self, segment: SegmentFacts) -> FileView:
        """A segment's log, to be read; DataLossError if it was deleted since it was listed."""
        try:
            return self.volume.view(segment.log_name)
        except FileNotFoundError as error:
            raise self._gone(segment.log_name) from error

    def txn_index(self, segment: SegmentFacts) -> bytes:
        """The bytes of a segment's transaction index; DataLossError if it was deleted since."""
        if FileKind.TXN_INDEX not in segment.kinds:
            return b""
        name = format_segment_file(segment.base_offset, FileKind.TXN_INDEX)
        try:
            return self.volume.content(name)
        except FileNotFoundError as error:
            raise self._gone(name) from error

    def _gone(self, name: str) -> DataLossError:
        return DataLossError(f"{self.url}/{name} has gone while the partition was looked at: look again")

    @cached_property
    def missing_logs(self) -> tuple[int, ...]:
        """Base offsets of segments whose indexes are there and whose log is not, though an older one is.

        What retention takes goes from the oldest on, and cleaning takes a segment's files together: such a
        log was lost.
        """
        first = self.segments[0].base_offset if self.segments else 0
        return tuple(
            base
            for base, kinds in self.file_kinds.items()
            if base > first and FileKind.LOG not in kinds and not kinds.isdisjoint(MAPPED_INDEXES)
        )

    @cached_property
    def snapshot_offsets(self) -> tuple[int, ...]:
        """Offsets of its producer snapshots."""
        return tuple(offset for offset, kinds in self.file_kinds.items() if FileKind.SNAPSHOT in kinds)

    @property
    def log_start_offset(self) -> int:
        """The first offset a reader may see."""
        first = self.segments[0].base_offset if self.segments else 0
        if self.root is None:
            return first
        pending = self.root.pending(self.topic_partition)
        known = self.root.log_starts.get(self.topic_partition, 0) if pending is None else pending.log_start
        return max(first, known)

    def published_end(self, log_end: int) -> int:
        """A log's end without what a bulk write that is not finished has added; asked after the end."""
        pending = self.root.pending(self.topic_partition) if self.root else None
        return log_end if pending is None else min(log_end, pending.base_offset)

    @property
    def high_watermark(self) -> int | None:
        """The checkpointed high watermark: 0 for a partition that is not in the checkpoint, as in Kafka.

        None if the root has no such checkpoint.
        """
        if self.root is None or self.root.high_watermarks is None:
            return None
        return self.root.high_watermarks.get(self.topic_partition, 0)

    def offset_index(self, segment: SegmentFacts) -> OffsetIndex:
        """A copy of the segment's offset index, as far as it can be trusted; without a file it is empty."""
        return self._index(OffsetIndex, segment)

    def time_index(self, segment: SegmentFacts) -> TimeIndex:
        """A copy of the segment's time index, as far as it can be trusted; without a file it is empty."""
        return self._index(TimeIndex, segment)

    def _index(self, kind: type[_Index], segment: SegmentFacts) -> _Index:
        """The leading entries that grow as they must. A writer's preallocated file continues with zeros;
        there the last entry may be half written and is left out, which costs a reader a few kilobytes
        more.
        """
        if kind.KIND not in segment.kinds:
            return kind.from_bytes(Directory(self.url), segment.base_offset, b"")
        try:
            data = self.volume.content(format_segment_file(segment.base_offset, kind.KIND))
        except FileNotFoundError:  # deleted since it was listed: an index is a hint, and can be done without
            data = b""
        index = kind.from_bytes(Directory(self.url), segment.base_offset, data)
        sound = index.growing_entries()
        if sound == index.entries and any(data[: kind.ENTRY_SIZE]):
            return index
        whole = data[: max(sound - 1, 0) * kind.ENTRY_SIZE] if any(data[: kind.ENTRY_SIZE]) else b""
        return kind.from_bytes(Directory(self.url), segment.base_offset, whole)


def look_steadily(partition: Partition, look: Callable[[Partition], _T]) -> _T:
    """What a look at a partition finds; once more where its writer has changed the files in the meantime.

    DataLossError if the partition has gone, or changes with every look.
    """
    for _ in range(_TRIES):
        try:
            return look(partition)
        except (DataLossError, FileNotFoundError) as error:
            last = error
            if partition.unfinished and isinstance(error, DataLossError):
                raise  # no writer is at work: it will be the same at every look
            if partition.has_gone():
                raise DataLossError(f"{partition.url} was removed while it was read") from error
            partition = partition.again()
    raise DataLossError(f"{partition.url} changed at every attempt to read it: try again") from last


@contextmanager
def reading_roots_once(partitions: Iterable[Partition]) -> Iterator[None]:
    """Within it, what their roots say of bulk writes is what they say now.

    That may be told of many partitions together where all that is read of their logs was read before:
    looking at the journal for each of them costs as much as looking at the log.
    """
    with ExitStack() as stack:
        for root in {id(each.root): each.root for each in partitions}.values():
            if root is not None:
                stack.enter_context(root.read_once())
        yield


def list_partitions(path: Paths, *, marked: bool = False) -> list[Partition]:
    """All partitions under `path`, ordered by topic and number; there may be none.

    With `marked`, directories that are not live come too, behind the live one.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    urls = [url for one in paths for url in _expand(str(one))]
    found = _partitions_in(urls, marked)
    by_name: dict[tuple[TopicPartition, str], Partition] = {}
    for partition in found:
        name = partition.topic_partition
        key = (name, "" if partition.state is DirectoryState.LIVE else partition.url)
        if key in by_name and by_name[key].url != partition.url:
            raise InvalidInputError(f"{name} is there twice: {by_name[key].url} and {partition.url}")
        by_name[key] = partition
    return [by_name[key] for key in sorted(by_name)]


def find_partitions(
    path: Paths, topics: Collection[str] | None = None, *, marked: bool = False, internal: bool = True
) -> list[Partition]:
    """As `list_partitions`, of the `topics` named (None: all); InvalidInputError if there is none.

    Without `internal`, Kafka's own topics (`__consumer_offsets` and such) are left out unless they are named,
    by their topic or by their directory.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    found = [
        partition
        for partition in list_partitions(paths, marked=marked)
        if (internal or partition.is_named or not partition.is_internal or topics is not None)
        and (topics is None or partition.topic_partition.topic in topics)
    ]
    missing = set(topics or ()) - {partition.topic_partition.topic for partition in found}
    if missing:
        raise InvalidInputError(f"no partition of topic {', '.join(sorted(missing))} under {in_words(paths)}")
    if not found:
        raise InvalidInputError(f"no Kafka partition directory under {in_words(paths)}")
    return found


def in_words(paths: Paths) -> str:
    """Paths as a message names them."""
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    return ", ".join(str(path) for path in paths)


def _expand(path: str) -> list[str]:
    """The directories a path means: itself, or what matches a glob. Local ones become absolute."""
    path = local_path(path)
    is_glob = any(sign in path for sign in "*?[")
    if "://" in path:
        if not is_glob:
            return [path]
        matches = glob_directories(path)
    else:
        if not is_glob or Path(path).exists():
            return [str(Path(path).absolute())]
        whole = Path(path).absolute()
        found = Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))
        matches = sorted(str(match) for match in found if match.is_dir())
    if not matches:
        raise InvalidInputError(f"nothing matches {path}")
    return matches


def _partitions_at(url: str, marked: bool) -> Iterator[Partition]:
    """The partition at `url`, or those in the root at `url`."""
    url = url.rstrip("/") or "/"
    is_local = "://" not in url
    if is_local and not Path(url).is_dir():
        if not Path(url).exists():
            raise InvalidInputError(f"{url} does not exist")
        raise InvalidInputError(
            f"{url} is not a directory: name its partition directory, {Path(url).parent}, "
            f"or look into the file itself with `tidelog dump {url}`"
        )
    name = _partition_name(Path(url).resolve().name if is_local else url.rpartition("/")[2], marked)
    try:
        names = open_volume(url).names()
    except FileNotFoundError:
        raise InvalidInputError(f"{url} does not exist") from None
    # what a repair or rewrite keeps lies in a hidden directory of the partition
    if name is not None and not any(is_directory and entry[0] != "." for entry, is_directory in names):
        above = str(Path(url).resolve().parent) if is_local else url.rpartition("/")[0]
        root = RootView(above, has_journal=is_local)
        partition = _partition(url, name, root)
        partition.is_named = True
        yield partition
        return
    root = RootView(url, has_journal=is_local or (JOURNAL_FILE, False) in names)
    found = [(entry, _partition_name(entry, marked)) for entry, is_directory in names if is_directory]
    tree = None if is_local or len(found) < _MANY_PARTITIONS else _Tree(url)
    for entry, name in found:
        if name is not None:
            listed = None if tree is None else partial(tree.files, entry)
            yield _partition(f"{url}/{entry}", name, root, listed)


def _partitions_in(urls: list[str], marked: bool) -> list[Partition]:
    """The partitions at several places; one that moves from root to root meanwhile is in one of them."""
    found = [one for url in urls for one in _partitions_at(url, marked)]
    if len(urls) < 2 or any("://" in url for url in urls):
        return found
    for pause_s in _PAUSES_S:
        in_use = any(holder_of(url) is not None for url in urls)  # asked before the names are
        before, found = found, [one for url in urls for one in _partitions_at(url, marked)]
        live = [one.topic_partition for one in found if one.state is DirectoryState.LIVE]
        is_twice = len(live) > len(set(live))
        if [one.url for one in before] == [one.url for one in found] and not (is_twice and in_use):
            break
        if is_twice:
            time.sleep(pause_s)
    return found


class _Tree:
    """All files of a root in an object store, listed at once when the first of them is asked for."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _files(self) -> dict[str, dict[str, int]]:
        return RemoteVolume(self._url).tree()

    def files(self, directory: str) -> Mapping[str, int]:
        """The names and sizes in a directory."""
        return self._files.get(directory, {})


def _partition(
    url: str,
    name: PartitionDirectoryName,
    root: RootView,
    listed: Callable[[], Mapping[str, int]] | None = None,
) -> Partition:
    is_live = name.state is DirectoryState.LIVE
    return Partition(url, name.topic_partition, root if is_live else None, name.state, listed)


def _partition_name(name: str, marked: bool) -> PartitionDirectoryName | None:
    try:
        parsed = parse_partition_directory(name)
    except InvalidInputError:
        return None
    return parsed if marked or parsed.state is DirectoryState.LIVE else None
