"""Opening a root: progress of loading and recovering its logs, drawn from a store's events."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog import manager
from tidelog.cli.render.output import Output, Progress
from tidelog.errors import InvalidIndexError, InvalidInputError, LogError, LogOfflineError
from tidelog.layout.roots import check_claimable, check_clean, look_at
from tidelog.manager.metadata.files import home_of_metadata, read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.store.directories import check_free, find_unknown
from tidelog.manager.store.events import Event, LoadProgress, LoadStarted
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.storage import LOCAL
from tidelog.storage.files import is_path
from tidelog.storage.lock import holder_of
from tidelog.storage.names import META_PROPERTIES_FILE
from tidelog.storage.write_journal import JOURNAL_FILE, read_journal
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = [
    "LoadBar",
    "RootOptions",
    "check_changeable",
    "check_new",
    "check_online",
    "check_ready",
    "metadata_of",
    "offline_in",
    "opened_root",
    "refuse_offline",
    "refuse_unknown",
    "split_known",
]


class LoadBar:
    """Takes events (`on_event`, `tell`) and shows how many bytes are recovered, and the time left.

    Roots are loaded side by side; they share one bar. After a clean shutdown there is nothing to show.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._stack = ExitStack()
        self._progress: Progress | None = None
        self._done: dict[str, int] = {}

    def __enter__(self) -> Self:
        """Itself; leaving takes the bar away."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._stack.close()
        self._progress = None

    def __call__(self, event: Event) -> None:
        """Show what an event tells."""
        match event:
            case LoadStarted(clean=False, size_bytes=size_bytes) if self._progress is None:
                self._progress = self._stack.enter_context(self._output.progress(size_bytes, "recovering"))
            case LoadProgress(root=root, bytes_done=bytes_done) if self._progress is not None:
                self._progress.advance(bytes_done - self._done.get(root, 0))
                self._done[root] = bytes_done
            case _:
                pass


@dataclass(frozen=True, slots=True)
class RootOptions:
    """How a command opens a root."""

    properties: Path | None = None
    """The broker's `server.properties`."""
    adopt: bool = False
    force: bool = False

    @property
    def broker(self) -> manager.BrokerConfig:
        """The broker's configuration; Kafka's defaults where none is named."""
        return (
            manager.BrokerConfig() if self.properties is None else manager.BrokerConfig.read(self.properties)
        )

    def roots(self, root: StrPath | Sequence[StrPath]) -> list[str]:
        """The root, or all disks of the broker if it is one of them; several are what they are."""
        return self.broker.disks_of([root] if is_path(root) else root)


def check_ready(root: StrPath | Sequence[StrPath], options: RootOptions | None = None) -> None:
    """Refuse what opening would refuse: a root that was not closed cleanly, or that nobody could hold.

    Nothing is changed. Refused, too, is a root with a bulk write that was cut short: opening settles it, in
    topics that nobody has named. A root that another process has open cannot tell: then only a dry run
    continues. Of several roots only the first must be readable: opening leaves out the others.
    """
    first, *others = (options or RootOptions()).roots(root)
    _check_ready(first)
    readable = [first]
    for path in others:
        with suppress(OSError, InvalidIndexError):
            _check_ready(path)
            readable.append(path)
    _check_one_node([path for path in readable if Path(path).is_dir()])


def _check_ready(path: str) -> None:
    if Path(path).is_dir() and holder_of(path) is None:
        facts = look_at(LOCAL, path)
        check_claimable(LOCAL, facts)
        check_clean(LOCAL, facts)
        pending = read_journal(LOCAL, path).pending
        if pending is not None:
            topics = sorted({one.topic_partition.topic for one in pending.partitions})
            script = f"import tidelog; tidelog.open({json.dumps(str(path))}).close()"
            raise LogError(
                f"a bulk write to {path} was cut short ({JOURNAL_FILE}; topics {', '.join(topics)}); "
                f"nothing was changed. Opening the root finishes it or takes it back: "
                f"python -c {shlex.quote(script)}"
            )


def metadata_of(root: str, options: RootOptions) -> MetadataImage:
    """What the metadata says that counts for a root: its own, or that of another disk of its broker."""
    roots = [path for path in options.roots(root) if Path(path).is_dir()] or [root]
    return read_cluster_metadata(LOCAL, home_of_metadata(LOCAL, roots)).image


