"""Commits that meet failing disks or staged data that is damaged or gone: nothing is published."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.manager.publishing import (
    NOW,
    Values,
    added,
    contents,
    joined,
    open_root,
    prepare,
    publish_values,
    stage,
    tasks,
)
from tidelog.errors import DataLossError, InvalidIndexError, InvalidInputError, LogError, LogOfflineError
from tidelog.layout.roots import Checkpoint
from tidelog.manager.publishing.committing import Write, publish
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.storage.checkpoints import read_offset_checkpoint
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    read_journal,
)
from tidelog.testing.faults import Call, Fault, FaultyFileSystem, Rule, fail_at
from tidelog.types import TopicPartition


def fail_writes_to_t(number: int, code: int) -> Rule:
    """Fail the `number`th write to a log of topic t, and all after it."""
    fail = fail_at(number, code, times=None, written=10)

    def rule(call: Call) -> Fault | None:
        is_meant = call.operation == "pwrite" and call.path.endswith(".log") and "/t-" in call.path
        return fail(call) if is_meant else None

    return rule


@pytest.mark.parametrize("made", [("t",), ("m", "n", "t")])
@pytest.mark.parametrize("failing", ["pwrite", "journal"])
def test_a_failed_write_leaves_no_topic_that_was_made_for_it(
    tmp_path: Path, failing: str, made: tuple[str, ...]
) -> None:
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging")
    with open_root(root) as store:
        store.create_topic("before", 2)
    broken = True

    def rule(call: Call) -> Fault | None:
        is_log = call.operation == "pwrite" and call.path.endswith(".log") and "/t-" in call.path
        is_journal = call.operation == "rename" and JOURNAL_FILE in call.path
        return Fault(errno.ENOSPC) if broken and (is_log if failing == "pwrite" else is_journal) else None

    fs = FaultyFileSystem(LOCAL, rule)
    values = {(topic, 0): [b"x"] for topic in (*made, "before")}
    with open_root(root, fs) as store:
        with pytest.raises((OSError, LogOfflineError)):
            publish_values(store, fs, staging, [values])
        assert set(store.topics) == {"before"}
    with open_root(root) as store:
        assert set(store.topics) == {"before"}
        broken = False
        publish_values(store, LOCAL, str(tmp_path / "again"), [values])
        assert set(store.topics) == {"before", *made}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_in_the_middle_leaves_nothing(tmp_path: Path, code: int) -> None:
    """Each change of a log file from the first on is refused in turn, and all after it."""
    for number in range(1, 40, 2):
        root, staging = str(tmp_path / f"root{number}"), str(tmp_path / f"staging{number}")
        before = prepare(LOCAL, root)
        fs = FaultyFileSystem(LOCAL, fail_writes_to_t(number, code))
        store = open_root(root, fs)
        try:
            publish_values(store, fs, staging, tasks(), query="q")
        except (OSError, LogOfflineError):
            failed = True
        else:
            failed = False
        store.close()
        with open_root(root) as reopened:
            whole = joined(before, added(tasks()))
            assert contents(reopened) == (before if failed else whole)
            assert read_journal(LOCAL, root).has("q", 0) == (not failed)
        if not failed:
            assert number > 1
            return
    raise AssertionError("the disk never stopped failing")


@pytest.mark.parametrize("times", [1, None])
def test_what_is_appended_after_a_failed_write_stays(tmp_path: Path, times: int | None) -> None:
    """The intent is in the journal, but its sync fails: once, or with all that comes after it."""
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging")
    before = prepare(LOCAL, root)
    fail = fail_at(1, errno.EIO, times=times)
    broken = False

    def rule(call: Call) -> Fault | None:
        is_meant = call.operation == "sync_directory" and call.path == root
        return fail(call) if broken and is_meant else None

    fs = FaultyFileSystem(LOCAL, rule)
    with open_root(root, fs) as store:
        broken = True
        with pytest.raises(OSError, match="Input/output error"):
            publish_values(store, fs, staging, tasks(), query="q")
        broken = False
        partition = store.partition("t", 0)
        if times is None:
            with pytest.raises(LogOfflineError, match=f"{JOURNAL_FILE}.*could not be taken back"):
                partition.append([Record(b"late", timestamp=NOW)], sync=True)
            with pytest.raises(LogError, match="Close the store and open it again"):
                publish_values(store, fs, f"{staging}-again", tasks(), query="q", batch=1)
        else:
            partition.append([Record(b"late", timestamp=NOW)], sync=True)
            before[partition.topic_partition].append(b"late")
    shutil.rmtree(staging)
    with open_root(root, recover=False) as store:
        assert contents(store) == before


def test_no_recovery_point_stays_above_a_write_that_was_taken_back(tmp_path: Path) -> None:
    """A checkpoint is written while one partition has its part on the disk; the other's part fails."""
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging")
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    written = []

    def rule(call: Call) -> Fault | None:
        is_meant = call.operation == "pwrite" and call.path.endswith(".log") and "/t-1/" in call.path
        if not is_meant or written:
            return None
        store.checkpoint()
        written.append(store.roots[0].checkpoints[Checkpoint.RECOVERY_POINTS][first])
        return Fault(errno.ENOSPC)

    fs = FaultyFileSystem(LOCAL, rule)
    with open_root(root, fs) as store:
        store.create_topic("t", 2)
        with pytest.raises(OSError, match="No space left"):
            publish_values(store, fs, staging, [{("t", 0): [b"a", b"b"], ("t", 1): [b"c"]}])
        assert written == [2]
        said = read_offset_checkpoint(LOCAL, f"{root}/{Checkpoint.RECOVERY_POINTS.value}")
        assert [said.get(one, 0) for one in (first, second)] == [0, 0]


