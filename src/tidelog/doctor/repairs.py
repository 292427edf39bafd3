"""Which repairs the findings of an examination call for: a plan, nothing is changed.

    identity       meta.properties, where another disk of the broker tells the ids
    directories    foreign ones go beside the root; strays and second copies get Kafka's own -stray name
    topic ids      partition.metadata, where the metadata knows the partition
    partitions     logs, indexes, snapshots, epochs, leftovers (`mending`)
    checkpoints    unreadable ones from what can be read; offsets past a log's end are lowered
    permissions    the owner may read and write again
    others         an unreadable journal, quorum-state or bootstrap.checkpoint goes aside

What a broker does by itself without loss (a `-delete` directory, an epoch that begins at the log end) is no
repair. What nobody here can decide is a step without actions, with advice.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidelog.doctor.changes import Change, ChangeKind
from tidelog.doctor.disks import Broker, Disk, PartitionDirectory, kafka_name, partitions_of
from tidelog.doctor.examining import Examination, start_of
from tidelog.doctor.findings import Finding, Kind, Severity
from tidelog.doctor.forecast import Start
from tidelog.doctor.identity import lost_id
from tidelog.doctor.mending import Mended, mend_partition
from tidelog.doctor.misnamed import examine_names
from tidelog.doctor.moments import at_one_moment
from tidelog.doctor.permissions import broker_user, forbidden
from tidelog.doctor.plans import Act, Action, Plan, Step
from tidelog.doctor.quarantine import QUARANTINE
from tidelog.doctor.roots import blocks_start, stray_reason
from tidelog.layout.roots import Checkpoint
from tidelog.manager.metadata.files import BOOTSTRAP_FILE, METADATA_DIRECTORY
from tidelog.manager.verification import verify_partition
from tidelog.storage import FileSystem, read_file
from tidelog.storage.attributes import read_attributes, user_name
from tidelog.storage.checkpoints import format_offsets
from tidelog.storage.files import parent
from tidelog.storage.local import LINK_REFUSED
from tidelog.storage.metadata import (
    MetaProperties,
    format_id,
    format_meta_properties,
    format_partition_metadata,
)
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    DirectoryState,
    format_partition_directory,
)
from tidelog.storage.write_journal import JOURNAL_FILE
from tidelog.types import TopicPartition

__all__ = ["plan_repairs"]

_PUT_BACK = "tidelog fix --undo puts the files back as they were"
_LINE = re.compile(r"(\S+)\s+(\d{1,10})\s+(\d{1,19})\s*")


def plan_repairs(fs: FileSystem, examination: Examination) -> Plan:
    """The repairs that the findings call for."""
    broker = examination.broker
    steps: list[Step] = []
    for disk in broker.disks:
        going = {one.path for one in disk.live if _leaves(broker, one)}
        blocking = {one.path for one in disk.directories if blocks_start(broker, one)}
        steps += _permissions(fs, disk)
        findings = next(one.findings for one in examination.roots if one.path == disk.path)
        steps += _identity(broker, disk, findings)
        steps += _metadata(disk, findings)
        steps += _foreign(fs, disk)
        steps += _directories(fs, broker, disk, going)
        mended: dict[TopicPartition, Mended] = {}
        for one in disk.directories:
            if one.path in examination.examined and one.path not in going | blocking:
                steps += _topic_id(broker, disk, one)
                steps += _partition(fs, examination, disk, one, mended)
        steps += _checkpoints(fs, examination, disk, mended)
        steps += _aside(fs, examination, disk)
    return Plan([disk.path for disk in broker.disks], [_possible(fs, step) for step in steps])


def _possible(fs: FileSystem, step: Step) -> Step:
    """The step, or one without actions if something stands where it would put a file: a link, a directory."""
    for action in step.actions:
        link = next((path for path in _paths(step.root, action) if fs.is_link(path)), None)
        if link is not None:
            return Step(step.root, f"{step.title}: not through a link", f"{link}: {LINK_REFUSED}", "", "")
        of_file = action.act in (Act.CUT, Act.WRITE, Act.REMOVE)
        if of_file and fs.exists(action.path) and fs.stat(action.path).is_directory:
            why = f"{action.path} is a directory, where a file should be: move it away"
            return Step(step.root, f"{step.title}: something is in the way", why, "", "")
    return step


def _paths(root: str, action: Action) -> Iterator[str]:
    """The names that an action goes by, from the root on."""
    for path in (action.path, action.target):
        while path and path.startswith(f"{root}/"):
            yield path
            path = parent(path)


def _fixed_id(fs: FileSystem, path: str) -> str:
    """An id for a new name that is the same for the same file, so that a plan can be compared."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{path}:{read_attributes(fs, path).mtime_ns}").hex


