"""Which steps of a pipeline are done, in a file beside the root.

    {"version": 2, "running": "2-compact", "steps": {"1-ingest": {"settings": "8c5f...", "input": "03ab..."}}}

What is written down of a step is the input as it was before the step began. What arrives while a step runs
is therefore new to the next run, whether the step took it or not.

`running` names a step that has begun. If the process dies, that step and all later ones count as not done:
the step may have changed what the later ones work on, and when it runs again it cannot tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.errors import InvalidIndexError
from tidelog.storage import LOCAL, atomic_write

__all__ = ["PipelineState"]

_VERSION = 2


class PipelineState:
    """The file that says which steps are done."""

    def __init__(self, path: Path) -> None:
        """Read the file; a missing one, or one of an older version, says that nothing is done."""
        self._path = path
        self._steps: dict[str, dict[str, Any]] = {}
        if not path.exists():
            return
        try:
            content = json.loads(path.read_bytes())
            if content["version"] == _VERSION:
                self._steps = dict(content["steps"])
                self._drop(content.get("running"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidIndexError(f"{path} does not say which steps are done: {error}") from error

    def note(self, step: str) -> Mapping[str, Any] | None:
        """What was written down when a step was finished; None for one that is not done."""
        return self._steps.get(step)

    def begin(self, step: str) -> None:
        """Write down that a step has begun."""
        self._write(step)

    def done(self, step: str, note: Mapping[str, Any], *, changed: bool) -> None:
        """Write down that a step is finished; if it changed anything, that later steps are not."""
        if changed:
            self._drop(step)
        self._steps[step] = dict(note)
        self._write(None)

    def _drop(self, step: str | None) -> None:
        """Forget a step and all that come after it."""
        if step is not None:
            first = _number(step)
            self._steps = {name: note for name, note in self._steps.items() if _number(name) < first}

    def _write(self, running: str | None) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = {"version": _VERSION, "running": running, "steps": self._steps}
        atomic_write(LOCAL, self._path, json.dumps(content).encode())


def _number(step: str) -> int:
    return int(step.partition("-")[0])
