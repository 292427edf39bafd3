"""A root directory: the files that tell about its partitions, and all of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from tidelog.errors import InvalidIndexError, InvalidInputError, TidelogError
from tidelog.manager.metadata.files import METADATA_DIRECTORY, read_cluster_metadata
from tidelog.manager.verification.findings import Finding, Kind
from tidelog.manager.verification.partition import PartitionFacts, verify_partition
from tidelog.storage import FileSystem, read_offset_checkpoint
from tidelog.storage.metadata import read_meta_properties
from tidelog.storage.names import META_PROPERTIES_FILE, DirectoryState, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["partition_directories", "verify_root", "verify_root_files"]

_CHECKPOINTS = {
    "recovery-point-offset-checkpoint": "recovery point",
    "log-start-offset-checkpoint": "log start",
    "replication-offset-checkpoint": "high watermark",
    "cleaner-offset-checkpoint": "cleaner's offset",
}
_KAFKAS_OWN = frozenset({"remote-log-index-cache"})


def partition_directories(fs: FileSystem, root: str) -> tuple[dict[str, TopicPartition], list[Finding]]:
    """The live partitions' directories by name, and what else there is.

    InvalidInputError where there is no partition, and nothing that says that this is a root: all would be
    well with any directory otherwise.
    """
    found, findings = {}, []
    for entry in sorted(fs.list(root)):
        if not entry.is_directory or entry.name in _KAFKAS_OWN:
            continue
        path = f"{root}/{entry.name}"
        try:
            parsed = parse_partition_directory(entry.name)
        except InvalidInputError as error:
            findings.append(Finding(Kind.NOTE, path, str(error)))
            continue
        if parsed.state is DirectoryState.LIVE:
            found[entry.name] = parsed.topic_partition
        else:
            state = parsed.state.value.lstrip("-")
            cause = f"a {state} directory of {parsed.topic_partition}; it was not checked"
            findings.append(Finding(Kind.NOTE, path, cause))
    if not found and not fs.exists(f"{root}/{META_PROPERTIES_FILE}"):
        raise InvalidInputError(
            f"{root} is neither a partition's directory, <topic>-<partition>, nor a root that holds any"
        )
    return found, findings


def verify_root(
    fs: FileSystem,
    root: str,
    *,
    deep: bool = False,
    advance: Callable[[int], None] = lambda size: None,
) -> Iterator[Finding]:
    """Check a root and all in it; findings come as they are made."""
    directories, findings = partition_directories(fs, root)
    yield from findings
    partitions = {}
    for name, partition in directories.items():
        facts = verify_partition(fs, f"{root}/{name}", deep=deep, advance=advance)
        partitions[partition] = facts
        yield from facts.findings
    yield from verify_root_files(fs, root, partitions)


def verify_root_files(
    fs: FileSystem, root: str, partitions: Mapping[TopicPartition, PartitionFacts]
) -> Iterator[Finding]:
    """Check what lies in the root itself, against its partitions."""
    yield from _identity(fs, f"{root}/{META_PROPERTIES_FILE}")
    for name, what in _CHECKPOINTS.items():
        yield from _checkpoint(fs, f"{root}/{name}", what, partitions)
    try:
        metadata = read_cluster_metadata(fs, root)
    except TidelogError as error:
        yield Finding(Kind.DAMAGE, f"{root}/{METADATA_DIRECTORY}", str(error))
        return
    if metadata.in_log and metadata.image.in_transaction:
        cause = "it ends inside a transaction, which the next start of a broker will abort"
        yield Finding(Kind.NOTE, f"{root}/{METADATA_DIRECTORY}", cause, offset=metadata.end_offset)


def _identity(fs: FileSystem, path: str) -> Iterator[Finding]:
    try:
        with suppress(FileNotFoundError):
            read_meta_properties(fs, path)
    except InvalidIndexError as error:
        yield Finding(Kind.DAMAGE, path, str(error))


def _checkpoint(
    fs: FileSystem, path: str, what: str, partitions: Mapping[TopicPartition, PartitionFacts]
) -> Iterator[Finding]:
    try:
        offsets = read_offset_checkpoint(fs, path)
    except InvalidIndexError as error:
        yield Finding(Kind.DAMAGE, path, str(error))
        return
    for partition, offset in offsets.items():
        facts = partitions.get(partition)
        if facts is None:
            yield Finding(Kind.NOTE, path, f"{partition} is in it, but has no directory here")
        elif offset > facts.end_offset:
            cause = f"the {what} of {partition} is {offset}, but its log ends at {facts.end_offset}"
            yield Finding(Kind.DAMAGE, path, cause, offset=facts.end_offset, end_offset=offset)