def _permissions(fs: FileSystem, disk: Disk) -> Iterator[Step]:
    user = broker_user(fs, disk.path).uid
    all_found = list(forbidden(fs, disk.path))
    found = [one for one in all_found if user in (0, one[1].uid)]
    if len(found) < len(all_found):
        path = next(path for path, was, _ in all_found if user not in (0, was.uid))
        yield Step(
            disk.path,
            f"{len(all_found) - len(found)} files and directories belong to others",
            f"the broker's user may not read and write {path}, for one: chown -R {user_name(user)} the root",
            "",
            "",
        )
    if found:
        actions = [
            Action(Act.MODE, path, mode=was.mode | (0o700 if is_directory else 0o600))
            for path, was, is_directory in found
        ]
        yield Step(
            disk.path,
            f"let the owner of {len(found)} files and directories read and write them",
            "the broker's user may not",
            "",
            "tidelog fix --undo restores the permissions",
            actions,
        )


def _identity(broker: Broker, disk: Disk, findings: Sequence[Finding]) -> Iterator[Step]:
    if disk.meta is not None:
        if any(one.kind is Kind.IDENTITY for one in findings):
            first = next(one for one in findings if one.kind is Kind.IDENTITY)
            yield Step(
                disk.path,
                "meta.properties has to be mended by hand",
                f"{first.cause}: {first.advice}",
                "",
                "",
            )
        return
    known = next((each.meta for each in broker.disks if each.meta is not None), None)
    file = f"{disk.path}/{META_PROPERTIES_FILE}"
    if known is None or known.cluster_id is None or known.node_id is None:
        yield Step(
            disk.path,
            "meta.properties cannot be written",
            "no other disk of the broker tells the ids of cluster and node: restore the file, or format the "
            "directory with kafka-storage.sh format --cluster-id",
            "",
            "",
        )
        return
    directory_id = lost_id(broker, disk)
    data = format_meta_properties(MetaProperties(1, known.cluster_id, known.node_id, directory_id))
    yield Step(
        disk.path,
        "write meta.properties with the ids of the broker's other disks",
        disk.meta_fault or "it is missing",
        "the disk's directory id: a broker gives it a new one" if directory_id is None else "",
        _PUT_BACK,
        [Action(Act.WRITE, file, len(data), data)],
    )


def _metadata(disk: Disk, findings: Sequence[Finding]) -> Iterator[Step]:
    """A metadata log that keeps a broker from starting is for people."""
    for one in findings:
        at = f"{disk.path}/{METADATA_DIRECTORY}"
        if one.kind is Kind.METADATA and one.severity is Severity.FATAL and one.file == at:
            yield Step(
                disk.path,
                f"{METADATA_DIRECTORY} has to be mended by hand",
                f"{one.cause}: {one.advice}",
                "",
                "",
            )


def _foreign(fs: FileSystem, disk: Disk) -> Iterator[Step]:
    for name in disk.foreign:
        path = f"{disk.path}/{name}"
        above = parent(disk.path)
        same = read_attributes(fs, above).device == read_attributes(fs, path).device
        why = None
        if name == "lost+found":
            why = "it is a file system's own: use a directory below the mount point for log.dirs"
        elif _holds_root(fs, path):
            why = "it holds a root (meta.properties): name that in log.dirs instead, or move it away"
        elif not same or kafka_name(name) is not None:
            why = "it cannot be moved beside the root: move it to another place"
        if why is not None:
            yield Step(disk.path, f"{name} has to go by hand", why, "", "")
            continue
        beside = f"{disk.path}{QUARANTINE}"
        yield Step(
            disk.path,
            f"move {name} to {beside}",
            "a broker does not start with a directory that is not a partition",
            "",
            "tidelog fix --undo moves it back",
            [Action(Act.RENAME, path, target=f"{beside}/{name}")],
        )


def _holds_root(fs: FileSystem, path: str) -> bool:
    """Whether a directory, or one in it, is a root."""
    try:
        inner = [f"{path}/{entry.name}" for entry in fs.list(path) if entry.is_directory]
        return any(fs.exists(f"{one}/{META_PROPERTIES_FILE}") for one in (path, *inner))
    except OSError:  # nobody may look: leave it where it is
        return True


