"""Appending records to a topic of a root, or to one partition's directory that is in no root."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain
from pathlib import Path

import pyarrow as pa

from tidelog.cli.actions.directories import live_partition, parse_settings
from tidelog.cli.actions.inputs import InputOptions, read_records
from tidelog.cli.actions.loading import RootOptions, check_new, check_ready, offline_in, opened_root
from tidelog.cli.errors import UsageError
from tidelog.cli.interrupts import interruptible
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, LogError, LogOfflineError, UncleanShutdownError
from tidelog.log import Log
from tidelog.manager import Store
from tidelog.manager.publishing.checks import check_topic
from tidelog.manager.publishing.existing import TopicFacts, check_single, existing_topics, unregistered
from tidelog.manager.publishing.partitioner import Partitioner, TopicPlan
from tidelog.manager.upkeep.recovery import recover_partition
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.storage.names import META_PROPERTIES_FILE
from tidelog.types import Codec, TopicPartition

__all__ = ["Destination", "append_records", "parse_codec"]

_APPEND_BYTES = 4 << 20
_COLUMNS = (
    Column("partition", "PARTITION"),
    Column("records", "RECORDS", right=True),
    Column("first_offset", "FROM", right=True),
    Column("last_offset", "TO", right=True),
)


def parse_codec(name: str | None) -> Codec:
    """The codec called so; none for None."""
    try:
        return Codec.NONE if name is None else Codec.parse(name)
    except KeyError:
        raise UsageError(f"--codec {name}: choose from {', '.join(one.label for one in Codec)}") from None


@dataclass(frozen=True, slots=True)
class Destination:
    """Where records go."""

    root: Path
    topic: str
    partition: int | None
    create: int | None
    bare: Path | None = None
    """A partition's directory whose parent is no root."""
    config: Mapping[str, str] = field(default_factory=dict)
    """What is set for a topic that is made."""

    @classmethod
    def of(
        cls,
        path: Path,
        topic: str | None,
        partition: int | None,
        create: int | None,
        settings: Sequence[str] = (),
    ) -> Destination:
        """What a command was told; UsageError if that is too little or does not fit."""
        if settings and create is None:
            raise UsageError("--config is for the topic that --create makes; others have `tidelog config`")
        path = path.absolute()
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is not a directory: name a root (log.dirs) or a partition's directory")
        if is_partition(LOCAL, str(path)) and topic is None:
            return cls._in_partition(path, partition, create)
        if topic is None:
            raise UsageError("name the target: --topic NAME, or a partition's directory")
        check_topic(topic)
        if not path.exists() and create is None:
            raise UsageError(f"{path} does not exist: check the name, or create it with --create N")
        return cls(path, topic, partition, create, config=parse_settings(settings))

    @classmethod
    def _in_partition(cls, path: Path, partition: int | None, create: int | None) -> Destination:
        found = live_partition(str(path))
        if partition not in (None, found.partition) or create is not None:
            raise UsageError(f"{path} is one partition: --partition and --create are for roots")
        if not path.exists():
            raise UsageError(f"{path} does not exist: check the name")
        check_topic(found.topic)
        bare = None if (path.parent / META_PROPERTIES_FILE).exists() else path
        return cls(path.parent, found.topic, found.partition, None, bare)

    def check(self, options: RootOptions) -> None:
        """Refuse what an append would refuse, or cut, before anything is changed."""
        if self.bare is not None:
            planned = recover_partition(LOCAL, str(self.bare), recovery_point=0, dry_run=True)
            if planned.error is not None:
                raise LogError(planned.error)
            if planned.bytes_cut:
                raise UncleanShutdownError(
                    f"{self.bare} is damaged, and an append would cut it there: {planned.cause}. See what "
                    f"goes with `tidelog recover --dry-run {self.bare}`, then run `tidelog recover`"
                )
            return
        check_ready(self.root, options)
        roots = [root for root in options.roots(self.root) if LOCAL.exists(root)]
        if roots and not options.force:
            check_single(roots, self.topic)

    def facts(self, options: RootOptions) -> TopicFacts:
        """The topic as it is, or as it would be made; nothing is changed for it."""
        if self.bare is not None:
            return TopicFacts((self.partition or 0) + 1, LogConfig())
        defaults, roots = options.broker.topic_defaults, options.roots(self.root)
        found = existing_topics(roots, defaults).get(self.topic)
        unknown = unregistered(roots, self.topic)
        if found is None and unknown:
            found = TopicFacts(max(unknown) + 1, defaults)
        if unknown and not options.adopt:
            raise InvalidInputError(
                f"{self.root} has directories of {self.topic!r}, but its metadata does not know the topic: "
                "it is one of several disks of a broker, and the metadata is on another. Name all of them "
                "with --server-properties, or register what is here with --adopt"
            )
        if found is None and self.create is None:
            raise UsageError(f"{self.root} has no topic {self.topic!r}: create it with --create N")
        if found is None:
            check_new(self.root, self.topic, self.create or 1, options)
            found = TopicFacts(self.create or 1, LogConfig.from_properties(self.config, defaults))
        if self.partition is not None and self.partition >= found.partitions:
            raise UsageError(
                f"topic {self.topic!r} has {found.partitions} partitions, 0 to {found.partitions - 1}"
            )
        return found


@dataclass(slots=True)
class _Count:
    """What was appended to a partition."""

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def add(self, records: int, first_offset: int | None, last_offset: int | None) -> None:
        self.records += records
        if self.first_offset is None:
            self.first_offset = first_offset
        self.last_offset = last_offset


