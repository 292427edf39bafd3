"""Creating partitions: all of them or none.

1. Each new partition is placed (`placement`). A new topic is registered: a crash leaves it whole then.
2. Their logs are made, and the roots synced. More partitions of a topic are registered only now: what is
   registered of a topic cannot be taken back from it.
3. If a root fails in the meantime, it is used no more, and all of it starts again with the others, as a
   broker takes the next log directory. What fails for another reason (too many open files) is raised.

If an error is raised, new directories are removed and nothing is registered. A directory that existed before
is never removed.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.errors import LogOfflineError, TidelogError
from tidelog.layout.roots import Root
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.store.environment import Environment
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.placement import place
from tidelog.manager.store.topics import Topic
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

__all__ = ["Creation"]

_MANY_LOGS = 16
_THREADS = 8
_NOT_THE_ROOTS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ELOOP, errno.EEXIST, errno.ENAMETOOLONG}
)
"""Errors that another root would meet, too, or that are of what lies in the way: the disk is well."""


class _RootFailedError(Exception):
    def __init__(self, root: Root, error: OSError) -> None:
        super().__init__(str(error))
        self.root, self.error = root, error


@dataclass(slots=True)
class _Begun:
    """The state of an attempt."""

    topics: list[dict[int, Partition]] = field(default_factory=list)
    """The new partitions of each topic."""
    placed: list[tuple[Partition, Root]] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    """Those that were not there before."""


class Creation:
    """Creates partitions in a store's roots."""

    def __init__(
        self,
        env: Environment,
        registry: Registry,
        roots: Callable[[], Sequence[Root]],
        partitions: Callable[[], Sequence[Partition]],
        fail: Callable[[Root, BaseException], None],
    ) -> None:
        """`roots` are those that are online, `fail` takes one offline."""
        self._env = env
        self._registry = registry
        self._roots = roots
        self._partitions = partitions
        self._fail = fail
        registry.on_torn = self._fail_all

    def _fail_all(self, why: BaseException) -> None:
        """Use no root any more: what is acknowledged may be of a topic that is registered no more."""
        for root in list(self._roots()):
            self._fail(root, why)

    def add(
        self, wanted: Sequence[tuple[Topic, Sequence[int]]], config: LogConfig, *, is_new: bool
    ) -> list[dict[int, Partition]]:
        """Make partitions of these numbers for each topic; LogOfflineError if no root is left to take
        them. Topics that are new are registered in one step.
        """
        failure: OSError | None = None
        while True:
            online = self._roots()
            if not online:
                names = ", ".join(repr(topic.name) for topic, _ in wanted[:3])
                raise failure or LogOfflineError(
                    f"topic {names} cannot be created: no root is online. Open the store again when its "
                    "disks are back"
                )
            try:
                return self._attempt(wanted, online, config, is_new)
            except _RootFailedError as failed:
                self._fail(failed.root, failed.error)
                failure = failed.error

    def _attempt(
        self,
        wanted: Sequence[tuple[Topic, Sequence[int]]],
        online: Sequence[Root],
        config: LogConfig,
        is_new: bool,
    ) -> list[dict[int, Partition]]:
        counts = Counter(one.root for one in self._partitions() if one.root is not None)
        begun, grown = _Begun(), []
        for topic, numbers in wanted:
            places = place(numbers, online, counts)
            counts.update(places.values())
            made = {n: Partition(TopicPartition(topic.name, n), topic.topic_id, 0) for n in places}
            for number, root in places.items():
                made[number].assign(root)
                begun.placed.append((made[number], root))
            begun.topics.append(made)
            grown.append(Topic(topic.name, topic.topic_id, topic.config, topic.partitions | made))
        registrations = [topic.registration() for topic in grown]
        if is_new:
            self._registry.register(registrations)
        try:
            self._make_logs(begun, config)
            if not is_new:
                self._registry.register(registrations)
        except BaseException as error:
            self._take_back([topic for topic, _ in wanted], begun, is_new, error)
            raise
        return begun.topics

    def _make_logs(self, begun: _Begun, config: LogConfig) -> None:
        """Several at a time, because each one waits for the disk."""
        fs = self._env.fs
        for root in {root for _, root in begun.placed}:
            try:  # what is said of older logs of these names is not true of the new ones
                root.forget({one.topic_partition for one, place in begun.placed if place is root})
            except OSError as error:
                raise _blamed(root, error) from error

        def make(partition: Partition, root: Root) -> None:
            path = root.file(str(partition.topic_partition))
            try:
                if not fs.exists(path) and not fs.is_link(path):
                    begun.directories.append(path)
                log = self._env.open_log(path, config, topic_id=partition.topic_id, clean=True)
            except OSError as error:
                raise _blamed(root, error) from error
            partition.attach(log, root)

        if len(begun.placed) < _MANY_LOGS:
            for partition, root in begun.placed:
                make(partition, root)
        else:
            with ThreadPoolExecutor(_THREADS, "tidelog-create") as pool:
                list(pool.map(make, *zip(*begun.placed, strict=True)))
        for root in {root for _, root in begun.placed}:
            try:
                fs.sync_directory(root.path)
            except OSError as error:
                raise _blamed(root, error) from error

    def _take_back(self, topics: Sequence[Topic], begun: _Begun, is_new: bool, why: BaseException) -> None:
        """Release the files first: there may be none left to open."""
        for partition, _ in begun.placed:
            partition.go_offline(why)
        try:
            if is_new:
                self._registry.register(removed=[topic.topic_id for topic in topics])
            for path in begun.directories:
                remove_tree(self._env.fs, path)
        except (OSError, TidelogError) as error:
            why.add_note(f"what was begun could not be taken back: {error}")


def _blamed(root: Root, error: OSError) -> Exception:
    return error if error.errno in _NOT_THE_ROOTS else _RootFailedError(root, error)