def _leaves(broker: Broker, one: PartitionDirectory) -> str | None:
    """Why a directory gets a -stray name; None if it stays."""
    if one.partition.topic == CLUSTER_METADATA_TOPIC or one.fault is not None:
        return None
    reason = stray_reason(broker, one)
    if reason is not None:
        return None if one.topic_id is None and broker.image.has(one.partition) else reason
    twins = [each for each in partitions_of(broker.disks)[one.partition] if not stray_reason(broker, each)]
    if len(twins) < 2:
        return None
    topic = broker.image.topics.get(one.partition.topic)
    places = topic.partitions[one.partition.partition].directories if topic is not None else ()
    ids = {disk.path: disk.meta.directory_id for disk in broker.disks if disk.meta is not None}
    assigned = [each for each in twins if ids.get(parent(each.path)) in places]
    if len(assigned) == 1 and assigned[0] is not one:
        return f"the metadata assigns the partition to {parent(assigned[0].path)}"
    return None


def _directories(fs: FileSystem, broker: Broker, disk: Disk, going: set[str]) -> Iterator[Step]:
    for one in disk.live:
        if one.path in going:
            name = format_partition_directory(one.partition, DirectoryState.STRAY, _fixed_id(fs, one.path))
            yield Step(
                disk.path,
                f"rename {one.name} to {name}",
                _leaves(broker, one) or "",
                "",
                "tidelog fix --undo, or tidelog unstray",
                [Action(Act.RENAME, one.path, target=f"{disk.path}/{name}")],
            )
    for one in disk.directories:
        if blocks_start(broker, one):
            name = format_partition_directory(one.partition, DirectoryState.STRAY, _fixed_id(fs, one.path))
            yield Step(
                disk.path,
                f"rename {one.name} to {name}",
                "a broker would try to put it in the place of the partition that is there",
                "",
                "tidelog fix --undo",
                [Action(Act.RENAME, one.path, target=f"{disk.path}/{name}")],
            )
    for partition, found in partitions_of(broker.disks).items():
        loaded = [one for one in found if stray_reason(broker, one) is None and one.path not in going]
        here = [one for one in loaded if parent(one.path) == disk.path]
        if len(loaded) > 1 and here and not any(_leaves(broker, one) for one in loaded):
            if partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            yield Step(
                disk.path,
                f"{partition} is on two disks, and nobody here can say which is right",
                "rename all but one of the directories",
                "",
                "",
            )


def _topic_id(broker: Broker, disk: Disk, one: PartitionDirectory) -> Iterator[Step]:
    topic = broker.image.topics.get(one.partition.topic)
    if one.topic_id is not None or one.parsed.state is not DirectoryState.LIVE:
        return
    if topic is None or one.partition.partition not in topic.partitions:
        if one.fault is not None:
            yield Step(
                disk.path,
                f"the topic id of {one.name} is not known",
                "the metadata does not know the partition: restore partition.metadata from another replica",
                "",
                "",
            )
        return
    data = format_partition_metadata(topic.topic_id)
    yield Step(
        disk.path,
        f"write partition.metadata of {one.name} with topic id {format_id(topic.topic_id)}",
        one.fault or "it is missing",
        "",
        _PUT_BACK,
        [Action(Act.WRITE, f"{one.path}/{PARTITION_METADATA_FILE}", len(data), data)],
    )


def _partition(
    fs: FileSystem,
    examination: Examination,
    disk: Disk,
    one: PartitionDirectory,
    mended: dict[TopicPartition, Mended],
) -> Iterator[Step]:
    """Bring the files of a partition in order, if something is wrong with them."""
    findings = [each for each in examination.examined[one.path].verdict.findings if _calls(each)]
    if not findings:
        return
    broker = examination.broker
    start = _sane(fs, start_of(broker, disk, one), one.path)
    with at_one_moment(fs, disk.path, one.path) as now:
        done = mend_partition(now, one.path, broker.log_config(one.partition.topic), start)
    why = "; ".join(dict.fromkeys(each.cause for each in findings[:3]))
    if done.error is not None or done.left:
        left = done.error or done.left[0].cause
        yield Step(
            disk.path, f"{one.name} cannot be mended whole", f"{left}: restore it from a replica", "", ""
        )
    if one.parsed.state is DirectoryState.LIVE and done.error is None:
        mended[one.partition] = done
    actions = [Action(Act.REMOVE, each.file) for each in examine_names(fs, one.path)]
    actions += [action for change in done.changes for action in _actions(change)]
    fatal = next((each for each in findings if each.severity is Severity.FATAL), None)
    if fatal is not None and not actions and done.error is None and not done.left:
        yield Step(disk.path, f"{one.name} cannot be mended", f"{fatal.cause}: {fatal.advice}", "", "")
    if actions:
        yield Step(disk.path, f"bring {one.name} in order", why, _lost(done), _PUT_BACK, actions)


def _calls(finding: Finding) -> bool:
    """Whether a finding calls for a repair of the partition's files."""
    mends = (Kind.LEFTOVER, Kind.INDEX, Kind.SNAPSHOT, Kind.EPOCHS)
    others = (Kind.PERMISSION, Kind.RETENTION)
    return finding.kind in mends or (finding.severity.is_wrong and finding.kind not in others)