_Write = Callable[[TopicPartition, pa.RecordBatch], tuple[int | None, int | None]]
"""Appends rows to a partition: the first and the last offset; None in a dry run, which has none."""


def append_records(
    destination: Destination,
    file: Path | None,
    options: InputOptions,
    output: Output,
    *,
    codec: Codec,
    sync: bool,
    dry_run: bool,
    root_options: RootOptions,
) -> None:
    """Append all records of the input, and say where they went."""
    destination.check(root_options)
    facts = destination.facts(root_options)
    counts: dict[TopicPartition, _Count] = {}
    try:
        with ExitStack() as stack:
            source, size = _opened(stack, file)
            progress = stack.enter_context(output.progress(size, "appending"))
            pieces = _routed(destination, facts, read_records(source, options))
            first = next(pieces, None)  # input that cannot be read at all changes nothing
            write = (
                _rehearsed(destination, facts, root_options)
                if dry_run
                else stack.enter_context(_writer(destination, output, codec, sync, root_options))
            )
            done = 0
            for partition, rows in chain([first] if first else [], pieces):
                count = counts.setdefault(partition, _Count())
                for part in _parts(rows, facts.config):
                    with interruptible():  # what is appended is counted
                        count.add(part.num_rows, *write(partition, part))
                if size:
                    progress.advance(source.tell() - done)
                    done = source.tell()
    except BaseException:
        if counts:
            _show(output, counts, dry_run)
        raise
    _show(output, counts, dry_run)


def _opened(stack: ExitStack, file: Path | None) -> tuple[BufferedReader, int]:
    """The input and its size, 0 where that is not known."""
    if file is None or str(file) == "-":
        if sys.stdin.isatty():
            print("reading from the terminal, up to Ctrl-D", file=sys.stderr)
        return stack.enter_context(open(sys.stdin.fileno(), "rb", closefd=False)), 0
    return stack.enter_context(file.open("rb")), file.stat().st_size


def _routed(
    destination: Destination, facts: TopicFacts, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """The rows of each partition, block by block."""
    topic = destination.topic
    if destination.partition is not None:
        yield from ((TopicPartition(topic, destination.partition), batch) for batch in batches)
        return
    partitioner = Partitioner(TopicPlan({topic: facts}, facts), topic, 0)
    for batch in batches:
        yield from partitioner.split(batch)


def _parts(rows: pa.RecordBatch, config: LogConfig) -> Iterator[pa.RecordBatch]:
    """Rows that one append can take: it has to fit a segment."""
    limit = min(_APPEND_BYTES, config.max_segment_bytes // 2)
    step = max(1, rows.num_rows * limit // max(rows.get_total_buffer_size(), limit))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _rehearsed(destination: Destination, facts: TopicFacts, options: RootOptions) -> _Write:
    """Appends nothing; partitions that cannot be opened are refused as they would be."""
    numbers = range(facts.partitions) if destination.partition is None else [destination.partition]
    names = {TopicPartition(destination.topic, number) for number in numbers}
    offline = {} if destination.bare is not None else offline_in(destination.root, options, names)

    def write(partition: TopicPartition, rows: pa.RecordBatch) -> tuple[None, None]:
        if partition in offline:
            raise LogOfflineError(f"partition {partition} is offline: {offline[partition]}")
        return None, None

    return write


@contextmanager
def _writer(
    destination: Destination, output: Output, codec: Codec, sync: bool, options: RootOptions
) -> Iterator[_Write]:
    """Takes the lock, and gives it back with everything closed cleanly."""
    if destination.bare is not None:
        with Log.open(destination.bare) as log:
            yield lambda _, rows: _append_to_log(log, rows, codec, sync)
        return
    create = destination.create is not None
    with opened_root(
        destination.root, output, options, create=create, topics={_named(destination, options)}
    ) as store:
        _make_topic(store, destination)

        def write(partition: TopicPartition, rows: pa.RecordBatch) -> tuple[int, int]:
            target = store.partition(partition.topic, partition.partition)
            info = target.append(rows, sync=sync, codec=codec)
            return info.first_offset, info.last_offset

        yield write


def _named(destination: Destination, options: RootOptions) -> str | TopicPartition:
    """What is opened: one partition where one is named, unless its topic may be made or taken in."""
    if destination.partition is None or destination.create is not None or options.adopt:
        return destination.topic
    return TopicPartition(destination.topic, destination.partition)


def _make_topic(store: Store, destination: Destination) -> None:
    if destination.topic not in store.topics:
        if destination.create is None:
            raise InvalidInputError(f"there is no topic {destination.topic!r}: create it with --create N")
        store.create_topic(destination.topic, destination.create, destination.config)


def _append_to_log(log: Log, rows: pa.RecordBatch, codec: Codec, sync: bool) -> tuple[int, int]:
    info = log.append_as_leader(rows, leader_epoch=log.latest_epoch or 0, codec=codec)
    if sync:
        log.flush()
    return info.first_offset, info.last_offset


def _show(output: Output, counts: dict[TopicPartition, _Count], dry_run: bool) -> None:
    def row(partition: TopicPartition, count: _Count) -> Sequence[Cell]:
        return str(partition), count.records, count.first_offset, count.last_offset

    output.table(_COLUMNS, [row(partition, counts[partition]) for partition in sorted(counts)])
    total = sum(count.records for count in counts.values())
    output.say(f"{counted(total, 'record')} {are(total, dry_run=dry_run)} appended")
