"""A root directory: the files that tell about its partitions, and all of these.

The partitions are checked first, which may take long; others may write meanwhile. So where a file of the root
does not fit what was found, that partition is looked at once more, after the file was read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from tidelog.errors import InvalidInputError, TidelogError
from tidelog.layout.roots import Checkpoint, Skipped, read_checkpoint
from tidelog.manager.metadata.files import METADATA_DIRECTORY, read_cluster_metadata
from tidelog.manager.verification.findings import UNREADABLE, Finding, Kind, told
from tidelog.manager.verification.partition import PartitionFacts, end_of_log, verify_partition
from tidelog.storage import FileSystem
from tidelog.storage.local import LINK_REFUSED
from tidelog.storage.metadata import format_id, read_meta_properties, read_partition_metadata
from tidelog.storage.names import (
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    DirectoryState,
    parse_partition_directory,
)
from tidelog.storage.write_journal import JOURNAL_FILE, read_journal
from tidelog.types import TopicPartition

__all__ = ["partition_directories", "verify_root", "verify_root_files"]

_KAFKAS_OWN = frozenset({"remote-log-index-cache"})


def partition_directories(fs: FileSystem, root: str) -> tuple[dict[str, TopicPartition], list[Finding]]:
    """The live partitions' directories by name, and what else there is.

    InvalidInputError if there is no partition, and nothing that says that this is a root: all would be well
    with any directory otherwise.
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
        if entry.is_link:
            findings.append(Finding(Kind.NOTE, path, f"{LINK_REFUSED}; it can be read"))
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
    yield from _journal(fs, root)
    for kind in Checkpoint:
        yield from _checkpoint(fs, root, kind, partitions)
    try:
        metadata = read_cluster_metadata(fs, root)
    except (OSError, TidelogError) as error:
        yield Finding(Kind.DAMAGE, f"{root}/{METADATA_DIRECTORY}", told(error))
        yield from _topic_ids(fs, partitions, {})
        return
    registered = {name: topic.topic_id for name, topic in metadata.image.topics.items()}
    yield from _topic_ids(fs, partitions, registered)
    if metadata.in_log and metadata.image.in_transaction:
        cause = "it ends inside a transaction, which the next start of a broker will abort"
        yield Finding(Kind.NOTE, f"{root}/{METADATA_DIRECTORY}", cause, offset=metadata.end_offset)


def _journal(fs: FileSystem, root: str) -> Iterator[Finding]:
    path = f"{root}/{JOURNAL_FILE}"
    try:
        pending = read_journal(fs, root).pending
    except UNREADABLE as error:
        yield Finding(Kind.DAMAGE, path, told(error))
        return
    if pending is not None:
        yield Finding(Kind.NOTE, path, "a write was cut short; the next opening finishes it or takes it back")


def _topic_ids(
    fs: FileSystem,
    partitions: Mapping[TopicPartition, PartitionFacts],
    registered: Mapping[str, uuid.UUID],
) -> Iterator[Finding]:
    """Partitions that say that they are another topic's than the metadata, or the topic's others, say."""
    strangers = _strangers({name: facts.topic_id for name, facts in partitions.items()}, registered)
    topics = {name.topic for name in strangers}
    again = {name: _topic_id(fs, facts.path) for name, facts in partitions.items() if name.topic in topics}
    for name, (found, wanted) in _strangers(again, registered).items():
        by = "the metadata" if name.topic in registered else "another of its partitions"
        cause = f"it is of topic {format_id(found)}, but {name.topic} is {format_id(wanted)} to {by}"
        yield Finding(Kind.DAMAGE, f"{partitions[name].path}/{PARTITION_METADATA_FILE}", cause)


def _strangers(
    ids: Mapping[TopicPartition, uuid.UUID | None], registered: Mapping[str, uuid.UUID]
) -> dict[TopicPartition, tuple[uuid.UUID, uuid.UUID]]:
    """The partitions whose id is not their topic's: theirs, and that of the topic."""
    known, found = dict(registered), {}
    for name, topic_id in ids.items():
        if topic_id is not None and (wanted := known.setdefault(name.topic, topic_id)) != topic_id:
            found[name] = topic_id, wanted
    return found


def _topic_id(fs: FileSystem, path: str) -> uuid.UUID | None:
    """The id that a partition has now."""
    try:
        return read_partition_metadata(fs, f"{path}/{PARTITION_METADATA_FILE}").topic_id
    except UNREADABLE:  # told of elsewhere, or just deleted
        return None


def _identity(fs: FileSystem, path: str) -> Iterator[Finding]:
    try:
        with suppress(FileNotFoundError):
            read_meta_properties(fs, path)
    except UNREADABLE as error:
        yield Finding(Kind.DAMAGE, path, told(error))


def _checkpoint(
    fs: FileSystem,
    root: str,
    kind: Checkpoint,
    partitions: Mapping[TopicPartition, PartitionFacts],
) -> Iterator[Finding]:
    path = f"{root}/{kind.value}"
    unreadable: list[Skipped] = []
    try:
        offsets = read_checkpoint(fs, root, kind, unreadable.append)
    except UNREADABLE as error:
        yield Finding(Kind.DAMAGE, path, told(error))
        return
    yield from (Finding(Kind.DAMAGE, one.path, one.reason) for one in unreadable)
    for partition, offset in offsets.items():
        facts = partitions.get(partition)
        if facts is None:
            yield Finding(Kind.NOTE, path, f"{partition} is in it, but has no directory here")
            continue
        end = facts.end_offset if offset <= facts.end_offset else end_of_log(fs, facts.path)
        if offset > end and fs.exists(facts.path):  # else it was deleted in the meantime
            cause = f"the {kind.label} of {partition} is {offset}, but its log ends at {end}"
            yield Finding(Kind.DAMAGE, path, cause, offset=end, end_offset=offset)
