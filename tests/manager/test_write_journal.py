"""The write journal and what is staged: read as written, damage told, leftovers judged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.manager.publishing import (
    NOW,
    contents,
    open_root,
    prepare,
    stage,
    tasks,
)
from tidelog.errors import InvalidIndexError, LogError
from tidelog.manager.publishing.committing import sweep_staging
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    PendingPartition,
    PendingWrite,
    WriteJournal,
    format_journal,
    parse_journal,
    read_journal,
    write_journal,
)
from tidelog.types import TopicPartition


def test_a_journal_says_what_was_written_into_it() -> None:
    partition = PendingPartition(TopicPartition("a.b-c", 7), 1, 2, 3, 4, 5)
    journal = WriteJournal(9, {"q": 4}, PendingWrite("q", 5, "/s", ("a", "b"), (partition,), True))
    assert parse_journal(format_journal(journal), "x") == journal
    assert parse_journal(format_journal(WriteJournal()), "x") == WriteJournal()


def test_a_damaged_journal_is_told() -> None:
    whole = format_journal(WriteJournal(9, {"q": 4}))
    for position in range(len(whole) - 1):
        changed = bytearray(whole)
        changed[position] ^= 0x15
        with pytest.raises(InvalidIndexError, match="the-journal"):
            parse_journal(bytes(changed), "the-journal")
        with pytest.raises(InvalidIndexError, match="the-journal"):
            parse_journal(whole[:position], "the-journal")


def pend(root: str, before: dict[TopicPartition, list[bytes]], records: int = 2) -> None:
    """A journal of a write of which one partition has two records; nothing is staged."""
    names = [TopicPartition("t", 0), TopicPartition("u", 0)]
    partitions = tuple(PendingPartition(name, len(before[name]), records, 0, 0, 0) for name in names)
    with open_root(root) as store:
        store.partition("t", 0).append([Record(b"half", timestamp=NOW)] * 2)
        ours = format_id(store.roots[0].identity.directory_id)
    write_journal(LOCAL, root, WriteJournal(1, {}, PendingWrite("", 0, "/nowhere", ("x",), partitions), ours))


def test_staged_data_that_is_gone_takes_the_write_back(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    pend(root, before)
    with open_root(root) as store:
        store.partition("t", 0)
        assert contents(store) == before
        assert read_journal(LOCAL, root).pending is None


def test_nothing_of_others_is_cut(tmp_path: Path) -> None:
    """A broker, which passes over the journal, may have written behind what was left."""
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    pend(root, before, records=1)
    with pytest.raises(LogError, match=f"others have written behind.*{JOURNAL_FILE}"):
        open_root(root)
    Path(root, JOURNAL_FILE).unlink()
    with open_root(root) as store:
        assert contents(store)[TopicPartition("t", 0)][-2:] == [b"half"] * 2


def test_what_dead_writers_left_is_swept_and_the_living_stay(tmp_path: Path) -> None:
    stage(LOCAL, str(tmp_path / "dead"), "task", tasks()[0], {"t": 2})
    stage(LOCAL, str(tmp_path / "living"), "task", tasks()[0], {"t": 2})
    for path in [*(tmp_path / "dead").iterdir(), tmp_path / "dead"]:
        LOCAL.set_mtime(path, NOW)
    assert sweep_staging(str(tmp_path), int(time.time() * 1000)) == [str(tmp_path / "dead")]
    assert [path.name for path in tmp_path.iterdir()] == ["living"]
