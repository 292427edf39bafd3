"""Fetch sessions (KIP-227): a consumer names its partitions once, and then only what changes.

    request          session id   epoch      answer
    no session       0            -1         everything; ends the session that is named, if any
    a new session    any          0          everything, and a new session's id
    incremental      its id       1, 2, ...  only partitions with records, an error or moved offsets

A wrong id or epoch is an error, after which the client begins anew. The table is bounded: the session that
was used longest ago makes room. A session takes its partitions by topic id or by name, not by both.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.broker.errors import Code

__all__ = ["FetchContext", "FetchSessions", "Fetched", "Wanted", "WantedKey", "wanted_of"]

_EPOCH_MAX = (1 << 31) - 1
_FINAL_EPOCH = -1
_INITIAL_EPOCH = 0

WantedKey = tuple[uuid.UUID | str, int]
"""A topic, by its id or name, and a partition."""


class Wanted(NamedTuple):
    """What a client wants of a partition."""

    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class Fetched(NamedTuple):
    """What of a partition's answer a session remembers."""

    high_watermark: int
    last_stable: int
    log_start: int


@dataclass(slots=True)
class _Session:
    session_id: int
    by_id: bool
    partitions: dict[WantedKey, Wanted]
    epoch: int = 1
    answered: dict[WantedKey, Fetched] = field(default_factory=dict)
    is_new: bool = True


@dataclass(slots=True)
class FetchContext:
    """One fetch: the partitions to read, in order, and which answers to send."""

    partitions: Mapping[WantedKey, Wanted]
    session: _Session | None = None
    is_full: bool = True
    error: Code = Code.NONE

    @property
    def session_id(self) -> int:
        """The session's id, 0 for none."""
        return 0 if self.session is None else self.session.session_id

    def includes(self, key: WantedKey, fetched: Fetched, has_records: bool, failed: bool) -> bool:
        """Whether a partition's answer is sent; the session remembers it."""
        session = self.session
        if session is None:
            return True
        changed = session.answered.get(key) != fetched
        if failed:
            session.answered.pop(key, None)
        else:
            session.answered[key] = fetched
        if not self.is_full and (has_records or failed) and key in session.partitions:
            # It goes behind the others, so that they have their turn next time.
            session.partitions[key] = session.partitions.pop(key)
        return self.is_full or has_records or failed or changed


class FetchSessions:
    """The sessions of all clients."""

    def __init__(self, slots: int = 1000, source: random.Random | None = None) -> None:
        self._slots = slots
        self._sessions: dict[int, _Session] = {}  # the one used longest ago first
        self._source = source or random.Random()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Mapping[WantedKey, Wanted],
        forgotten: Iterable[WantedKey],
        by_id: bool,
    ) -> FetchContext:
        """What a request wants read, by itself or with what its session knows."""
        if epoch == _FINAL_EPOCH:
            self._sessions.pop(session_id, None)
            return FetchContext(wanted)
        if epoch == _INITIAL_EPOCH:
            self._sessions.pop(session_id, None)
            return FetchContext(wanted, self._new(wanted, by_id))
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext({}, error=Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext({}, error=Code.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return FetchContext({}, error=Code.FETCH_SESSION_TOPIC_ID_ERROR)
        del self._sessions[session_id]
        for key in forgotten:
            session.partitions.pop(key, None)
            session.answered.pop(key, None)
        session.partitions.update(wanted)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        if not session.partitions:  # emptied: it ends, as in Kafka
            return FetchContext({}, None)
        self._sessions[session_id] = session
        return FetchContext(dict(session.partitions), session, is_full=False)

    def _new(self, wanted: Mapping[WantedKey, Wanted], by_id: bool) -> _Session | None:
        if not wanted or self._slots <= 0:
            return None
        while len(self._sessions) >= self._slots:
            del self._sessions[next(iter(self._sessions))]
        while True:
            session_id = self._source.randint(1, _EPOCH_MAX)
            if session_id not in self._sessions:
                break
        session = _Session(session_id, by_id, dict(wanted))
        self._sessions[session_id] = session
        return session


def wanted_of(request: Any) -> tuple[dict[WantedKey, Wanted], list[WantedKey]]:
    """What a Fetch request names, and what it wants forgotten."""
    wanted = {
        (_topic(topic), one.partition): Wanted(
            one.fetch_offset,
            one.partition_max_bytes,
            getattr(one, "current_leader_epoch", -1),
            getattr(one, "last_fetched_epoch", -1),
        )
        for topic in request.topics
        for one in topic.partitions
    }
    forgotten = [
        (_topic(topic), number)
        for topic in getattr(request, "forgotten_topics_data", ())
        for number in topic.partitions
    ]
    return wanted, forgotten


def _topic(topic: Any) -> uuid.UUID | str:
    if hasattr(topic, "topic_id"):
        return topic.topic_id or uuid.UUID(int=0)
    return str(topic.topic)
