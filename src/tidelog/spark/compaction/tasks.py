"""What the tasks of a partition's compaction do, each a pure function of its split.

1. MapWork    neighbouring segments: the keys of the dirty ones into a map, which goes into a file; and of
              each segment what it does to transactions that are open (`cleanup.aborted`)
2. MergeWork  all maps of a partition, in order, into one of the same memory, whose slots go into a file
3. RewriteWork  groups of segments, each into a `.cleaned` segment in a directory of the attempt's own

The local cleaner's map ends at the first record with a key that comes when it is full. Where merging would
fill the map, that record lies in the part that does, or after it: the part is mapped again, on top of all
before it. So the round ends at the very record at which the local one does.

Attempts never share a file; what comes back names the files of the one that was not lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelog.cleanup.aborted import CleanedTransactions, MetData, TransactionSpan
from tidelog.cleanup.group_rewrite import GroupRules, rewrite_group
from tidelog.cleanup.mapping import map_segments, walk
from tidelog.cleanup.offset_map import FrozenMap, OffsetMap
from tidelog.cleanup.rewriting import RewriteStats
from tidelog.cleanup.segment_bounds import Bounded
from tidelog.errors import IndexOffsetOverflowError, InvalidInputError
from tidelog.index import AbortedTxn
from tidelog.segment import SealedSegment
from tidelog.spark.compaction.staged_segments import own_name
from tidelog.storage import Directory
from tidelog.storage.scratch import map_private, write_file

__all__ = [
    "GroupDone",
    "GroupSplit",
    "MapSplit",
    "MapWork",
    "MappedPart",
    "Maps",
    "MergeSplit",
    "MergeWork",
    "Merged",
    "RewriteSplit",
    "RewriteWork",
    "SegmentSplit",
]

_FEW_KEYS = 1 << 19
_WALK_COST = 16  # a segment of which only headers are read costs so many times less


@dataclass(frozen=True, slots=True)
class Maps:
    """How the maps of one round are made: alike, so that they can be merged."""

    dedupe_bytes: int
    load_factor: float
    hash_key: bytes

    def new(self) -> OffsetMap:
        """An empty one."""
        return OffsetMap(self.dedupe_bytes, self.load_factor, hash_key=self.hash_key)


@dataclass(frozen=True, slots=True)
class SegmentSplit:
    """A sealed segment, as a task needs to know it."""

    base_offset: int
    end_offset: int
    """Where the next one begins."""
    size_bytes: int
    is_dirty: bool
    aborted: tuple[AbortedTxn, ...]
    """The aborted transactions that reach into it."""

    @property
    def size(self) -> int:
        """Bytes to be read by the first pass, about."""
        return self.size_bytes if self.is_dirty else self.size_bytes // _WALK_COST

    def open(self, directory: Directory) -> Bounded:
        """The segment itself."""
        return Bounded(SealedSegment.open(directory, self.base_offset), self.end_offset)


def _aborted(segments: Iterable[SegmentSplit], start_offset: int = 0) -> Iterable[AbortedTxn]:
    """The aborted transactions that reach into segments, at or behind an offset: where reading begins."""
    return (txn for one in segments for txn in one.aborted if txn.last_offset >= start_offset)


# ---- first pass


@dataclass(frozen=True, slots=True)
class MapSplit:
    """Neighbouring segments of a partition; `start_offset` is where its dirty part begins."""

    directory: str
    start_offset: int
    segments: tuple[SegmentSplit, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(one.size for one in self.segments)


@dataclass(frozen=True, slots=True)
class MappedPart:
    """What became of a MapSplit."""

    file: str | None
    """The map; None if it became full, or nothing was dirty."""
    full: bool
    keys: int
    records: int
    spans: tuple[TransactionSpan, ...]
    """Of its segments; if it became full, of those before that."""


@dataclass(frozen=True, slots=True)
class MapWork:
    """Maps the keys of a part."""

    staging: str
    maps: Maps

    def __call__(self, number: int, split: MapSplit) -> MappedPart:
        """Fill a map and write it."""
        directory, offsets = Directory(split.directory), self.maps.new()
        records = 0
        spans: list[TransactionSpan] = []
        for one in split.segments:
            segment, transactions = one.open(directory), CleanedTransactions(one.aborted)
            walk(segment, transactions, split.start_offset)
            if one.is_dirty:
                mapped = map_segments(
                    [segment], offsets, start_offset=split.start_offset, transactions=transactions
                )
                records += mapped.records
                if mapped.full:
                    return MappedPart(None, True, offsets.size, records, tuple(spans))
            spans.append(transactions.span)
        dirty = any(one.is_dirty for one in split.segments)
        file = write_file(own_name(self.staging, number), offsets.parts()) if dirty else None
        return MappedPart(file, False, offsets.size, records, tuple(spans))


@dataclass(frozen=True, slots=True)
class MergeSplit:
    """All parts of a partition, in order."""

    parts: tuple[tuple[MapSplit, MappedPart], ...]

    @property
    def size(self) -> int:
        """Bytes: those that are read again can at most be."""
        return max(split.size for split, _ in self.parts)


@dataclass(frozen=True, slots=True)
class Merged:
    """A partition's keys."""

    file: str
    """The slots of the map, to be looked into."""
    end_offset: int
    """How far it tells: the first offset that it does not."""
    keys: int
    records: int


