"""The files that hold metadata records.

    <root>/bootstrap.checkpoint              what a broker starts its metadata log with, if that is empty
    <root>/__cluster_metadata-0/             the metadata log, a partition like any other, and in it
        <offset, 20 digits>-<epoch, 10 digits>.checkpoint      snapshots: the state just before that offset

A snapshot, and so `bootstrap.checkpoint`, is a run of batches with offsets from 0: a control batch with the
snapshot's header, batches of records, a control batch with its footer. Without footer it is unfinished.

The state of a root is its newest snapshot and the log's records from there on; where they know of no
`metadata.version`, the log counts as empty and `bootstrap.checkpoint` is the state, as it is for a broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.errors import CorruptRecordError, InvalidIndexError, LogError, TornBatchError
from tidelog.layout.partitions import PartitionFiles, list_partition
from tidelog.layout.roots import warn_once
from tidelog.manager.metadata.image import MetadataImage
from tidelog.protocol.control_records import KRaftVoters, SnapshotFooter, SnapshotHeader
from tidelog.protocol.metadata_records import MetadataRecord, format_record, parse_record
from tidelog.records import (
    Record,
    StoredRecord,
    decode_records,
    encode_kraft_control,
    encode_records,
    parse_control,
)
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = [
    "BOOTSTRAP_FILE",
    "METADATA_DIRECTORY",
    "METADATA_VERSION",
    "ClusterMetadata",
    "encode_records_batch",
    "encode_snapshot",
    "home_of_metadata",
    "look_at_metadata",
    "read_bootstrap",
    "read_cluster_metadata",
    "read_snapshot",
    "write_bootstrap",
]

BOOTSTRAP_FILE = "bootstrap.checkpoint"
METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"
METADATA_VERSION = "metadata.version"
"""The feature without which a metadata log counts as empty."""

_MAX_BATCH_BYTES = 8 << 20
_TRIES = 10
"""Looks at files that change with every look."""
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What a root's metadata files say."""

    image: MetadataImage
    in_log: bool
    """Whether the metadata log says it; else it is `bootstrap.checkpoint`, and may be replaced."""
    end_offset: int = 0
    leader_epoch: int = 0
    """Where the log ends, and the epoch of its last batch (of its snapshot, if nothing follows)."""
    fault: CorruptRecordError | None = None
    """What the log was not read beyond."""
    voters: tuple[int, ...] = ()
    """Who votes, where the log itself says so (KRaft version 1)."""


