"""A partition's directory as one listing: its segments, and the files that are on their way in or out.

    <base offset>.log, .index, .timeindex, .txnindex     a segment; the log makes it one
    <offset>.snapshot                                     the producers' state at an offset
    any of them with .cleaned, .swap or .deleted          transient: the next opening decides about it

`PartitionFiles.of` is made from names alone, wherever they come from: a local directory (`list_partition`),
an object store, a simulated disk. Loading, scans, verification, recovery and compaction begin here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from tidelog.errors import InvalidInputError
from tidelog.storage import FileSystem
from tidelog.storage.files import parent
from tidelog.storage.names import (
    LEADER_EPOCH_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    SEGMENT_FILES,
    FileKind,
    SegmentFileName,
    Transient,
    format_segment_file,
    parse_partition_directory,
    parse_segment_file,
)

__all__ = [
    "PartitionFiles",
    "SegmentFiles",
    "check_files",
    "check_no_partition",
    "list_partition",
    "log_sizes",
]

_SEGMENT_KINDS = frozenset(SEGMENT_FILES)
_DIGITS = 20
"""Of the offset that a file's name begins with."""


_TRIES = 10
"""Listings of a directory from which names go with every one of them."""


def _is_numbered(name: str) -> bool:
    return name[:_DIGITS].isdecimal()


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """A segment: its base offset and the files it has."""

    base_offset: int
    kinds: frozenset[FileKind]

    @property
    def log_name(self) -> str:
        """The name of its log file."""
        return format_segment_file(self.base_offset, FileKind.LOG)


@dataclass(frozen=True)
class PartitionFiles:
    """What the names in a partition's directory say."""

    names: tuple[str, ...]
    """The files, as they were listed."""
    parsed: Mapping[str, SegmentFileName]
    """Those that are a segment's or a snapshot's, by name, transient ones too."""
    misplaced: tuple[str, ...] = ()
    """Directories that have the name of a segment's file."""

    @classmethod
    def of(cls, entries: Iterable[tuple[str, bool]]) -> PartitionFiles:
        """The picture of names, each with whether it is a directory."""
        names: list[str] = []
        parsed: dict[str, SegmentFileName] = {}
        misplaced = []
        for name, is_directory in entries:
            file = parse_segment_file(name)
            if is_directory:
                misplaced += [name] if file is not None else []
                continue
            names.append(name)
            if file is not None:
                parsed[name] = file
        return cls(tuple(names), parsed, tuple(misplaced))

    @classmethod
    def look(cls, list_names: Callable[[], Iterable[tuple[str, bool]]]) -> PartitionFiles:
        """The picture of a directory that may change while it is listed: it has no segment missing.

        A listing is no snapshot. Of names that are added meanwhile it may have a later one and not an earlier
        one. So it is listed twice: what is older than the first listing's last offset is all in the second.
        Where a name has gone by then, others may have taken its place, and it is listed again.
        """
        before = list(list_names())
        for _ in range(_TRIES):
            last = max((name[:_DIGITS] for name, _ in before if _is_numbered(name)), default="")
            after = list(list_names())
            older = [entry for entry in after if entry[0][:_DIGITS] <= last or not _is_numbered(entry[0])]
            if {name for name, _ in before if _is_numbered(name)} <= {name for name, _ in older}:
                break
            before = after
        return cls.of(older)

    @cached_property
    def kinds(self) -> Mapping[int, frozenset[FileKind]]:
        """Which settled files there are, by the offset in their names, ascending."""
        found: dict[int, set[FileKind]] = {}
        for file in self.parsed.values():
            if file.transient is Transient.NONE:
                found.setdefault(file.offset, set()).add(file.kind)
        return {offset: frozenset(found[offset]) for offset in sorted(found)}

    @cached_property
    def transient(self) -> Mapping[str, SegmentFileName]:
        """The files that the next opening decides about, by name."""
        return {name: file for name, file in self.parsed.items() if file.transient is not Transient.NONE}

    @cached_property
    def replacing(self) -> tuple[int, ...]:
        """The base offsets of `.swap` logs that have no settled one beside them, ascending.

        For a moment of a replacement the old segments have lost their names and the new ones have none yet.
        """
        return tuple(
            sorted(
                file.offset
                for file in self.transient.values()
                if file.kind is FileKind.LOG
                and file.transient is Transient.SWAP
                and FileKind.LOG not in self.kinds.get(file.offset, ())
            )
        )

    @cached_property
    def segments(self) -> tuple[SegmentFiles, ...]:
        """The segments by base offset."""
        return tuple(SegmentFiles(base, kinds) for base, kinds in self.kinds.items() if FileKind.LOG in kinds)

    @property
    def snapshots(self) -> list[int]:
        """The offsets of the snapshots of the producers' state."""
        return [offset for offset, kinds in self.kinds.items() if FileKind.SNAPSHOT in kinds]

    @property
    def orphans(self) -> list[int]:
        """The offsets of index files whose log is missing."""
        return [
            offset
            for offset, kinds in self.kinds.items()
            if FileKind.LOG not in kinds and kinds & _SEGMENT_KINDS
        ]


def list_partition(fs: FileSystem, path: str) -> PartitionFiles:
    """List a partition's directory."""
    return PartitionFiles.look(lambda: sorted((entry.name, entry.is_directory) for entry in fs.list(path)))


def log_sizes(fs: FileSystem, path: str, files: PartitionFiles | None = None) -> dict[int, int]:
    """The bytes of a partition's log files, by base offset."""
    listed = list_partition(fs, path) if files is None else files
    return {one.base_offset: fs.stat(f"{path}/{one.log_name}").size for one in listed.segments}


def check_files(fs: FileSystem, path: str) -> None:
    """Refuse a partition in which something else has the name of a segment's file, or that cannot be read."""
    listed = list_partition(fs, path)
    for name in listed.misplaced:
        raise InvalidInputError(f"{path}/{name} is a directory, where the log's file has to be: move it away")
    for name in listed.parsed:
        with suppress(FileNotFoundError):  # a link to nowhere: a file that is missing
            fs.open(f"{path}/{name}").close()


def check_no_partition(fs: FileSystem, path: str) -> None:
    """Refuse a partition's directory where a root is wanted."""
    name = path.rstrip("/").rpartition("/")[2]
    try:
        partition = parse_partition_directory(name).topic_partition
    except InvalidInputError:
        return
    root = parent(path)
    if fs.exists(f"{path}/{META_PROPERTIES_FILE}"):
        return
    if fs.exists(f"{root}/{META_PROPERTIES_FILE}") or _is_partition(fs, path):
        raise InvalidInputError(
            f"{path} is a partition's directory, not a root. Open its root, {root}, and ask it for "
            f"partition({partition.topic!r}, {partition.partition}); tidelog.scan({path!r}) reads it as it is"
        )


def _is_partition(fs: FileSystem, path: str) -> bool:
    """Whether a directory has a partition's files in it."""
    if not fs.exists(path) or not fs.stat(path).is_directory:
        return False
    files = list_partition(fs, path)
    return bool(files.parsed) or not {PARTITION_METADATA_FILE, LEADER_EPOCH_FILE}.isdisjoint(files.names)
