"""Facts that follow the files: gathered again only if something has changed, and only where it has.

1. A fingerprint of every directory (names, sizes, times of change) tells whether anything has changed. If
   nothing has, the facts are those of the last time, ready as JSON.
2. If something has, facts are gathered again; a partition whose directory and checkpoints have not changed
   keeps its own.
3. One thread gathers at a time. The others, and requests soon after a gathering that took long, are answered
   with the last facts: gathering takes a fifth of the time at most.

Directories in an object store have no fingerprint: their facts are gathered again after a while.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.errors import TidelogError
from tidelog.report.facts import Progress, gather, look_locally
from tidelog.scanning.partitions import Partition, list_partitions
from tidelog.storage.fingerprints import directory_fingerprint

__all__ = ["FactsWatch", "Snapshot"]

_REST = 4
"""How much longer than a gathering the pause after it is."""
_PATIENCE_S = 5.0
"""How long gathering may fail before that is told."""
_REMOTE_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Facts, also as JSON, and a name for them that changes when they do."""

    facts: dict[str, Any]
    body: bytes
    etag: str


class FactsWatch:
    """The facts of paths, as new as they need be."""

    def __init__(self, paths: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._paths = list(paths)
        self._clock = clock
        self._turn = threading.Lock()
        self._last: Snapshot | None = None
        self._seen: Mapping[str, int] = {}
        self._due = 0.0
        self._failing_since: float | None = None
        self._partitions: dict[str, tuple[Any, dict[str, Any] | None]] = {}
        self.looks = 0
        """How many times a partition was looked at."""

    def current(self) -> Snapshot:
        """The facts; the last ones where gathering fails, as it may while a topic is deleted.

        Raises what gathering them raises, if there are none yet or it has failed for some seconds.
        """
        last = self._last
        if not self._turn.acquire(blocking=last is None):
            assert last is not None
            return last
        try:
            if self._last is not None and self._clock() < self._due:
                return self._last
            found = self._refresh()
            self._failing_since = None
            return found
        except (TidelogError, OSError):
            now = self._clock()
            self._failing_since = now if self._failing_since is None else self._failing_since
            if self._last is None or now - self._failing_since > _PATIENCE_S:
                raise
            return self._last
        finally:
            self._turn.release()

    def _refresh(self) -> Snapshot:
        seen = self._look_around()
        if self._last is not None and seen == self._seen:
            return self._last
        began = self._clock()
        facts = gather(self._paths, examine=False, look=self._look)
        took = self._clock() - began
        is_remote = any("://" in path for path in self._paths)
        self._due = self._clock() + max(_REST * took, _REMOTE_PAUSE_S if is_remote else 0.0)
        body = json.dumps(facts, separators=(",", ":")).encode("ascii")
        etag = hashlib.sha256(body).hexdigest()[:32]
        self._last, self._seen = Snapshot(facts, body, f'"{etag}"'), seen
        return self._last

    def _look_around(self) -> dict[str, int]:
        """The fingerprints of all directories; those of an object store differ every time."""
        found = {path: _fingerprint(path) for path in self._paths}
        for one in list_partitions_of(self._paths):
            for url in (one.url, one.url.rpartition("/")[0]):
                if url not in found:
                    found[url] = _fingerprint(url)
        return found

    def _look(
        self, partitions: Sequence[Partition], columns: int, known: Any, progress: Progress, records: bool
    ) -> list[dict[str, Any] | None]:
        """As `look_locally`; a partition that has not changed is not looked at again."""
        around = columns, None if known is None else repr(sorted(known.items(), key=lambda item: item[0]))
        marks = [
            (_fingerprint(one.url), one.log_start_offset, one.high_watermark, around) for one in partitions
        ]
        stale = [
            one
            for one, mark in zip(partitions, marks, strict=True)
            if self._partitions.get(one.url, (None,))[0] != mark
        ]
        self.looks += len(stale)
        looked = look_locally(stale, columns, known, progress, records)
        fresh = {one.url: facts for one, facts in zip(stale, looked, strict=True)}
        self._partitions = {
            one.url: (mark, fresh[one.url] if one.url in fresh else self._partitions[one.url][1])
            for one, mark in zip(partitions, marks, strict=True)
        }
        return [facts for _, facts in self._partitions.values()]


def list_partitions_of(paths: Sequence[str]) -> list[Partition]:
    """All partitions under the paths, each path by itself: the same one may be in two roots."""
    return [one for path in paths for one in list_partitions(path, marked=True)]


def _fingerprint(url: str) -> int:
    if "://" in url:
        return time.monotonic_ns()
    try:
        return directory_fingerprint(url)
    except (FileNotFoundError, NotADirectoryError):
        return -1