def encode_records_batch(
    records: Iterable[MetadataRecord], *, base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """Metadata records as batches, one unless they are larger than a broker's largest."""
    values = (Record(format_record(record), timestamp=timestamp_ms) for record in records)
    return encode_records(
        values, base_offset=base_offset, leader_epoch=leader_epoch, max_batch_bytes=_MAX_BATCH_BYTES
    )


def encode_snapshot(
    records: Sequence[MetadataRecord],
    *,
    timestamp_ms: int,
    last_contained_log_timestamp_ms: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """A whole snapshot file."""
    header, footer = SnapshotHeader(last_contained_log_timestamp_ms), SnapshotFooter()
    end = 1 + len(records)
    return b"".join(
        (
            encode_kraft_control(header, timestamp=timestamp_ms, leader_epoch=leader_epoch),
            encode_records_batch(
                records, base_offset=1, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms
            ),
            encode_kraft_control(footer, timestamp=timestamp_ms, leader_epoch=leader_epoch, base_offset=end),
        )
    )


def read_snapshot(data: bytes | memoryview, source: str) -> list[MetadataRecord]:
    """The records of a snapshot file; CorruptRecordError if it is damaged or unfinished."""
    records, finished = [], False
    for stored in decode_records(data, source=source):
        if stored.control:
            finished |= isinstance(parse_control(stored.key, stored.value), SnapshotFooter)
        else:
            records.append(parse_record(stored.value))
    if not finished:
        raise TornBatchError("the snapshot has no footer: it was never finished", source=source)
    return records


def write_bootstrap(
    fs: FileSystem, root: StrPath, records: Sequence[MetadataRecord], *, timestamp_ms: int
) -> None:
    """Replace a root's `bootstrap.checkpoint`, durably."""
    atomic_write(fs, f"{root}/{BOOTSTRAP_FILE}", encode_snapshot(records, timestamp_ms=timestamp_ms))


def read_bootstrap(fs: FileSystem, root: StrPath) -> list[MetadataRecord]:
    """The records of a root's `bootstrap.checkpoint`; none if there is no file."""
    path = f"{root}/{BOOTSTRAP_FILE}"
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return []
    return read_snapshot(data, path)


def home_of_metadata(fs: FileSystem, roots: Sequence[str]) -> str:
    """Of one node's roots, the one whose metadata counts.

    That is the one with the metadata log; else one whose `bootstrap.checkpoint` knows topics, or is there at
    all (a broker formats each of its disks with one); else the first.
    """
    logs = [root for root in roots if fs.exists(f"{root}/{METADATA_DIRECTORY}")]
    if len(logs) > 1:
        raise LogError(f"{' and '.join(logs)} both have a metadata log: they do not belong to one node")
    if len(roots) == 1:
        return roots[0]
    booted = [root for root in roots if fs.exists(f"{root}/{BOOTSTRAP_FILE}")]
    knowing = [root for root in booted if _said(fs, root, _from_bootstrap).image.topics]
    return (logs or knowing or booted or list(roots))[0]


def read_cluster_metadata(fs: FileSystem, root: StrPath) -> ClusterMetadata:
    """What a root's metadata files say; nothing is changed.

    The log is read up to its first damage (`fault`): a broker cuts it there, wherever that is. LogError where
    a snapshot or `bootstrap.checkpoint` cannot be read.
    """
    return _said(fs, str(root), _from_files)


def look_at_metadata(fs: FileSystem, root: StrPath) -> ClusterMetadata:
    """As `read_cluster_metadata`, but nothing, with a warning, where it cannot be read.

    For what does not depend on it: to read, to recover, to rebuild indexes. Nothing may be deleted by it.
    """
    try:
        return read_cluster_metadata(fs, root)
    except (LogError, OSError) as error:
        warn_once(f"{error}. Topics are taken to have the default configs")
        return ClusterMetadata(MetadataImage(), in_log=False)


_UNREADABLE = (
    CorruptRecordError,
    InvalidIndexError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


def _said(fs: FileSystem, root: str, read: Callable[[FileSystem, str], ClusterMetadata]) -> ClusterMetadata:
    try:
        return read(fs, root)
    except _UNREADABLE as error:
        raise LogError(
            f"the metadata of {root} cannot be read, so that nobody can say which topics there are and how "
            f"they are configured: {error}. Restore the file from a copy; `tidelog cat` and `tidelog "
            "recover` do without it"
        ) from error


def _from_files(fs: FileSystem, root: str) -> ClusterMetadata:
    directory = f"{root}/{METADATA_DIRECTORY}"
    logged = _read_log(fs, directory) if fs.exists(directory) else None
    if logged is not None and METADATA_VERSION in logged.image.features:
        return logged
    return _from_bootstrap(fs, root)


def _from_bootstrap(fs: FileSystem, root: str) -> ClusterMetadata:
    return ClusterMetadata(MetadataImage.of(read_bootstrap(fs, root)), in_log=False)


def _read_log(fs: FileSystem, directory: str) -> ClusterMetadata:
    """Read the metadata log; again where a broker has removed what a new snapshot holds meanwhile."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError, _GapError):
            return _read_files(fs, directory, list_partition(fs, directory))
    return _read_files(fs, directory, list_partition(fs, directory), whole=False)


class _GapError(Exception):
    """Records are missing between a snapshot and the log."""


def _read_files(
    fs: FileSystem, directory: str, files: PartitionFiles, *, whole: bool = True
) -> ClusterMetadata:
    image, end, epoch = MetadataImage(), 0, 0
    voters: tuple[int, ...] = ()
    snapshots = [match for name in files.names if (match := _SNAPSHOT.fullmatch(name))]
    if snapshots:
        newest = snapshots[-1]
        end, epoch = int(newest[1]), int(newest[2])
        path = f"{directory}/{newest[0]}"
        data = read_file(fs, path)
        image, voters = MetadataImage.of(read_snapshot(data, path)), _voters(decode_records(data), ())
    fault = None
    try:
        for stored in _log_records(fs, directory, files):
            if stored.offset > end and whole:
                raise _GapError
            if stored.offset >= end:
                end, epoch = stored.offset + 1, stored.leader_epoch
                if stored.control:
                    voters = _voters([stored], voters)
                else:
                    image.replay(parse_record(stored.value))
    except CorruptRecordError as error:
        fault = error
    return ClusterMetadata(image, True, end, epoch, fault, voters)


def _voters(records: Iterable[StoredRecord], otherwise: tuple[int, ...]) -> tuple[int, ...]:
    """The voters that the last control record about them names."""
    for stored in records:
        if stored.control and isinstance(told := parse_control(stored.key, stored.value), KRaftVoters):
            otherwise = tuple(voter.id for voter in told.voters)
    return otherwise


def _log_records(fs: FileSystem, directory: str, files: PartitionFiles) -> Iterator[StoredRecord]:
    for segment in files.segments:
        path = f"{directory}/{segment.log_name}"
        yield from decode_records(read_file(fs, path), source=path)
