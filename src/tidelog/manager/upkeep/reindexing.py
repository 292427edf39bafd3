"""Rebuilding index files from the log, as Kafka's recovery does it; records are never touched.

1. `plan_reindex`: the segments of a partition or root, each a value that can be sent anywhere.
2. `reindex_segment`: what verification finds wrong with its indexes, or all of them, is rebuilt from the
   batches (`segment.recovery`), the transaction index from the producers' state at the segment's base offset:
   the newest snapshot there is, and the batches after it.
3. Each file is replaced as a whole. A crash leaves the old one or the new one, and perhaps a file
   `<segment>.<random>.deleted`, which the next opening removes.

A damaged log gets indexes that reach up to the damage, and the answer says so. The root's lock is held by the
caller (`reindex` takes it), so that tasks on other machines may do step 2.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from tidelog.config import LogConfig
from tidelog.errors import TidelogError
from tidelog.index import AbortedTxn
from tidelog.index.transaction import decode_entries
from tidelog.layout.config import log_config
from tidelog.layout.roots import Checkpoint, check_holdable, hold_root, look_at, read_checkpoint
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.manager.verification.findings import UNREADABLE, Kind, told
from tidelog.manager.verification.partition import SegmentPlace, list_partition
from tidelog.manager.verification.root import partition_directories
from tidelog.manager.verification.segment import verify_segment
from tidelog.records.batches import BatchTable, walk_batches
from tidelog.segment.recovery import Rebuilding
from tidelog.storage import FileSystem, atomic_write, map_file, read_file
from tidelog.storage.directory import is_partition
from tidelog.storage.files import os_error, parent
from tidelog.storage.local import LINK_REFUSED
from tidelog.storage.names import (
    INDEX_FILES,
    META_PROPERTIES_FILE,
    FileKind,
    Transient,
    format_segment_file,
    parse_partition_directory,
)

__all__ = [
    "ReindexOptions",
    "ReindexTask",
    "Reindexed",
    "held_for_reindex",
    "plan_reindex",
    "reindex",
    "reindex_segment",
]


@dataclass(frozen=True, slots=True)
class ReindexTask:
    """One segment to look at."""

    place: SegmentPlace
    interval_bytes: int
    log_start_offset: int
    everything: bool
    dry_run: bool

    @property
    def size(self) -> int:
        """Bytes of its log."""
        return self.place.size


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What became of the indexes of a segment that needed something."""

    file: str
    """The log file, or the one that cannot be read."""
    indexes: tuple[str, ...]
    """The names of the index files that were replaced; in a dry run, that would be."""
    cause: str | None
    """What was wrong with them; None if all were to be rebuilt."""
    error: str | None = None
    """What is wrong with the log itself: its indexes reach up to there only, or could not be made."""


class ReindexOptions(TypedDict, total=False):
    """How indexes are rebuilt."""

    everything: bool
    """All of them, not only what is missing or wrong."""
    dry_run: bool
    """Say what would be replaced, and replace nothing."""
    settings: Mapping[str, str] | None
    """Topic configs to use instead of the metadata's; `index.interval.bytes` matters."""
    defaults: LogConfig | None
    """The broker's configuration for topics."""
    metadata: str | None
    """The root whose metadata counts, if it is another one."""


def reindex(
    fs: FileSystem,
    path: str,
    *,
    advance: Callable[[int], None] = lambda size: None,
    **options: Unpack[ReindexOptions],
) -> Iterator[Reindexed]:
    """Rebuild the indexes in a root or partition that are missing or wrong, or all of them.

    Answers come as segments are done; those in order have none. The root is locked in the meantime, unless
    nothing is written.
    """
    with held_for_reindex(fs, path, dry_run=options.get("dry_run", False)):
        for task in plan_reindex(fs, path, **options):
            done = reindex_segment(fs, task)
            advance(task.size)
            if done is not None:
                yield done


def held_for_reindex(fs: FileSystem, path: str, *, dry_run: bool) -> AbstractContextManager[object]:
    """The root that `path` is, or is in, held; nothing for a dry run, or outside of a root.

    Nothing is claimed: indexes say nothing about how a root was left.
    """
    root = parent(path) if is_partition(fs, path) else path
    if not fs.exists(f"{root}/{META_PROPERTIES_FILE}"):
        return nullcontext()
    if dry_run:
        check_holdable(look_at(fs, root))
        return nullcontext()
    return hold_root(root, fs)