def _sane(fs: FileSystem, start: Start, path: str) -> Start:
    """A log start that no segment has would empty the log: the first segment's counts."""
    if start.log_start_offset <= 0:
        return start
    facts = verify_partition(fs, path)
    if start.log_start_offset <= facts.end_offset:
        return start
    return replace(start, log_start_offset=facts.start_offset)


def _actions(change: Change) -> Iterator[Action]:
    match change.kind:
        case ChangeKind.CUT:
            yield Action(Act.CUT, change.path, change.size)
        case ChangeKind.WRITE:
            yield Action(Act.WRITE, change.path, change.size, change.data)
        case ChangeKind.REMOVE:
            yield Action(Act.REMOVE, change.path)
        case ChangeKind.MOVE:
            assert change.source is not None
            yield Action(Act.RENAME, change.source, target=change.path)
            yield Action(Act.CUT, change.path, change.size)


def _lost(done: Mended) -> str:
    """What goes with a repair, in words."""
    told = [str(loss) for loss in done.losses[:5]]
    cut = [
        f"{(one.before or 0) - one.size} bytes of {one.path.rpartition('/')[2]} from position {one.size} on"
        for one in done.changes
        if one.path.endswith(".log") and one.kind in (ChangeKind.CUT, ChangeKind.REMOVE)
    ]
    told += cut[:5]
    more = len(done.losses) + len(cut) - len(told)
    return ", ".join(told) + (f", and {more} more" if more > 0 else "")


def _checkpoints(
    fs: FileSystem, examination: Examination, disk: Disk, mended: dict[TopicPartition, Mended]
) -> Iterator[Step]:
    """Checkpoints that can be read, and say no more than the logs have after the repairs."""
    ends: dict[TopicPartition, tuple[int, int]] = {}
    for one in disk.live:
        examined = examination.examined.get(one.path)
        if one.partition in mended:
            done = mended[one.partition]
            ends[one.partition] = (done.log_start_offset, done.log_end_offset)
        elif examined is not None and examined.forecast.error is None:
            ends[one.partition] = (examined.forecast.log_start_offset, examined.verified_end)
    for kind in Checkpoint:
        path = f"{disk.path}/{kind.value}"
        offsets = dict(disk.checkpoints[kind])
        if kind in disk.faults:
            if not fs.exists(path) or fs.stat(path).is_directory:
                yield Step(disk.path, f"{kind.value} is in the way", "move it away", "", "")
                continue
            offsets = _readable(fs, path)
        lowered = {
            partition: ends[partition][0 if kind.falls_to_start else 1]
            for partition, offset in offsets.items()
            if partition in ends and offset > ends[partition][1]
        }
        if not lowered and kind not in disk.faults:
            continue
        data = format_offsets({**offsets, **lowered})
        names = ", ".join(str(partition) for partition in lowered)
        yield Step(
            disk.path,
            f"write {kind.value} anew",
            disk.faults.get(kind) or f"it says more than the logs of {names} have",
            "lines that cannot be read" if kind in disk.faults else "",
            _PUT_BACK,
            [Action(Act.WRITE, path, len(data), data)],
        )


def _readable(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """The entries that can be read of a damaged checkpoint."""
    found = {}
    for line in read_file(fs, path).decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is not None and int(match[2]) < 2**31 and int(match[3]) < 2**63:
            found[TopicPartition(match[1], int(match[2]))] = int(match[3])
    return found


def _aside(fs: FileSystem, examination: Examination, disk: Disk) -> Iterator[Step]:
    """Files that only stand in the way."""
    broker = examination.broker
    root = next(one for one in examination.roots if one.path == disk.path)
    wrong = {one.file for one in root.findings if one.severity in (Severity.FATAL, Severity.DAMAGE)}
    logged = broker.metadata is not None and broker.metadata.in_log
    candidates: Sequence[tuple[str, bool, str]] = (
        (f"{disk.path}/{JOURNAL_FILE}", True, "what it knew of a bulk write that was cut short"),
        (f"{disk.path}/{METADATA_DIRECTORY}/quorum-state", True, "whom the node voted for last"),
        (f"{disk.path}/{BOOTSTRAP_FILE}", logged, ""),
    )
    for path, may_go, lost in candidates:
        name = path.removeprefix(f"{disk.path}/")
        if path not in wrong or name in disk.foreign:
            continue
        if may_go:
            yield Step(
                disk.path,
                f"take {name} away",
                "it cannot be read",
                lost,
                _PUT_BACK,
                [Action(Act.REMOVE, path)],
            )
        else:
            yield Step(disk.path, f"{name} cannot be mended", "restore it from a copy", "", "")
