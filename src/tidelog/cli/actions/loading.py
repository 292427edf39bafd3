"""Opening a root: progress of loading and recovering its logs, drawn from a store's events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog import manager
from tidelog.cli.render.output import Output, Progress
from tidelog.manager.store.events import Event, LoadProgress, LoadStarted

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["LoadBar", "opened_root"]


class LoadBar:
    """Takes events (`on_event`, `tell`) and shows how many bytes are recovered, and the time left.

    Roots are loaded side by side; they share one bar. After an orderly stop there is nothing to show.
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


@contextmanager
def opened_root(
    root: StrPath | Sequence[StrPath], output: Output, *, create: bool = False
) -> Iterator[manager.Store]:
    """A root under its lock, recovered if need be; nothing happens in it by itself."""
    with LoadBar(output) as tell:
        store = manager.open_store(root, create=create, background=False, on_event=tell)
    with store:
        yield store
