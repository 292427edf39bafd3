"""Progress of Spark jobs through the output."""

from __future__ import annotations

from contextlib import ExitStack

from tidelog.cli.render.output import Output, Progress

__all__ = ["Reporter"]


class Reporter:
    """Shows a Spark job's progress once the size of the work is known, until the stack is left."""

    def __init__(self, output: Output, stack: ExitStack, what: str) -> None:
        self._output = output
        self._stack = stack
        self._what = what
        self._progress: Progress | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        """So many bytes of so many are done."""
        if self._progress is None:
            self._progress = self._stack.enter_context(self._output.progress(total, self._what))
        self._progress.advance(done - self._done)
        self._done = done
