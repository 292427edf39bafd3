"""Listeners (`on_event`) that use the store they listen to: nobody waits for anybody for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.manager.compacted import COMPACT, fill
from tests.manager.stores import some
from tests.manager.test_threads import at_once
from tests.waiting import PATIENCE_S, wait_until
from tidelog.errors import CorruptRecordError, TidelogError
from tidelog.manager import Store
from tidelog.manager.background import cleaning as cleaning_module
from tidelog.manager.store.events import Event, LoadProgress, LogCleaned, LogUncleanable, RootWentOffline
from tidelog.storage import LocalFileSystem
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

USERS = TopicPartition("users", 0)

ASKED: dict[str, Callable[[Store], Any]] = {
    "topics": lambda store: store.topics,
    "metrics": lambda store: store.metrics(),
    "partitions": lambda store: [
        partition.log_end_offset for partition in store.partitions if partition.is_online
    ],
    "create": lambda store: store.create_topic("made"),
    "delete": lambda store: store.delete_topic("other"),
    "delete this": lambda store: store.delete_topic("users"),
    "config": lambda store: store.alter_config("other", {"retention.ms": 1}),
    "truncate": lambda store: store.truncate_partition("other", 0, 0),
    "checkpoint": lambda store: store.checkpoint(),
    "clean": lambda store: store.clean(),
    "clean this": lambda store: store.clean(USERS),
    "retention": lambda store: store.apply_retention(),
    "flush": lambda store: store.flush(),
    "close": lambda store: store.close(),
}


class Listener:
    """Asks the store something at each event of a kind, in a thread of the store's or of its own."""

    def __init__(self, ask: Callable[[Store], Any], kinds: tuple[type, ...]) -> None:
        self.ask, self.kinds = ask, kinds
        self.store: Store | None = None
        self.events: list[Event] = []
        self.asked = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if self.store is not None and isinstance(event, self.kinds) and not self.asked.is_set():
            for run in (self._run, self._run_elsewhere):
                run()
            self.asked.set()

    def _run(self) -> None:
        try:
            assert self.store is not None
            self.ask(self.store)
        except (TidelogError, ValueError, OSError):
            pass  # there already, gone already, closed: but it came back

    def _run_elsewhere(self) -> None:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("waits", [False, True], ids=["alone", "while delete_topic waits"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_listener_uses_the_store_when_cleaning_fails(
    tmp_path: Path, asked: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener(ASKED[asked], (LogUncleanable, LogCleaned))
    with tidelog.open(tmp_path / "r", background=False, on_event=listener) as store:
        store.create_topic("other")
        users = store.create_topic("users", config=COMPACT)[0]
        fill(users)
        listener.store = store
        begun, go_on = threading.Event(), threading.Event()

        def fail(*arguments: Any) -> Any:
            begun.set()
            assert go_on.wait(PATIENCE_S)
            raise CorruptRecordError("damaged")

        monkeypatch.setattr(cleaning_module._cleaner, "clean_log", lambda *_, **__: fail())
        cleaning = threading.Thread(target=lambda: _try(lambda: store.clean(USERS)), daemon=True)
        cleaning.start()
        assert begun.wait(PATIENCE_S)
        deleting = threading.Thread(target=lambda: _try(lambda: store.delete_topic("users")), daemon=True)
        if waits:
            deleting.start()
            wait_until(lambda: store._states.is_paused(USERS))
        go_on.set()
        assert listener.asked.wait(PATIENCE_S), listener.events
        cleaning.join(PATIENCE_S)
        if waits:
            deleting.join(PATIENCE_S)
        assert not cleaning.is_alive()
        assert not deleting.is_alive()


def _try(work: Callable[[], Any]) -> None:
    try:
        work()
    except TidelogError:
        pass


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.delete_topic("users"),
        lambda store: store.truncate_partition("users", 0, 1),
        lambda store: store.checkpoint(),
    ],
    ids=["delete", "truncate", "checkpoint"],
)
def test_a_listener_uses_the_store_when_a_root_fails(
    tmp_path: Path, asked: str, change: Callable[[Store], Any]
) -> None:
    class Failing(LocalFileSystem):
        fails = False

        def rename(self, source: StrPath, target: StrPath) -> None:
            if self.fails and str(target).endswith("-checkpoint"):
                raise OSError(5, "the disk is gone", str(target))
            super().rename(source, target)

    fs, listener = Failing(), Listener(ASKED[asked], (RootWentOffline,))
    with tidelog.open(tmp_path / "r", background=False, on_event=listener, fs=fs) as store:
        store.create_topic("other")
        store.create_topic("users", config=COMPACT)[0].append(some(10))
        listener.store, fs.fails = store, True
        thread = threading.Thread(target=lambda: _try(lambda: change(store)), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert listener.asked.is_set()
        fs.fails = False


def test_events_keep_their_order(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(8)]
    with tidelog.open(tmp_path / "r", background=False) as store:
        for name in names:
            store.create_topic(name)[0].append(some(3))
    events: list[Event] = []
    with tidelog.open(tmp_path / "r", background=False, on_event=events.append):
        pass
    done = [event.logs_done for event in events if isinstance(event, LoadProgress)]
    assert done == list(range(1, len(names) + 1))


def test_listeners_among_many_threads(tmp_path: Path) -> None:
    listener = Listener(lambda store: store.metrics(), (LogCleaned, LogUncleanable))

    def hear(event: Event) -> None:
        listener.asked.clear()
        listener(event)

    with tidelog.open(tmp_path / "r", background=False, on_event=hear) as store:
        store.create_topic("users", config=COMPACT | {"min.cleanable.dirty.ratio": 0})
        listener.store = store

        def come_and_go() -> None:
            store.create_topic("x", config=COMPACT)
            store.delete_topic("x")

        def clean() -> None:
            fill(store.partition("users"), 20, roll_every=10)
            store.clean(USERS)

        at_once([come_and_go, clean, store.checkpoint, store.run_due_tasks], 1.0)
        assert any(isinstance(event, LogCleaned) for event in listener.events)
