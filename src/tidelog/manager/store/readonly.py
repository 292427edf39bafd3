"""Root directories opened to be read: no lock, no write, not so much as a time of access that we set.

    with tidelog.open("/data", mode="r") as store:
        store["orders"][0].offset_for(yesterday)

What there is is what the directories hold, whoever wrote them and however they were left: in use by a broker,
killed, one disk of several, damaged. Each question looks at the files again (`scanning`), so that the answers
follow a writer. A log that is damaged is read up to the damage; reading on raises.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

import pyarrow as pa

from tidelog.errors import InvalidInputError, TidelogError
from tidelog.layout.roots import Checkpoint, Skipped, read_checkpoint
from tidelog.lazy import LazyModule
from tidelog.log.read.fetching import FetchData, to_arrow
from tidelog.log.read.reader import DEFAULT_READ_BYTES
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.store.metrics import PartitionMetrics, StoreMetrics
from tidelog.manager.store.numbered import NumberedPartitions
from tidelog.manager.store.partition import FlushTimes
from tidelog.manager.store.topic_mapping import TopicMapping
from tidelog.manager.upkeep.times import to_timestamp
from tidelog.records.record import STORED_COLUMNS, StoredRecord, from_arrow
from tidelog.records.schema import Projection
from tidelog.scanning.fetching import LogEnds, fetch, log_ends
from tidelog.scanning.partitions import Partition, list_partitions, look_steadily
from tidelog.scanning.ranges import OffsetRange, check_replaced, plan_range
from tidelog.scanning.tasks import NO_END, ScanTask, run_task
from tidelog.scanning.timestamps import look_up_time
from tidelog.storage import LOCAL, read_epoch_checkpoint
from tidelog.storage.files import parent
from tidelog.storage.metadata import read_meta_properties
from tidelog.storage.names import LEADER_EPOCH_FILE, META_PROPERTIES_FILE, DirectoryState
from tidelog.types import FetchIsolation, IsolationLevel, TimestampOffset, TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["ReadOnlyPartition", "ReadOnlyStore", "ReadOnlyTopic", "open_readonly"]

_pictures = LazyModule("tidelog.manager.store.pictures")  # for notebooks only
_T = TypeVar("_T")
_EVERYTHING = Projection.of(STORED_COLUMNS)


def open_readonly(roots: Sequence[StrPath]) -> ReadOnlyStore:
    """Look at root directories; InvalidInputError for what is none."""
    paths = [str(Path(path).absolute()) for path in roots]
    if not paths:
        raise InvalidInputError("no root directory was named")
    for path in paths:
        if not Path(path).is_dir():
            what = "is not a directory" if Path(path).exists() else "does not exist"
            raise InvalidInputError(f"{path} {what}")
        if any(one.is_named for one in list_partitions(path, marked=True)):
            raise InvalidInputError(
                f"{path} is a partition: open the root that holds it, or read it with tidelog.scan"
            )
    return ReadOnlyStore(paths)


class ReadOnlyPartition:
    """A partition, to be read; as its files are at each question."""

    def __init__(self, partition: Partition, topic_id: uuid.UUID | None) -> None:
        self._partition = partition
        self.topic_id = topic_id
        """The topic's id, if it is known."""

    def __repr__(self) -> str:
        """With its name and place."""
        return f"ReadOnlyPartition({self.topic_partition}, {self.path})"

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        drawn: str = _pictures.draw_partition(self)
        return drawn

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition it is."""
        return self._partition.topic_partition

    @property
    def path(self) -> str:
        """Its directory."""
        return self._partition.url

    @property
    def root(self) -> str:
        """The root directory that holds it."""
        return self.path.rpartition("/")[0]

    # Offsets

    @property
    def offsets(self) -> LogEnds:
        """All of its offsets, of one moment, and the damage that ends the log."""
        return self._look(log_ends)

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._look(lambda partition: partition.log_start_offset)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last whole batch, or before the damage that ends the log."""
        return self.offsets.log_end

    @property
    def high_watermark(self) -> int:
        """As checkpointed: a writer's own may be a few seconds ahead. Without a checkpoint, the log end."""
        return self.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """How far a committed read sees: the log end, or the first open transaction."""
        return self.offsets.last_stable

    # Reading

    def read(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: IsolationLevel | FetchIsolation = "read_uncommitted",
        min_one_message: bool = True,
    ) -> FetchData:
        """Batches from an offset on, as they are on disk; see `Log.read`. The bytes are a copy."""
        if max_length < 0:
            raise InvalidInputError(f"cannot read {max_length} bytes")
        level = _seen_by(isolation)
        return self._look(
            lambda partition: fetch(partition, start_offset, max_length, level, min_one_message)
        )

    def read_arrow(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: IsolationLevel | FetchIsolation = "read_uncommitted",
        columns: Iterable[str] | None = None,
        min_one_message: bool = True,
    ) -> pa.RecordBatch:
        """Records from an offset on as Arrow; see `Log.read_arrow`."""
        fetched = self.read(start_offset, max_length, isolation, min_one_message)
        return to_arrow(fetched, start_offset, self.topic_partition, Projection.of(columns))

    def read_record(self, offset: int) -> StoredRecord | None:
        """The record at exactly this offset; None if there is none."""
        self.read(offset, 0, min_one_message=False)  # for its refusals
        return next(self._records(offset, offset + 1, committed_only=False, with_control=True), None)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not older than a timestamp (ms), or what an `OffsetTarget` asks for."""
        return self._look(lambda partition: look_up_time(partition, timestamp))

    def offset_for(self, when: datetime | int) -> int:
        """The offset of the first record at or after a time; the log end if there is none.

        `when` is a datetime with a time zone, or milliseconds since 1970.
        """
        timestamp = to_timestamp(when)
        if timestamp < 0:
            return self.log_start_offset
        found = self.offset_for_timestamp(timestamp)
        return self.log_end_offset if found is None else found.offset

    def __iter__(self) -> Iterator[StoredRecord]:
        """All records, from the log start to where the log ends now."""
        return self.records()

    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        isolation: IsolationLevel | FetchIsolation = "read_uncommitted",
    ) -> Iterator[StoredRecord]:
        """The records from offset `start` to before `end`, one by one, without markers of transactions.

        At damage, what comes before it is given out, then CorruptRecordError raised.
        """
        ends = self.offsets
        level = _seen_by(isolation)
        limit = ends.limit(level)
        if limit == ends.log_end and ends.fault is not None:
            limit = NO_END  # reading meets the damage
        first = ends.log_start if start is None else max(start, ends.log_start)
        committed_only = level is FetchIsolation.TXN_COMMITTED
        return self._records(first, limit if end is None else min(end, limit), committed_only=committed_only)

    def _records(
        self, start: int, end: int, *, committed_only: bool, with_control: bool = False
    ) -> Iterator[StoredRecord]:
        def plan(partition: Partition) -> list[ScanTask]:
            wanted = OffsetRange(partition, start, end)
            check_replaced(wanted)
            return plan_range(wanted, committed_only=committed_only, with_control=with_control)

        tasks = self._look(plan)
        for task in tasks:
            for batch in run_task(task, _EVERYTHING):
                yield from from_arrow(batch)

    def _look(self, look: Callable[[Partition], _T]) -> _T:
        return look_steadily(self._partition.again(), look)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InvalidInputError(
            f"{self.topic_partition} was opened with mode='r', to be read only: open its root for writing"
        )

    append = flush = delete_records = _refuse


@dataclass(frozen=True, slots=True)
class ReadOnlyTopic(NumberedPartitions[ReadOnlyPartition]):
    """A topic and those of its partitions that are here."""

    name: str
    topic_id: uuid.UUID | None
    config: Mapping[str, str] = field(default_factory=dict)
    """What is set for it, as text under Kafka's keys, as far as the metadata here tells."""
    partitions: Mapping[int, ReadOnlyPartition] = field(default_factory=dict)