@dataclass(frozen=True, slots=True)
class MergeWork:
    """Merges the maps of a partition's parts."""

    staging: str
    maps: Maps

    def is_quick(self, split: MergeSplit) -> bool:
        """Whether all is merged in less time than it takes to start a task, and nothing is mapped again."""
        keys = sum(done.keys for _, done in split.parts)
        return keys < min(_FEW_KEYS, self.maps.new().max_entries)

    def __call__(self, number: int, split: MergeSplit) -> Merged:
        """Merge all maps, as far as they go into one, and write its slots."""
        merged, records = self.maps.new(), 0
        for index, (part, mapped) in enumerate(split.parts):
            dirty = [one for one in part.segments if one.is_dirty]
            if not dirty:
                continue
            before = [done.file for _, done in split.parts[:index]]
            if self._merge(merged, mapped, before):
                records += mapped.records
                continue
            directory = Directory(part.directory)
            again = map_segments(
                (one.open(directory) for one in dirty),
                merged,
                start_offset=part.start_offset,
                transactions=CleanedTransactions(_aborted(dirty, part.start_offset)),
            )
            records += again.records
            if again.full:
                break
        file = write_file(own_name(self.staging, number), merged.frozen_parts())
        return Merged(file, merged.latest_offset + 1, merged.size, records)

    def _merge(self, merged: OffsetMap, mapped: MappedPart, before: Sequence[str | None]) -> bool:
        """Merge a part's map; False, with `merged` as it was, where that would fill it."""
        if mapped.file is None or merged.is_full:
            return False
        try:
            merged.merge(map_private(mapped.file))
        except InvalidInputError:  # more keys than it takes
            pass
        else:
            if not merged.is_full:
                return True
        merged.clear()
        for file in before:
            if file is not None:
                merged.merge(map_private(file))
        return False


# ---- second pass


@dataclass(frozen=True, slots=True)
class GroupSplit:
    """Segments that become one, and whose data was met before them."""

    segments: tuple[SegmentSplit, ...]
    met: MetData

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(one.size_bytes for one in self.segments)


@dataclass(frozen=True, slots=True)
class RewriteSplit:
    """Neighbouring groups of a partition."""

    directory: str
    groups: tuple[GroupSplit, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(group.size for group in self.groups)


@dataclass(frozen=True, slots=True)
class GroupDone:
    """What became of a group."""

    staged: str | None
    """The directory that its `.cleaned` segment is in; None if the group stays."""
    stats: RewriteStats
    overflow: str | None = None
    """Why it could not be written: its offsets reach too far. Those after it were not looked at then."""


@dataclass(frozen=True, slots=True)
class RewriteWork:
    """Rewrites groups by the map of a round."""

    staging: str
    keys: str
    rules: GroupRules

    def __call__(self, number: int, split: RewriteSplit) -> list[GroupDone]:
        """Rewrite group after group."""
        staged = own_name(self.staging, number)
        staged.mkdir()
        source, target = Directory(split.directory), Directory(staged)
        keys = FrozenMap(map_private(self.keys))
        done: list[GroupDone] = []
        for group in split.groups:
            segments = [one.open(source) for one in group.segments]
            transactions = CleanedTransactions(_aborted(group.segments), group.met)
            try:
                made = rewrite_group(segments, keys, self.rules, transactions, into=target)
            except IndexOffsetOverflowError as error:
                done.append(GroupDone(None, RewriteStats(), str(error)))
                break
            done.append(GroupDone(None if made.cleaned is None else str(staged), made.stats))
        return done