def plan_reindex(fs: FileSystem, path: str, **options: Unpack[ReindexOptions]) -> list[ReindexTask]:
    """The segments of a root or partition, in order."""
    everything, dry_run = options.get("everything", False), options.get("dry_run", False)
    defaults, settings = options.get("defaults"), options.get("settings")
    alone = is_partition(fs, path)
    root = parent(path) if alone else path
    names = [path.rpartition("/")[2]] if alone else list(partition_directories(fs, root)[0])
    starts = read_checkpoint(fs, root, Checkpoint.LOG_STARTS)
    image = look_at_metadata(fs, options.get("metadata") or root).image
    tasks: list[ReindexTask] = []
    for name in names:
        partition = parse_partition_directory(name).topic_partition
        interval = log_config(image.topic_config(partition.topic), defaults, settings).index_interval_bytes
        segments = list_partition(fs, f"{root}/{name}").segments
        start = max(starts.get(partition, 0), segments[0].base_offset if segments else 0)
        tasks += [ReindexTask(place, interval, start, everything, dry_run) for place in segments]
    return tasks


def reindex_segment(fs: FileSystem, task: ReindexTask, known: BatchTable | None = None) -> Reindexed | None:
    """Look at a segment's indexes and rebuild what needs it; None where nothing does. Calling it again is
    harmless.

    `known` are all of its batches where they were scanned before, and are sound (`reindex_pieces`).
    """
    try:
        needed = _look(fs, task, known)
    except UNREADABLE as error:  # the other segments are looked at all the same
        file = error.filename if isinstance(error, OSError) else None
        return Reindexed(str(file or task.place.path(FileKind.LOG)), (), None, told(error))
    if needed is None:
        return None
    place, changed = task.place, needed.changed
    if changed and fs.is_link(place.directory):
        return Reindexed(place.path(FileKind.LOG), (), _told(needed.causes), LINK_REFUSED)
    if not task.dry_run:
        _replace(fs, place, changed)
    if not changed and needed.fault is None:
        return None
    names = tuple(format_segment_file(place.base_offset, kind) for kind in changed)
    return Reindexed(place.path(FileKind.LOG), names, _told(needed.causes), needed.fault)


@dataclass(frozen=True, slots=True)
class _Needed:
    """What the indexes of a segment need."""

    changed: Mapping[FileKind, bytes]
    """Those that are replaced."""
    causes: Mapping[FileKind, str]
    """What is wrong with them."""
    fault: str | None
    """What is wrong with the log."""


def _look(fs: FileSystem, task: ReindexTask, known: BatchTable | None) -> _Needed | None:
    """Look at a segment, and make the indexes that it needs; None where it needs nothing."""
    place = task.place
    causes: dict[FileKind, str] = {}
    if not task.everything:
        causes = _wrong(fs, place, known)
        if not causes and (FileKind.TXN_INDEX in place.kinds or not _has_markers(fs, place, known)):
            return None
    try:
        built, fault = _rebuild(fs, task, known)
    except TidelogError as error:
        return _Needed({}, causes, str(error))
    if FileKind.TXN_INDEX not in place.kinds:
        aborted = decode_entries(built[FileKind.TXN_INDEX])
        if not task.everything and any(_has_data(fs, place, txn) for txn in aborted):
            causes[FileKind.TXN_INDEX] = "the index is missing"
    wanted = INDEX_FILES if task.everything else tuple(causes)
    changed = {kind: built[kind] for kind in wanted if _differs(fs, place, kind, built[kind])}
    return _Needed(changed, causes, fault)


def _wrong(fs: FileSystem, place: SegmentPlace, known: BatchTable | None) -> dict[FileKind, str]:
    """What verification says of each index that is not as it should be: the first of its findings."""
    found: dict[FileKind, str] = {}
    kinds = {place.path(kind): kind for kind in INDEX_FILES}
    for finding in verify_segment(fs, place, known=known).findings:
        if finding.kind is Kind.DAMAGE and finding.file in kinds:
            found.setdefault(kinds[finding.file], finding.cause)
    return found


def _told(causes: Mapping[FileKind, str]) -> str | None:
    return "; ".join(f"{kind.value}: {cause}" for kind, cause in causes.items()) or None


def _has_markers(fs: FileSystem, place: SegmentPlace, known: BatchTable | None) -> bool:
    """Whether a transaction ends in the log."""
    view = map_file(fs, place.path(FileKind.LOG))
    try:
        tables = walk_batches(view, check_crc=False) if known is None else (known,)
        return any((table.is_control & (table.producer_id >= 0)).any() for table in tables)
    except TidelogError:
        return True  # let the rebuilding see


def _has_data(fs: FileSystem, place: SegmentPlace, txn: AbortedTxn) -> bool:
    """Whether there still are records of an aborted transaction; cleaning takes them, and its entry too."""
    for source in _logs(fs, place.directory, txn.first_offset, txn.last_offset + 1):
        for table in walk_batches(map_file(fs, source), check_crc=False, source=source):
            within = (table.base_offset >= txn.first_offset) & (table.last_offset < txn.last_offset)
            records = within & (table.producer_id == txn.producer_id) & (table.count > 0)
            if (records & table.is_transactional & ~table.is_control).any():
                return True
    return False


