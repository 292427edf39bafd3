"""One partition's directory: its segments, and the files that tell about all of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from tidelog.errors import InvalidInputError
from tidelog.layout.partitions import list_partition as list_files
from tidelog.layout.roots import Checkpoint, Skipped, read_checkpoint
from tidelog.log.producers.snapshots import decode_snapshot
from tidelog.manager.verification.findings import UNREADABLE, Finding, Kind, told
from tidelog.manager.verification.segment import CheckedSegment, SegmentPlace, verify_segment
from tidelog.storage import FileSystem, read_epoch_checkpoint, read_file
from tidelog.storage.files import FileStat
from tidelog.storage.metadata import read_partition_metadata
from tidelog.storage.names import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    format_segment_file,
    parse_partition_directory,
)

__all__ = [
    "PartitionFacts",
    "PartitionFiles",
    "SegmentPlace",
    "SegmentSummary",
    "conclude_partition",
    "end_of_log",
    "list_partition",
    "verify_partition",
    "verify_settled",
]

_TRIES = 3
"""Checks of what looks damaged while its files change."""


@dataclass(slots=True)
class PartitionFacts:
    """What a partition holds, and what was found."""

    path: str
    segments: int = 0
    size_bytes: int = 0
    start_offset: int = 0
    end_offset: int = 0
    """Behind the last sound batch of the last segment that has one."""
    findings: list[Finding] = field(default_factory=list)
    topic_id: uuid.UUID | None = None
    """What `partition.metadata` says."""

    @property
    def is_damaged(self) -> bool:
        """Whether something was found that is more than a note."""
        return any(finding.kind is Kind.DAMAGE for finding in self.findings)


@dataclass(slots=True)
class PartitionFiles:
    """What a partition's directory lists, and what that alone tells."""

    path: str
    names: Sequence[str]
    segments: list[SegmentPlace] = field(default_factory=list)
    snapshots: list[tuple[int, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """What the check of a segment comes to."""

    size: int
    next_offset: int
    epochs: Mapping[int, int]
    """The first offset of each leader epoch in it."""
    findings: Sequence[Finding] = ()

    @classmethod
    def of(cls, facts: CheckedSegment) -> SegmentSummary:
        """What a whole segment's facts come to."""
        return cls(facts.size, facts.next_offset, facts.epoch_starts, facts.findings)


def verify_partition(
    fs: FileSystem,
    path: str,
    *,
    deep: bool = False,
    advance: Callable[[int], None] = lambda size: None,
) -> PartitionFacts:
    """Check a partition's directory; `advance` hears of the bytes of log files as they are done.

    What changes meanwhile is checked again, see `verify_settled`.
    """
    return verify_settled(fs, [path], lambda paths: [_verify_once(fs, one, deep, advance) for one in paths])[
        path
    ]


def verify_settled(
    fs: FileSystem, paths: Sequence[str], verify: Callable[[Sequence[str]], Sequence[PartitionFacts]]
) -> dict[str, PartitionFacts]:
    """Have partitions checked by `verify`, which answers in the order of its paths.

    Where something looks damaged, and files have changed meanwhile, it is checked again: somebody may have
    replaced or deleted what was being looked at. Real damage is still there. A partition that was deleted
    itself is not damaged.
    """
    before = {path: _state(fs, path) for path in paths}
    found = dict(zip(paths, verify(paths), strict=True))
    for _ in range(_TRIES):
        after = {path: _state(fs, path) for path, facts in found.items() if facts.is_damaged}
        changed = [path for path, state in after.items() if state != before[path]]
        if not changed:
            break
        before |= after
        found |= zip(changed, verify(changed), strict=True)
    for path, facts in found.items():
        if facts.is_damaged and not fs.exists(path):
            gone = Finding(Kind.NOTE, path, "it was deleted while it was checked")
            found[path] = PartitionFacts(path, findings=[gone])
    return found


def end_of_log(fs: FileSystem, path: str) -> int:
    """Where a partition's log ends now: behind the last sound batch of its last segment."""
    segments = list_partition(fs, path).segments
    return SegmentSummary.of(verify_segment(fs, segments[-1])).next_offset if segments else 0


def _state(fs: FileSystem, path: str) -> dict[str, FileStat]:
    """What tells whether the files of a partition have changed."""
    found = {}
    with suppress(OSError):
        for entry in fs.list(path):
            with suppress(OSError):
                found[entry.name] = fs.stat(f"{path}/{entry.name}")
    return found


def _verify_once(fs: FileSystem, path: str, deep: bool, advance: Callable[[int], None]) -> PartitionFacts:
    files = list_partition(fs, path)
    summaries = []
    for place in files.segments:
        summaries.append(SegmentSummary.of(verify_segment(fs, place, deep=deep)))
        advance(place.size)
    return conclude_partition(fs, files, summaries)


def list_partition(fs: FileSystem, path: str) -> PartitionFiles:
    """Look at the names in a partition's directory."""
    try:
        listed = list_files(fs, path)
    except OSError as error:
        return PartitionFiles(path, (), findings=[Finding(Kind.DAMAGE, path, told(error))])
    found = PartitionFiles(path, listed.names)
    for name in listed.misplaced:
        cause = "it is a directory, not a file: move it away"
        found.findings.append(Finding(Kind.DAMAGE, f"{path}/{name}", cause))
    for name, file in listed.transient.items():
        cause = f"left by a crash or on its way out ({file.transient.value}); the next opening handles it"
        found.findings.append(Finding(Kind.NOTE, f"{path}/{name}", cause))
    for offset in listed.snapshots:
        found.snapshots.append((offset, format_segment_file(offset, FileKind.SNAPSHOT)))
    for base in listed.orphans:
        found.findings.append(
            Finding(
                Kind.NOTE, f"{path}/{base:020d}.*", "index files without a log; the next opening removes them"
            )
        )
    if not listed.segments:
        cause = "it has no segment: the next opening begins a new one"
        found.findings.append(Finding(Kind.NOTE, path, cause))
    following: list[int | None] = [*(one.base_offset for one in listed.segments[1:]), None]
    for one, ends in zip(listed.segments, following, strict=False):
        try:
            size = fs.stat(f"{path}/{one.log_name}").size
        except OSError:  # checking it will tell why
            size = 0
        kinds = one.kinds - {FileKind.SNAPSHOT}
        found.segments.append(SegmentPlace(path, one.base_offset, kinds, ends, size))
    return found


def conclude_partition(
    fs: FileSystem, files: PartitionFiles, summaries: Iterable[SegmentSummary]
) -> PartitionFacts:
    """Put together what its segments came to, in order, and check the files that tell about all of them."""
    found = PartitionFacts(files.path, findings=list(files.findings))
    epochs: dict[int, int] = {}
    for summary in summaries:
        found.segments += 1
        found.size_bytes += summary.size
        found.end_offset = max(found.end_offset, summary.next_offset)
        found.findings += summary.findings
        for epoch, first in summary.epochs.items():
            epochs.setdefault(epoch, first)
    found.start_offset = files.segments[0].base_offset if files.segments else 0
    found.findings += _snapshots(fs, files.path, files.snapshots)
    found.findings += _epochs(fs, files.path, files.names, epochs, found.end_offset)
    found.topic_id, findings = _metadata(fs, files.path, files.names)
    found.findings += findings
    return found


def _snapshots(fs: FileSystem, path: str, snapshots: Sequence[tuple[int, str]]) -> Iterator[Finding]:
    for offset, name in snapshots:
        file = f"{path}/{name}"
        try:
            decode_snapshot(read_file(fs, file), file)
        except UNREADABLE as error:
            yield Finding(Kind.DAMAGE, file, told(error), offset=offset)


def _epochs(
    fs: FileSystem, path: str, names: Sequence[str], written: dict[int, int], end: int
) -> Iterator[Finding]:
    file = f"{path}/{LEADER_EPOCH_FILE}"
    known = {epoch: first for epoch, first in written.items() if epoch >= 0}
    if LEADER_EPOCH_FILE not in names:
        if known := _from_log_start(fs, path, known, end):
            yield Finding(Kind.DAMAGE, file, f"it is missing, but the log has the epochs {sorted(known)}")
        return
    try:
        entries = read_epoch_checkpoint(fs, file)
    except UNREADABLE as error:
        yield Finding(Kind.DAMAGE, file, told(error))
        return
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            yield Finding(Kind.DAMAGE, file, f"{after} follows {before}", offset=after.start_offset)
    starts = {entry.epoch: entry.start_offset for entry in entries}
    if not known.keys() <= starts.keys():
        known = _from_log_start(fs, path, known, end)
    for epoch, first in sorted(known.items()):
        if epoch not in starts:
            yield Finding(
                Kind.DAMAGE, file, f"epoch {epoch} is missing; its first batch is there", offset=first
            )
        elif starts[epoch] > first and epoch != min(starts):
            # The oldest entry moves up with the log start, inside the epoch.
            cause = f"epoch {epoch} begins at {starts[epoch]}, but a batch of it is before that"
            yield Finding(Kind.DAMAGE, file, cause, offset=first)


def _from_log_start(fs: FileSystem, path: str, epochs: Mapping[int, int], end: int) -> dict[int, int]:
    """The epochs of the records that count: those that ended before the log start are forgotten with it."""
    root, _, name = path.rpartition("/")
    try:
        partition = parse_partition_directory(name).topic_partition
        told_elsewhere: list[Skipped] = []
        starts = read_checkpoint(fs, root, Checkpoint.LOG_STARTS, told_elsewhere.append)
        start = starts.get(partition, 0)
    except (*UNREADABLE, InvalidInputError):  # told of elsewhere
        start = 0
    ordered = sorted(epochs.items(), key=lambda item: item[1])
    ends = [first for _, first in ordered[1:]] + [end]
    return {epoch: first for (epoch, first), last in zip(ordered, ends, strict=False) if last > start}


def _metadata(fs: FileSystem, path: str, names: Sequence[str]) -> tuple[uuid.UUID | None, list[Finding]]:
    """The topic's id, and what is wrong with the file that tells it."""
    file = f"{path}/{PARTITION_METADATA_FILE}"
    if PARTITION_METADATA_FILE not in names:
        cause = "it is missing: a broker will not know the partition, and set it aside as -stray"
        return None, [Finding(Kind.NOTE, file, cause)]
    try:
        return read_partition_metadata(fs, file).topic_id, []
    except UNREADABLE as error:
        return None, [Finding(Kind.DAMAGE, file, told(error))]
