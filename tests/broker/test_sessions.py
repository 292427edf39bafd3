"""Fetch sessions: what is read, and what is told, in which order."""

from __future__ import annotations

from tidelog.broker.errors import Code
from tidelog.broker.fetch_sessions import Fetched, FetchSessions, Wanted, WantedKey

A: WantedKey = ("t", 0)
B: WantedKey = ("t", 1)
SAME = Fetched(5, 5, 0)


def test_a_session_remembers_its_partitions() -> None:
    sessions = FetchSessions()
    first = sessions.begin(0, 0, {A: Wanted(0, 10), B: Wanted(0, 10)}, (), False)
    assert first.session_id > 0
    assert list(first.partitions) == [A, B]
    assert first.includes(A, SAME, False, False)
    assert first.includes(B, SAME, False, False)
    second = sessions.begin(first.session_id, 1, {A: Wanted(3, 10)}, (), False)
    assert second.session_id == first.session_id
    assert second.partitions == {A: Wanted(3, 10), B: Wanted(0, 10)}
    assert not second.includes(B, SAME, False, False)
    assert second.includes(B, Fetched(6, 5, 0), False, False)
    assert second.includes(A, SAME, True, False)
    third = sessions.begin(first.session_id, 2, {}, (), False)
    assert list(third.partitions) == [B, A]  # A had records, and goes behind
    assert third.includes(B, SAME, False, True)
    fourth = sessions.begin(first.session_id, 3, {}, [B], False)
    assert list(fourth.partitions) == [A]


def test_wrong_ids_and_epochs_are_refused() -> None:
    sessions = FetchSessions()
    mine = sessions.begin(0, 0, {A: Wanted(0, 10)}, (), False).session_id
    assert sessions.begin(mine + 1, 1, {}, (), False).error is Code.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.begin(mine, 2, {}, (), False).error is Code.INVALID_FETCH_SESSION_EPOCH
    assert sessions.begin(mine, 1, {}, (), True).error is Code.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.begin(mine, 1, {}, (), False).error is Code.NONE
    assert sessions.begin(mine, -1, {A: Wanted(0, 10)}, (), False).session_id == 0
    assert len(sessions) == 0


def test_sessions_are_bounded() -> None:
    sessions = FetchSessions(slots=2)
    ids = [sessions.begin(0, 0, {A: Wanted(0, 10)}, (), False).session_id for _ in range(3)]
    assert len(sessions) == 2
    assert sessions.begin(ids[0], 1, {}, (), False).error is Code.FETCH_SESSION_ID_NOT_FOUND
    assert FetchSessions(slots=0).begin(0, 0, {A: Wanted(0, 10)}, (), False).session_id == 0