@pytest.mark.parametrize("failing", ["log-start-offset-checkpoint", JOURNAL_FILE])
def test_a_write_that_is_all_there_is_completed_though_its_end_failed(tmp_path: Path, failing: str) -> None:
    """It overwrites: whoever took it back then would be left without the old records and the new ones."""
    root = str(tmp_path / "root")
    prepare(LOCAL, root)
    broken = False

    def rule(call: Call) -> Fault | None:
        is_meant = call.operation == "create" and failing in call.path
        settling = failing != JOURNAL_FILE or Path(root, "log-start-offset-checkpoint").exists()
        return Fault(errno.ENOSPC) if broken and is_meant and settling else None

    fs = FaultyFileSystem(LOCAL, rule)
    store = open_root(root, fs)
    Path(root, "log-start-offset-checkpoint").unlink(missing_ok=True)
    broken = True
    with pytest.raises(OSError, match="No space left") as raised:
        publish_values(store, fs, str(tmp_path / "staging"), tasks(), query="q", overwrite=True)
    assert any("the next opening completes it" in note for note in raised.value.__notes__)
    broken = False
    with pytest.raises(LogOfflineError, match=rf"{JOURNAL_FILE}.*Close the store and open it again"):
        store.partition("t", 0).append([Record(b"in the way", timestamp=NOW)])
    store.close()
    with open_root(root, recover=False) as store:
        found = contents(store)
        assert {name: values for name, values in found.items() if values} == added(tasks())
        assert publish_values(store, LOCAL, str(tmp_path / "again"), tasks(), query="q").is_replay


def test_a_disk_that_is_full_while_staging_is_told_with_place_and_topic(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_at(7, errno.ENOSPC, times=None))
    with pytest.raises(OSError, match=r"No space left on device.*topic t.*/staging"):
        stage(fs, str(tmp_path / "staging"), "task", tasks()[0], {"t": 2})


@pytest.mark.parametrize("file", ["task-0.batches", "task-0.table", "task-0.json"])
@pytest.mark.parametrize("damage", ["bit", "zeros", "cut", "gone"])
def test_staged_data_that_was_damaged_is_not_published(tmp_path: Path, file: str, damage: str) -> None:
    root, staging = str(tmp_path / "root"), tmp_path / "staging"
    before = prepare(LOCAL, root)
    partitions = {"t": 2, "u": 2}
    names = tuple(stage(LOCAL, str(staging), f"task-{n}", some, partitions) for n, some in enumerate(tasks()))
    path = staging / file
    data = bytearray(path.read_bytes())
    if damage == "bit":
        data[len(data) // 2] ^= 0x10
    if damage == "zeros":
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(data if damage != "cut" else data[:-1])
    if damage == "gone":
        path.unlink()
    with open_root(root) as store:
        with pytest.raises((DataLossError, InvalidIndexError, InvalidInputError, FileNotFoundError)):
            publish(store, Write(str(staging), names, "q"))
        assert contents(store) == before
    with open_root(root) as store:
        assert contents(store) == before
        assert not read_journal(LOCAL, root).has("q", 0)


MUCH: list[Values] = [
    {
        (topic, number): [bytes([mark]) * 50_000 for mark in range(200)]
        for topic in ("t", "u")
        for number in (0, 1)
    }
]


def test_much_is_published_into_several_partitions_at_a_time(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "root", background=False) as store:
        published = publish_values(store, LOCAL, str(tmp_path / "s"), MUCH * 2, query="q")
        assert published.records == 8 * 200
        assert all(partition.log.recovery_point == 400 for partition in store.partitions)
    with tidelog.open(tmp_path / "root", background=False, recover=True) as store:
        assert contents(store) == added(MUCH * 2)


def test_a_disk_that_fails_one_of_several_partitions_leaves_nothing_of_much(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_writes_to_t(3, errno.ENOSPC))
    store = tidelog.open(tmp_path / "root", fs=fs, background=False)
    with pytest.raises(OSError, match=r"No space left on device.*topic t.*t-[01]"):
        publish_values(store, fs, str(tmp_path / "s"), MUCH, query="q")
    store.close()
    with tidelog.open(tmp_path / "root", background=False, recover=True) as store:
        assert not any(contents(store).values())
        assert not read_journal(LOCAL, str(tmp_path / "root")).has("q", 0)
