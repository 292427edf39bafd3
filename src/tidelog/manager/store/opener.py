"""Opening a store: what `tidelog.open` does with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from tidelog.errors import InvalidInputError
from tidelog.lazy import LazyModule
from tidelog.log.log import clock_ms
from tidelog.manager.background.scheduler import TaskQueue, monotonic_ms
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.environment import Environment
from tidelog.manager.store.events import Event, EventDispatcher
from tidelog.manager.store.open_options import OpenOptions
from tidelog.manager.store.opening import open_roots
from tidelog.manager.store.store import Store
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.files import is_path
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

    from tidelog.manager.store.readonly import ReadOnlyStore

__all__ = ["open_store"]

_readonly = LazyModule("tidelog.manager.store.readonly")  # with all that reads files at rest


@overload
def open_store(
    roots: StrPath | Sequence[StrPath] = (),
    *,
    mode: Literal["r"],
    config: BrokerConfig | StrPath | None = None,
) -> ReadOnlyStore: ...


@overload
def open_store(
    roots: StrPath | Sequence[StrPath] = (),
    *,
    mode: Literal["w"] = "w",
    config: BrokerConfig | StrPath | None = None,
    create: bool = True,
    adopt: bool | None = None,
    recover: bool = False,
    discard: bool = False,
    force: bool = False,
    topics: Iterable[str | TopicPartition] | None = None,
    background: bool | None = None,
    on_event: Callable[[Event], None] | None = None,
    fs: FileSystem = LOCAL,
    now_ms: Callable[[], int] | None = None,
) -> Store: ...


def open_store(
    roots: StrPath | Sequence[StrPath] = (),
    *,
    mode: str = "w",
    config: BrokerConfig | StrPath | None = None,
    create: bool = True,
    adopt: bool | None = None,
    recover: bool = False,
    discard: bool = False,
    force: bool = False,
    topics: Iterable[str | TopicPartition] | None = None,
    background: bool | None = None,
    on_event: Callable[[Event], None] | None = None,
    fs: FileSystem = LOCAL,
    now_ms: Callable[[], int] | None = None,
) -> Store | ReadOnlyStore:
    """Open one or more root directories, as a broker opens its `log.dirs`. Close the store, or use `with`.

    With `mode="r"` they are opened for reading only: no lock, no write, even if a broker uses them
    (`store.readonly`). Of the other arguments, only `config` is used then.

    `config` is a broker's configuration or the path of its `server.properties`; its `log.dirs` are used if no
    roots are given. Missing roots are created unless `create` is false. `on_event` is called with progress
    and failures (`manager.store.events`). `fs` and `now_ms` are for tests.

    `background` controls background work. By default a thread flushes logs by `flush.ms`, writes checkpoints
    and finishes what calls have started, such as removing the files of deleted topics; nothing else is
    deleted. With True it also applies retention and compaction, as a broker does, and removes `-delete`
    directories that it finds. With False there is no thread: `run_due_tasks` runs everything that is due,
    including retention and compaction.

    Opening changes only what you ask for:

    `recover`   A root that was not closed cleanly is refused (UncleanShutdownError), because recovery may
                cut off damaged ends. With `recover` it is recovered, and what is cut is kept beside the log
                (`<file>.from-<position>`), or not, with `discard`.
    `adopt`     Partitions that the metadata does not know are left as they are and listed in `Store.skipped`.
                With `adopt` they are registered; those that cannot be are renamed to `-stray`. If a root has
                no metadata and no owner, its partitions are registered anyway.
    `force`     Allow appends to partitions of which other brokers hold replicas.
    `topics`    Only these topics and single partitions are opened; the others are not touched.

    Raises LogLockedError, which names the process, if another process has a root open.
    """
    if isinstance(config, BrokerConfig):
        broker = config
    else:
        broker = BrokerConfig() if config is None else BrokerConfig.read(config, fs)
    listed = [roots] if is_path(roots) else list(roots)
    if mode not in ("r", "w"):
        raise InvalidInputError(f"mode is 'r' (read) or 'w' (read and write), not {mode!r}")
    if mode == "r":
        seen: ReadOnlyStore = _readonly.open_readonly(listed or broker.log_dirs)
        return seen
    paths = [str(Path(path).absolute()) for path in listed or broker.log_dirs]
    queue = TaskQueue(now_ms or (clock_ms if background is False else monotonic_ms))
    tell = EventDispatcher(on_event)
    env = Environment(fs, broker, now_ms or clock_ms, queue, tell)
    options = OpenOptions(
        create=create,
        adopt=adopt,
        recover=recover,
        discard=discard,
        force=force,
        topics=None if topics is None else frozenset(topics),
    )
    return Store(open_roots(paths, env, options), env, queue, background=background)
