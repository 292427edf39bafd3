"""The write journal and what is staged: read as written, damage told, leftovers judged."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
import uuid
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.manager.publishing import (
    NOW,
    contents,
    open_root,
    prepare,
    publish_values,
    stage,
    tasks,
)
from tidelog.errors import InvalidIndexError, LogError
from tidelog.manager.publishing.committing import sweep_staging
from tidelog.manager.publishing.mark import begin_staging
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id
from tidelog.storage.processes import identify, is_gone, owner
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    PendingPartition,
    PendingWrite,
    WriteJournal,
    format_journal,
    parse_journal,
    read_journal,
    remembered,
    write_journal,
)
from tidelog.testing.faults import Call, Fault, FaultyFileSystem
from tidelog.types import TopicPartition


def test_a_journal_says_what_was_written_into_it() -> None:
    partition = PendingPartition(TopicPartition("a.b-c", 7), 1, 2, 3, 4, 5)
    pending = PendingWrite("q", 5, "/s", ("a", "b"), (partition,), True)
    journal = WriteJournal(9, {"q": 4}, pending)
    assert parse_journal(format_journal(journal), "x") == journal
    assert parse_journal(format_journal(WriteJournal()), "x") == WriteJournal()
    told = replace(partition, topic_id=uuid.UUID(int=8), checksums=bytes(range(8)))
    journal = replace(journal, pending=replace(pending, partitions=(told, partition)))
    assert parse_journal(format_journal(journal), "x") == journal


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


def leave_half(tmp_path: Path, root: str) -> bytes:
    """Publish, and fail half-way, so that not even the taking back succeeds; the journal, which is set aside
    as if a broker, which passes over it, were started next.
    """
    half = False

    def rule(call: Call) -> Fault | None:
        nonlocal half
        half = half or (call.operation == "pwrite" and call.path.endswith("/u-1/00000000000000000000.log"))
        return Fault(errno.ENOSPC) if half and call.operation in ("pwrite", "create") else None

    fs = FaultyFileSystem(LOCAL, lambda call: None)
    store = open_root(root, fs)
    fs.rule = rule
    with pytest.raises(OSError, match="No space left"):
        publish_values(store, fs, str(tmp_path / "staging"), tasks(), query="q")
    fs.rule = lambda call: None
    store.close()
    shutil.rmtree(tmp_path / "staging")
    data = Path(root, JOURNAL_FILE).read_bytes()
    Path(root, JOURNAL_FILE).unlink()
    return data


def test_records_of_a_broker_in_the_same_epoch_are_not_cut(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    prepare(LOCAL, root)
    data = leave_half(tmp_path, root)
    with open_root(root) as store:
        store.partition("t", 1).append([Record(b"a broker's", timestamp=NOW)])
        assert store.partition("t", 1).leader_epoch == 0
        between = contents(store)
    Path(root, JOURNAL_FILE).write_bytes(data)
    with pytest.raises(LogError, match=f"others have written behind.*{JOURNAL_FILE}"):
        open_root(root)
    Path(root, JOURNAL_FILE).unlink()
    with open_root(root) as store:
        assert contents(store) == between


def test_a_topic_that_was_made_anew_is_left_alone(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    data = leave_half(tmp_path, root)
    with open_root(root) as store:
        for topic in ("t", "u"):
            store.delete_topic(topic)
        store.create_topic("u", 2)
        store.create_topic("t", 2).partitions[0].append([Record(b"new", timestamp=NOW)] * 10)
    Path(root, JOURNAL_FILE).write_bytes(data)
    empty: dict[TopicPartition, list[bytes]] = {name: [] for name in before}
    with open_root(root) as store:
        assert contents(store) == empty | {TopicPartition("t", 0): [b"new"] * 10}
    assert not read_journal(LOCAL, root).has("q", 0), "nothing of it was published"


def test_what_dead_writers_left_is_swept_and_the_living_stay(tmp_path: Path) -> None:
    stage(LOCAL, str(tmp_path / "dead"), "task", tasks()[0], {"t": 2})
    stage(LOCAL, str(tmp_path / "living"), "task", tasks()[0], {"t": 2})
    for path in [*(tmp_path / "dead").iterdir(), tmp_path / "dead"]:
        LOCAL.set_mtime(path, NOW)
    assert sweep_staging(str(tmp_path), int(time.time() * 1000)) == [str(tmp_path / "dead")]
    assert [path.name for path in tmp_path.iterdir()] == ["living"]


DAY_MS = 24 * 60 * 60 * 1000


def test_queries_are_remembered_for_thirty_days_and_ledgers_for_good() -> None:
    old, young = NOW - 31 * DAY_MS, NOW - 29 * DAY_MS
    journal = WriteJournal(
        9,
        {"old": 4, "young": 2, "untimed": 7, "ingest 8c5f": 3},
        published={"old": old, "young": young, "ingest 8c5f": old},
    )
    kept = remembered(journal, NOW)
    assert kept.committed == {"young": 2, "untimed": 7, "ingest 8c5f": 3}
    assert kept.published["untimed"] == NOW
    assert remembered(kept, NOW + 29 * DAY_MS).committed == {"untimed": 7, "ingest 8c5f": 3}
    assert remembered(kept, NOW + 31 * DAY_MS).committed == {"ingest 8c5f": 3}
    assert parse_journal(format_journal(kept), "journal") == kept


def test_at_most_so_many_queries_are_remembered_the_newest_first() -> None:
    committed = {f"q{n}": n for n in range(100_010)} | {"ingest a": 1}
    journal = WriteJournal(
        1, committed, published={f"q{n}": NOW + n for n in range(100_010)} | {"ingest a": 0}
    )
    kept = remembered(journal, NOW + 100_010)
    assert len(kept.committed) == 100_000
    assert "ingest a" in kept.committed
    assert "q100009" in kept.committed
    assert "q10" not in kept.committed
    assert len(format_journal(kept)) < 10 << 20


def test_a_journal_of_an_older_release_has_no_times() -> None:
    body = '{"sequence":7,"committed":{"q":3},"pending":null,"root":"r"}'
    data = f"1\n{zlib.crc32(body.encode()):08x}\n{body}\n".encode()
    journal = parse_journal(data, "journal")
    assert journal.has("q", 3)
    assert remembered(journal, NOW).published == {"q": NOW}


def test_what_a_process_that_is_gone_left_is_swept_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        staging = tmp_path / "staging"
        identity = identify(process.pid)
        begin_staging(LOCAL, str(staging / "theirs"), identity)
        begin_staging(LOCAL, str(staging / "ours"), identify(os.getpid()))
        begin_staging(LOCAL, str(staging / "unknown"))
        begin_staging(LOCAL, str(staging / "elsewhere"), f"other-boot {identity.partition(' ')[2]}")
        stage(LOCAL, str(staging / "theirs"), "task", tasks()[0], {"t": 2})
        now = int(time.time() * 1000)
        assert not is_gone(identity)
        assert sweep_staging(str(staging), now) == []
        process.stdin.close()
        process.wait()
        assert is_gone(identity)
        assert sweep_staging(str(staging), now) == [str(staging / "theirs")]
    assert sorted(path.name for path in staging.iterdir()) == ["elsewhere", "ours", "unknown"]


@pytest.mark.parametrize("identity", ["", "x", "a b c d", "a b 1", "\0", "a b -1 5", "9" * 30])
def test_what_names_no_process_of_this_machine_is_never_gone(identity: str) -> None:
    assert not is_gone(identity)


def test_an_id_that_was_given_again_is_another_process() -> None:
    here, _, start = identify(os.getpid()).rpartition(" ")
    assert not is_gone(f"{here} {start}")
    assert is_gone(f"{here} {int(start) + 1}")
    assert owner().split()[:2] == here.split()[:2]
