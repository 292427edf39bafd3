"""Making partitions: all that were asked for, or none.

1. Each new partition is placed (`placement`). A new topic is registered: a crash leaves it whole then.
2. Their logs are made, and the roots synced. More partitions of a topic are registered only now: what is
   registered of a topic cannot be taken back from it.
3. If a root fails meanwhile, it is used no more, and all of it begins anew with the others, as a broker takes
   the next log directory. What fails for another reason (too many open files) is raised.

Whatever is raised, the directories that were made are gone, and nothing of them is registered. A directory
that was there before is never removed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.errors import LogOfflineError, TidelogError
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.store.opening import Environment
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.placement import place
from tidelog.manager.store.root import Root
from tidelog.manager.store.topics import Topic
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

__all__ = ["Creation"]

_NOT_THE_ROOTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that another root would meet, too."""


class _RootFailedError(Exception):
    def __init__(self, root: Root, error: OSError) -> None:
        super().__init__(str(error))
        self.root, self.error = root, error


@dataclass(slots=True)
class _Begun:
    """What there is of an attempt."""

    partitions: dict[int, Partition] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    """Those that were not there before."""


class Creation:
    """Makes partitions in a store's roots."""

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

    def add(
        self, topic: Topic, numbers: Sequence[int], config: LogConfig, *, is_new: bool
    ) -> dict[int, Partition]:
        """Make a topic's partitions of these numbers; LogOfflineError where no root is left to take them."""
        failure: OSError | None = None
        while True:
            online = self._roots()
            if not online:
                raise failure or LogOfflineError(
                    f"topic {topic.name!r} cannot be made: no root is online. Open the store again when its "
                    "disks are back"
                )
            counts = {root: sum(one.root is root for one in self._partitions()) for root in online}
            try:
                return self._attempt(topic, place(numbers, online, counts), config, is_new)
            except _RootFailedError as failed:
                self._fail(failed.root, failed.error)
                failure = failed.error

    def _attempt(
        self, topic: Topic, places: dict[int, Root], config: LogConfig, is_new: bool
    ) -> dict[int, Partition]:
        begun = _Begun()
        for number, root in places.items():
            partition = Partition(TopicPartition(topic.name, number), topic.topic_id, 0)
            partition.assign(root)
            begun.partitions[number] = partition
        grown = Topic(topic.name, topic.topic_id, topic.config, topic.partitions | begun.partitions)
        if is_new:
            self._registry.register([grown.registration()])
        try:
            self._make_logs(begun, places, config)
            if not is_new:
                self._registry.register([grown.registration()])
        except BaseException as error:
            self._take_back(topic, begun, is_new, error)
            raise
        return begun.partitions

    def _make_logs(self, begun: _Begun, places: dict[int, Root], config: LogConfig) -> None:
        fs = self._env.fs
        for number, root in places.items():
            partition = begun.partitions[number]
            path = root.file(str(partition.topic_partition))
            try:
                if not fs.exists(path) and not fs.is_link(path):
                    begun.directories.append(path)
                log = self._env.open_log(path, config, topic_id=partition.topic_id, clean=True)
            except OSError as error:
                raise _blamed(root, error) from error
            partition.attach(log, root)
        for root in set(places.values()):
            try:
                fs.sync_directory(root.path)
            except OSError as error:
                raise _blamed(root, error) from error

    def _take_back(self, topic: Topic, begun: _Begun, is_new: bool, why: BaseException) -> None:
        """Let go of the files first: there may be none left to open."""
        for partition in begun.partitions.values():
            partition.go_offline(why)
        try:
            if is_new:
                self._registry.register(removed=[topic.topic_id])
            for path in begun.directories:
                remove_tree(self._env.fs, path)
        except (OSError, TidelogError) as error:
            why.add_note(f"what was begun could not be taken back: {error}")


def _blamed(root: Root, error: OSError) -> Exception:
    return error if error.errno in _NOT_THE_ROOTS else _RootFailedError(root, error)