def _logs(fs: FileSystem, directory: str, start: int, end: int) -> list[str]:
    """The log files that hold offsets of [start, end), in order."""
    bases = [place.base_offset for place in list_partition(fs, directory).segments]
    return [
        f"{directory}/{format_segment_file(base, FileKind.LOG)}"
        for base, following in pairwise([*bases, max(end, start) + 1])
        if base < end and following > start
    ]


def _differs(fs: FileSystem, place: SegmentPlace, kind: FileKind, data: bytes) -> bool:
    path = place.path(kind)
    if kind not in place.kinds:
        if fs.exists(path):
            raise os_error(errno.EISDIR, path)
        return kind is not FileKind.TXN_INDEX or bool(data)
    return fs.stat(path).size != len(data) or read_file(fs, path) != data


def _replace(fs: FileSystem, place: SegmentPlace, files: Mapping[FileKind, bytes]) -> None:
    """Put the new files in place, whole. Attempts may run at the same time: each has its own name."""
    for kind, data in files.items():
        path = place.path(kind)
        temporary = f"{path}.{uuid.uuid4().hex}{Transient.DELETED.value}"
        atomic_write(fs, path, data, sync_directory=False, temporary=temporary)
    if files:
        fs.sync_directory(place.directory)


# ---- making the entries


class _Entries:
    """An offset or time index in memory."""

    ENTRY_SIZE: ClassVar[int] = 0
    length = 1 << 62

    def __init__(self, dtype: str, key_base: int, value_base: int) -> None:
        self._dtype = np.dtype(dtype)
        self._bases = (key_base, value_base)
        self._parts: list[bytes] = []
        self.entries = 0
        self.last_key: int | None = None

    def reset(self) -> None:
        self._parts = []

    def resize(self, new_size: int) -> bool:
        return False

    def append_many(self, keys: npt.ArrayLike, values: npt.ArrayLike, /) -> None:
        pairs = zip(self._dtype.names or (), (keys, values), self._bases, strict=True)
        rows = np.empty(len(np.asarray(keys)), self._dtype)
        for name, column, base in pairs:
            rows[name] = np.asarray(column, np.int64) - base
        self.entries += len(rows)
        self._parts.append(rows.tobytes())
        if len(rows):
            self.last_key = int(np.asarray(keys)[-1])

    def data(self) -> bytes:
        return b"".join(self._parts)


class _TxnEntries:
    """A transaction index in memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def reset(self) -> None:
        self._parts = []

    def append(self, txn: AbortedTxn) -> None:
        self._parts.append(txn.encode())

    def data(self) -> bytes:
        return b"".join(self._parts)


class _Producers:
    """The producers' state, taking in a segment's batches (`segment.RecoveryState`)."""

    def __init__(self, producers: ProducerStateManager, source: str) -> None:
        self._producers = producers
        self._source = source

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        completed = self._producers.load(batches, read_markers(buffer, batches, source=self._source))
        return [
            AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
            for txn in completed
            if txn.is_aborted
        ]


class _NoProducers:
    """Stands in where no transaction ends."""

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        return ()


def _rebuild(
    fs: FileSystem, task: ReindexTask, known: BatchTable | None
) -> tuple[dict[FileKind, bytes], str | None]:
    """The bytes of a segment's indexes, and what ended them before the log's end."""
    place = task.place
    path = place.path(FileKind.LOG)
    view = map_file(fs, path)
    state = _Producers(_producers_at(fs, task), path) if _has_markers(fs, place, known) else _NoProducers()
    base = place.base_offset
    offsets, times, txns = _Entries(">i4,>i4", base, 0), _Entries(">i8,>i4", 0, base), _TxnEntries()
    rebuilding = Rebuilding(base, task.interval_bytes, (offsets, times, txns), state, path)
    sound = rebuilding.run(view, known)
    timestamp, offset = rebuilding.largest
    if timestamp > (-1 if times.last_key is None else times.last_key):
        times.append_many([timestamp], [offset])
    built = dict(zip(INDEX_FILES, (offsets.data(), times.data(), txns.data()), strict=True))
    fault = None
    if sound < len(view):
        fault = f"the log is damaged from position {sound} on; its indexes reach up to there"
    return built, fault


def _producers_at(fs: FileSystem, task: ReindexTask) -> ProducerStateManager:
    """The producers' state at a segment's base offset."""
    place = task.place
    base = place.base_offset
    files = list_partition(fs, place.directory)
    producers = ProducerStateManager(snapshot_offsets=[offset for offset, _ in files.snapshots])

    def read(offset: int) -> bytes:
        return read_file(fs, f"{place.directory}/{format_segment_file(offset, FileKind.SNAPSHOT)}")

    producers.truncate_and_reload(task.log_start_offset, base, 0, read)
    begin = producers.map_end_offset
    for source in _logs(fs, place.directory, begin, base):
        view = map_file(fs, source)
        for table in walk_batches(view, check_crc=False, source=source):
            later = BatchTable(np.ascontiguousarray(table.rows[table.last_offset >= begin]))
            if len(later):
                producers.load(later, read_markers(view, later, source=source))
    return producers
