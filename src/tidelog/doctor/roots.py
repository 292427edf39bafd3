"""A broker's disks: directories, checkpoints, journal, metadata. What stops a start is found here.

Kafka's rules, by class: `LogManager.loadLogs` (directories, checkpoints), `BrokerMetadataPublisher` (strays),
`CheckpointFileWithFailureHandler` (a checkpoint that cannot be read takes its disk offline).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidelog.doctor.disks import (
    Broker,
    Disk,
    PartitionDirectory,
    kafka_name,
    look_at_partition,
    partitions_of,
    refuses_checkpoint,
)
from tidelog.doctor.findings import Finding, Kind, Severity
from tidelog.doctor.identity import NO_START, OFFLINE, missing_partitions
from tidelog.errors import CorruptRecordError, InvalidIndexError, TornBatchError
from tidelog.layout.roots import Checkpoint
from tidelog.manager.metadata.files import BOOTSTRAP_FILE, METADATA_DIRECTORY, read_bootstrap
from tidelog.storage import FileSystem, read_file
from tidelog.storage.local import LINK_REFUSED
from tidelog.storage.metadata import format_id
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    PARTITION_METADATA_FILE,
    DirectoryState,
    PartitionDirectoryName,
)
from tidelog.storage.write_journal import JOURNAL_FILE, read_journal
from tidelog.types import TopicPartition

__all__ = ["blocks_start", "examine_checkpoints", "examine_root", "stray_reason"]


def examine_root(fs: FileSystem, broker: Broker, disk: Disk) -> Iterator[Finding]:
    """What lies in a root itself."""
    yield from _links(disk)
    yield from _foreign(fs, broker, disk)
    yield from _marked(broker, disk)
    yield from _strays(broker, disk)
    yield from _missing(broker, disk)
    yield from _duplicates(broker, disk)
    yield from _unreadable_checkpoints(fs, disk)
    yield from _journal(fs, disk)
    yield from _metadata(fs, broker, disk)


def _links(disk: Disk) -> Iterator[Finding]:
    for entry in disk.entries:
        if entry.is_link:
            yield Finding(
                Severity.WARNING,
                Kind.LINK,
                f"{disk.path}/{entry.name}",
                LINK_REFUSED,
                "it follows the link",
                "put what the link leads to in its place: no tidelog command changes it otherwise",
            )


def _foreign(fs: FileSystem, broker: Broker, disk: Disk) -> Iterator[Finding]:
    for name in disk.foreign:
        taken = kafka_name(name)
        kafka = NO_START if taken is None else f"it takes the directory for {taken}"
        twin = None if taken is None else _taken_twice(fs, broker, f"{disk.path}/{name}", taken)
        if twin is not None:
            kafka = f"{NO_START}: it takes both this and {twin} for {taken}"
        advice = "tidelog fix moves it beside the root; or move it away"
        if name == "lost+found":
            advice = "use a directory below the mount point for log.dirs; fsck wants this one to stay"
        yield Finding(
            Severity.FATAL if taken is None or twin is not None else Severity.WARNING,
            Kind.FOREIGN,
            f"{disk.path}/{name}",
            "a directory that is not <topic>-<partition>",
            kafka,
            advice,
        )


def _taken_twice(fs: FileSystem, broker: Broker, path: str, partition: TopicPartition) -> str | None:
    """Another directory that Kafka loads as the same partition, if it loads the one at `path`; its path."""
    loaded = [
        one.path for one in partitions_of(broker.disks).get(partition, ()) if not stray_reason(broker, one)
    ]
    for disk in broker.disks:
        for name in disk.foreign:
            one = look_at_partition(fs, disk.path, name, PartitionDirectoryName(partition))
            marked = name.endswith(("-delete", "-future", "-stray"))
            if kafka_name(name) == partition and not marked and stray_reason(broker, one) is None:
                loaded.append(one.path)
    return next((one for one in loaded if one != path), None) if path in loaded else None


def blocks_start(broker: Broker, one: PartitionDirectory) -> bool:
    """Whether a -future directory lies beside the live one, where the metadata wants the partition.

    Kafka takes the move for finished then, and fails to give the directory the name of the live one.
    """
    disk = next((each for each in broker.disks if one in each.directories), None)
    if one.parsed.state is not DirectoryState.FUTURE or disk is None:
        return False
    return any(each.partition == one.partition and stray_reason(broker, each) is None for each in disk.live)


def _marked(broker: Broker, disk: Disk) -> Iterator[Finding]:
    said = {
        DirectoryState.DELETE: (
            Severity.NOTE,
            "a partition that was being deleted",
            "it deletes the directory a minute after its start (file.delete.delay.ms)",
            "nothing; to save it, move the directory away before the start",
        ),
        DirectoryState.STRAY: (
            Severity.WARNING,
            "a partition that belonged to no topic at an earlier start",
            "it loads it, and leaves it alone",
            "tidelog unstray gives it its name back; else delete it when you no longer need it",
        ),
        DirectoryState.FUTURE: (
            Severity.WARNING,
            "a copy that a move between disks was filling",
            "it goes on with the move if the partition is its own; else it renames it to -stray",
            "nothing; or delete it to give the move up",
        ),
    }
    for one in disk.directories:
        if blocks_start(broker, one):
            yield Finding(
                Severity.FATAL,
                Kind.MARKED,
                one.path,
                "a copy that a move between disks was filling, on the disk that has the partition",
                f"it fails to rename it to {one.partition}; {OFFLINE}",
                "tidelog fix renames it to -stray",
            )
        elif one.parsed.state in said:
            severity, cause, kafka, advice = said[one.parsed.state]
            yield Finding(severity, Kind.MARKED, one.path, cause, kafka, advice)


def stray_reason(broker: Broker, one: PartitionDirectory) -> str | None:
    """Why a broker renames a live directory to -stray; None if it does not, or nobody can say."""
    if one.partition.topic == CLUSTER_METADATA_TOPIC or not broker.knows_topics or one.fault is not None:
        return None
    if one.topic_id is None:
        return "it has no partition.metadata, so that its topic id is not known"
    topic = broker.topic_by_id(one.topic_id)
    if topic is None or one.partition.partition not in topic.partitions:
        known = broker.image.topics.get(one.partition.topic)
        if known is not None and known.topic_id != one.topic_id:
            return (
                f"it is of topic {format_id(one.topic_id)}, but {one.partition.topic} is "
                f"{format_id(known.topic_id)}: the topic was deleted and created again"
            )
        return f"the metadata has no topic {format_id(one.topic_id)} with this partition"
    replicas = topic.partitions[one.partition.partition].replicas
    if broker.node_id is not None and broker.node_id not in replicas:
        return f"its replicas are on nodes {list(replicas)}, not on node {broker.node_id}"
    return None


def _strays(broker: Broker, disk: Disk) -> Iterator[Finding]:
    if not broker.knows_topics and disk.live and broker.metadata_fault is None:
        yield Finding(
            Severity.WARNING,
            Kind.METADATA,
            disk.path,
            "no metadata that knows topics is here",
            "it renames to -stray what its metadata does not know",
            "name all disks of the broker; the one with __cluster_metadata-0 tells",
        )
    for one in disk.live:
        file = f"{one.path}/{PARTITION_METADATA_FILE}"
        if one.fault is not None:
            yield Finding(
                Severity.FATAL,
                Kind.TOPIC_ID,
                file,
                f"it cannot be read: {one.fault}",
                OFFLINE,
                "tidelog fix writes it anew with the topic id of the metadata",
            )
            continue
        reason = stray_reason(broker, one)
        if reason is None:
            continue
        known = broker.image.has(one.partition)
        mends = known and one.topic_id is None
        yield Finding(
            Severity.LOSS if known or one.topic_id is not None else Severity.WARNING,
            Kind.TOPIC_ID if mends else Kind.STRAY,
            file if mends else one.path,
            reason,
            "it renames the directory to -stray and does not serve it"
            + ("; the partition begins anew, empty" if known else ""),
            "tidelog fix writes the metadata's topic id"
            if mends
            else "tidelog fix renames it, as a broker does; tidelog unstray reverts that",
        )


def _missing(broker: Broker, disk: Disk) -> Iterator[Finding]:
    missing = missing_partitions(broker, disk)
    if missing:
        told = ", ".join(map(str, missing[:3]))
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        yield Finding(
            Severity.WARNING,
            Kind.MISSING,
            disk.path,
            f"the metadata assigns {told}{more} to this disk; no directory is there",
            "it makes them anew, empty",
            "restore them before the start, if their records are still wanted",
        )


def _duplicates(broker: Broker, disk: Disk) -> Iterator[Finding]:
    for partition, found in partitions_of(broker.disks).items():
        loaded = [one for one in found if stray_reason(broker, one) is None]
        if len(loaded) < 2 or partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        for one in loaded:
            if one in disk.directories:
                others = ", ".join(each.path for each in loaded if each is not one)
                yield Finding(
                    Severity.FATAL,
                    Kind.DUPLICATE,
                    one.path,
                    f"{partition} is also in {others}",
                    f"{NO_START}: it finds the partition twice",
                    "tidelog fix renames to -stray the one that the metadata does not assign to its disk",
                )


class _AtKafka(NamedTuple):
    """What a broker makes of a checkpoint."""

    unreadable: str
    """Of a file that it cannot read."""
    past_end: str
    """Of an offset past the log end."""
    severity: Severity
    """How bad such an offset is."""


_EMPTY, _FAILS = "it takes the file as empty", "it fails where it needs the file"
_AT_KAFKA = {
    Checkpoint.RECOVERY_POINTS: _AtKafka(_EMPTY, "it lowers it to the log end", Severity.WARNING),
    Checkpoint.LOG_STARTS: _AtKafka(_EMPTY, "it deletes all segments of the partition", Severity.LOSS),
    Checkpoint.HIGH_WATERMARKS: _AtKafka(
        _FAILS, "it lowers it to the log end: records that were replicated are gone", Severity.WARNING
    ),
    Checkpoint.CLEANED: _AtKafka(_FAILS, "it resets it to the log start", Severity.NOTE),
}


def _unreadable_checkpoints(fs: FileSystem, disk: Disk) -> Iterator[Finding]:
    for kind, fault in disk.faults.items():
        path = f"{disk.path}/{kind.value}"
        answer = refuses_checkpoint(fs, path, 3)
        takes = "it takes the file as it is, and corrects the offsets" if answer is None else None
        yield Finding(
            Severity.FATAL if answer == "offline" else Severity.DAMAGE,
            Kind.CHECKPOINT,
            path,
            f"it cannot be read: {fault}",
            OFFLINE if answer == "offline" else takes or _AT_KAFKA[kind].unreadable,
            "tidelog fix writes it anew from what can be read of it",
        )


def examine_checkpoints(disk: Disk, ends: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Finding]:
    """Compare checkpoints with the logs: first offset and end of each partition."""
    for kind, offsets in disk.checkpoints.items():
        at_kafka = _AT_KAFKA[kind]
        path = f"{disk.path}/{kind.value}"
        here = {one.partition for one in disk.directories}
        absent = [str(partition) for partition in offsets if partition not in here]
        if absent:
            yield Finding(
                Severity.NOTE,
                Kind.CHECKPOINT,
                path,
                f"it has lines of {len(absent)} partitions without a directory here, such as {absent[0]}",
                "it ignores the lines, and does not write them again",
                "nothing",
            )
        for partition, offset in offsets.items():
            known = ends.get(partition)
            if known is not None and offset > known[1]:
                yield Finding(
                    at_kafka.severity,
                    Kind.CHECKPOINT,
                    path,
                    f"the {kind.label} of {partition} is {offset}, but its log ends at {known[1]}",
                    at_kafka.past_end,
                    "tidelog fix lowers it",
                    None,
                    known[1],
                    offset,
                )


def _journal(fs: FileSystem, disk: Disk) -> Iterator[Finding]:
    path = f"{disk.path}/{JOURNAL_FILE}"
    try:
        pending = read_journal(fs, disk.path).pending
    except (OSError, InvalidIndexError) as error:
        yield Finding(
            Severity.DAMAGE,
            Kind.JOURNAL,
            path,
            f"tidelog's journal of bulk writes cannot be read: {error}",
            "it ignores the file",
            "tidelog fix moves it away; a write that was cut short then stays as it is",
        )
        return
    if pending is not None:
        yield Finding(
            Severity.WARNING,
            Kind.JOURNAL,
            path,
            "a bulk write was cut short while it was being published",
            "it ignores the journal, and serves what is there of the write",
            "open the root with tidelog once before the start: that finishes the write or takes it back",
        )


_QUORUM_STATE: Mapping[int, Mapping[str, type | tuple[type, ...]]] = {
    0: {
        "clusterId": str,
        "leaderId": int,
        "leaderEpoch": int,
        "votedId": int,
        "appliedOffset": int,
        "currentVoters": (list, type(None)),
    },
    1: {"leaderId": int, "leaderEpoch": int, "votedId": int, "votedDirectoryId": str},
}
"""What a quorum-state file must have, by its data_version."""


def _quorum_fault(fs: FileSystem, path: str) -> str | None:
    """Why a broker cannot read a quorum-state file, of which it takes the first line; None if it can."""
    try:
        lines = read_file(fs, path).splitlines()
        found = json.loads(lines[0]) if lines else None
    except (OSError, ValueError, RecursionError, InvalidIndexError) as error:
        return str(error)
    if not isinstance(found, dict):
        return "it is no JSON object"
    version = found.get("data_version")
    wanted = _QUORUM_STATE.get(version) if type(version) is int else None
    if wanted is None:
        return f"its data_version is {version}, and only 0 and 1 are known"
    wrong = [key for key, kind in wanted.items() if key not in found or not isinstance(found[key], kind)]
    return f"it has no {wrong[0]}" if wrong else None


def _bootstrap(fs: FileSystem, broker: Broker, disk: Disk) -> Iterator[Finding]:
    try:
        read_bootstrap(fs, disk.path)
    except TornBatchError as error:
        yield Finding(
            Severity.WARNING if disk.has_metadata_log or disk is not broker.home else Severity.FATAL,
            Kind.METADATA,
            f"{disk.path}/{BOOTSTRAP_FILE}",
            str(error),
            "it reads what is there, and uses it only if there is no metadata log",
            "nothing, if there is a metadata log; else restore it",
        )
    except (OSError, CorruptRecordError, InvalidIndexError) as error:
        yield Finding(
            Severity.FATAL,
            Kind.METADATA,
            f"{disk.path}/{BOOTSTRAP_FILE}",
            f"it cannot be read: {error}",
            NO_START if disk is broker.home else "it does not read the file on this disk",
            "tidelog fix moves it away if the metadata log makes it superfluous; else restore it",
        )


def _metadata(fs: FileSystem, broker: Broker, disk: Disk) -> Iterator[Finding]:
    directory = f"{disk.path}/{METADATA_DIRECTORY}"
    if disk.has_metadata_log and disk is not broker.home:
        yield Finding(
            Severity.FATAL,
            Kind.METADATA,
            directory,
            "another disk has a metadata log, too",
            NO_START,
            "name only the disks of one broker; the metadata log is on the first, or in metadata.log.dir",
        )
    yield from _bootstrap(fs, broker, disk)
    if disk is not broker.home:
        return
    if broker.metadata_fault is not None and disk.has_metadata_log:
        yield Finding(
            Severity.FATAL,
            Kind.METADATA,
            directory,
            f"the metadata cannot be read: {broker.metadata_fault}",
            NO_START,
            "restore the snapshot from another controller; tidelog cat and salvage do without it",
        )
    metadata = broker.metadata
    if metadata is not None and metadata.in_log and metadata.image.in_transaction:
        yield Finding(
            Severity.NOTE,
            Kind.METADATA,
            directory,
            "it ends inside a transaction",
            "it aborts the transaction",
            "nothing",
            None,
            metadata.end_offset,
        )
    quorum = f"{directory}/quorum-state"
    if fs.exists(quorum):
        fault = _quorum_fault(fs, quorum)
        if fault is not None:
            yield Finding(
                Severity.FATAL,
                Kind.METADATA,
                quorum,
                f"it cannot be read: {fault}",
                NO_START,
                "tidelog fix moves it away: a node that votes alone writes a new one",
            )