class ReadOnlyStore(TopicMapping[ReadOnlyTopic, ReadOnlyPartition]):
    """Root directories, to be read; made by `tidelog.open(..., mode="r")`."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = list(roots)
        """The paths of the root directories."""

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def __repr__(self) -> str:
        """With its roots."""
        return f"ReadOnlyStore({', '.join(self.roots)})"

    def close(self) -> None:
        """Nothing is held; calling it again is harmless."""

    # What there is

    def _found(self) -> tuple[dict[TopicPartition, Partition], list[Skipped]]:
        copies: dict[TopicPartition, list[Partition]] = {}
        skipped = []
        for root in self.roots:
            for one in list_partitions(root, marked=True):
                name = one.topic_partition
                if one.state is not DirectoryState.LIVE:
                    skipped.append(Skipped(one.url, f"it is marked {one.state.value}"))
                else:
                    copies.setdefault(name, []).append(one)
        found = {}
        for name, each in copies.items():
            found[name] = each[0] if len(each) == 1 else _registered(each, self.roots)
            others = (one for one in each if one is not found[name])
            skipped += [Skipped(one.url, f"{name} is in {found[name].url} too") for one in others]
        return found, skipped

    @property
    def skipped(self) -> list[Skipped]:
        """Partition directories that are skipped, and why."""
        return self._found()[1]

    @property
    def topics(self) -> Mapping[str, ReadOnlyTopic]:
        """The topics by name, as the directories have them; not the metadata log."""
        images = [look_at_metadata(LOCAL, root).image for root in self.roots]
        by_topic: dict[str, dict[int, ReadOnlyPartition]] = {}
        for name, partition in sorted(self._found()[0].items()):
            if not partition.is_metadata_log:
                one = ReadOnlyPartition(partition, partition.topic_id)
                by_topic.setdefault(name.topic, {})[name.partition] = one
        return {name: _topic(name, partitions, images) for name, partitions in by_topic.items()}

    @property
    def partitions(self) -> list[ReadOnlyPartition]:
        """All partitions of all topics."""
        return [partition for topic in self.topics.values() for partition in topic]

    def metrics(self) -> StoreMetrics:
        """Offsets, sizes and segments of everything, now; what cannot be read is told with the reason."""
        measured, offline = {}, {}
        for partition in self.partitions:
            try:
                measured[partition.topic_partition] = _measure(partition)
            except (OSError, TidelogError) as error:
                offline[partition.topic_partition] = str(error)
        return StoreMetrics(measured, offline, {})

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InvalidInputError(
            f"{', '.join(self.roots)} was opened with mode='r', to be read only: open it for writing"
        )

    create_topic = create_partitions = delete_topic = alter_config = move_partition = _refuse
    truncate_partition = resume_moves = flush = checkpoint = apply_retention = clean = run_due_tasks = _refuse


def _seen_by(isolation: IsolationLevel | FetchIsolation) -> FetchIsolation:
    """How far a reader sees. Who only reads does not know what is replicated: uncommitted is all there is."""
    return FetchIsolation.LOG_END if isolation == "read_uncommitted" else FetchIsolation(isolation)


def _registered(copies: Sequence[Partition], roots: Sequence[str]) -> Partition:
    """Of copies of a partition, one in a root that the metadata names for it; else the first."""
    images = [look_at_metadata(LOCAL, root).image for root in roots]
    name = copies[0].topic_partition
    places = {
        place
        for image in images
        if image.has(name)
        for place in image.topics[name.topic].partitions[name.partition].directories
    }
    return next((one for one in copies if _directory_id(parent(one.url)) in places), copies[0])


def _directory_id(root: str) -> uuid.UUID | None:
    """The `directory.id` of a root, if it tells one."""
    try:
        return read_meta_properties(LOCAL, f"{root}/{META_PROPERTIES_FILE}").directory_id
    except (OSError, TidelogError):
        return None


def _topic(
    name: str, partitions: Mapping[int, ReadOnlyPartition], images: Sequence[MetadataImage]
) -> ReadOnlyTopic:
    config = next((dict(found) for image in images if (found := image.topic_config(name))), {})
    ids = [one.topic_id for one in partitions.values() if one.topic_id is not None]
    return ReadOnlyTopic(name, ids[0] if ids else None, config, partitions)


def _measure(partition: ReadOnlyPartition) -> PartitionMetrics:
    name, ends = partition.topic_partition, partition.offsets
    points = read_checkpoint(LOCAL, partition.root, Checkpoint.RECOVERY_POINTS)
    (found,) = (one for one in list_partitions(partition.path) if one.topic_partition == name)
    epochs = []
    with contextlib.suppress(OSError, TidelogError):
        epochs = read_epoch_checkpoint(LOCAL, f"{partition.path}/{LEADER_EPOCH_FILE}")
    return PartitionMetrics(
        name,
        partition.root,
        len(found.segments),
        sum(segment.size for segment in found.segments),
        ends.log_start,
        ends.last_stable,
        ends.high_watermark,
        ends.log_end,
        recovery_point=points.get(name, 0),
        last_flush_ms=-1,
        flushes=FlushTimes(),
        producers=0,
        leader_epoch=epochs[-1].epoch if epochs else 0,
    )