def split_known(
    root: str, names: Sequence[TopicPartition], image: MetadataImage
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Split partitions into those in the metadata and the others.

    A root without meta.properties knows all.
    """
    nobodys = not LOCAL.exists(f"{root}/{META_PROPERTIES_FILE}")
    known = [name for name in names if nobodys or image.has(name)]
    return known, [] if nobodys else [name for name in names if not image.has(name)]


def _check_one_node(roots: Sequence[str]) -> None:
    """Refuse roots of several nodes or clusters, as opening them together would; nothing is opened."""
    owners = {path: meta for path in roots if (meta := look_at(LOCAL, path).meta) is not None}
    told = {path: (meta.node_id, meta.cluster_id) for path, meta in owners.items()}
    for path, owner in told.items():
        first = next(iter(told))
        if owner != told[first]:
            raise InvalidInputError(
                f"{path} belongs to node {owner[0]} of cluster {owner[1]}, but {first} to node "
                f"{told[first][0]} of cluster {told[first][1]}: name roots of one node"
            )


def check_changeable(root: StrPath | Sequence[StrPath], options: RootOptions | None = None) -> None:
    """Refuse to change the metadata of a root where that is not this node's alone; nothing is opened."""
    paths = [path for path in (options or RootOptions()).roots(root) if Path(path).is_dir()]
    if not paths:
        return
    home = home_of_metadata(LOCAL, paths)
    meta = look_at(LOCAL, home).meta
    if meta is not None and meta.node_id is not None:
        Registry(LOCAL, home, meta.node_id, lambda: 0).check_writable()


def check_new(root: StrPath, topic: str, partitions: int, options: RootOptions) -> None:
    """Refuse a new topic as making it would: on a disk whose metadata is elsewhere, or in the way of others.

    Roots that are nobody's yet take in what they hold.
    """
    roots = [path for path in options.roots(root) if Path(path).is_dir()]
    if options.adopt or all(look_at(LOCAL, path).meta is None for path in roots):
        return
    if not options.force:
        find_unknown(LOCAL, roots).check_home()
    for path in roots:
        check_free(LOCAL, path, topic, range(partitions))


def offline_in(
    root: StrPath | Sequence[StrPath], options: RootOptions, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, str]:
    """Which of some partitions could not be opened, and why: they are opened, and nothing is changed.

    None of what is no root, or a root that another process has open.
    """
    roots = options.roots(root)
    is_root = LOCAL.exists(f"{roots[0]}/{META_PROPERTIES_FILE}")
    if not partitions or not is_root or any(holder_of(path) is not None for path in roots):
        return {}
    rehearsal = Rehearsal(LOCAL)
    try:
        with manager.open_store(
            roots,
            config=options.broker,
            create=False,
            force=options.force,
            topics=partitions,
            background=False,
            fs=rehearsal,
        ) as store:
            return store.offline_partitions
    finally:
        rehearsal.close()


def refuse_offline(offline: Mapping[TopicPartition, str]) -> None:
    """Say which partitions were left alone, after all others: LogOfflineError, if there are any."""
    if offline:
        names = "; ".join(f"{name}: {why}" for name, why in sorted(offline.items()))
        raise LogOfflineError(f"{len(offline)} partitions cannot be opened and are left alone: {names}")


def check_online(
    root: StrPath | Sequence[StrPath], options: RootOptions, partitions: Collection[TopicPartition]
) -> None:
    """Refuse partitions that cannot be opened, as using them would."""
    for name, why in offline_in(root, options, partitions).items():
        raise LogOfflineError(f"partition {name} is offline: {why}")


def refuse_unknown(root: str, partition: TopicPartition) -> InvalidInputError:
    """The error that says that the metadata does not know a partition."""
    return InvalidInputError(
        f"{root} has a directory {partition}, but its metadata does not know the partition: it may be one of "
        "several disks of a broker, and the metadata on another. Name all of them with --server-properties"
    )


@contextmanager
def opened_root(
    root: StrPath | Sequence[StrPath],
    output: Output,
    options: RootOptions | None = None,
    *,
    create: bool = False,
    topics: Collection[str | TopicPartition] | None = None,
) -> Iterator[manager.Store]:
    """A root under its lock, with only these topics and partitions; nothing happens in it by itself."""
    options = options or RootOptions()
    with LoadBar(output) as tell:
        store = manager.open_store(
            options.roots(root),
            config=options.broker,
            create=create,
            adopt=True if options.adopt else None,
            force=options.force,
            topics=topics,
            background=False,
            on_event=tell,
        )
    with store:
        yield store
