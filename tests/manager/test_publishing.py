"""Publishing staged writes: in all partitions or in none, whatever happens, and never twice."""

from __future__ import annotations

import errno
import random
import time
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.command import run
from tests.manager.publishing import (
    NOW,
    Values,
    contents,
    open_root,
    publish_values,
    stage,
)
from tidelog.config import LogConfig
from tidelog.errors import DataLossError, InvalidIndexError, InvalidInputError, LogError, LogOfflineError
from tidelog.manager.publishing.committing import Write, publish, sweep_staging
from tidelog.records import Record
from tidelog.storage import LOCAL, FileSystem
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
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import Call, Fault, FaultyFileSystem, Rule, fail_at
from tidelog.testing.journal import SetName
from tidelog.types import TopicPartition

SEGMENT = {"internal.segment.bytes": 1500}
ROOT = "/store"
"""Where the root is in a simulated file system."""


def some(topic: str, number: int, count: int, mark: str) -> list[bytes]:
    return [f"{topic}-{number} {mark} {i:03} ".encode() + bytes(30) for i in range(count)]


def tasks(mark: str = "new") -> list[Values]:
    """What two tasks write; more than a segment into one partition."""
    return [
        {("t", 0): some("t", 0, 30, f"{mark} a"), ("t", 1): some("t", 1, 3, f"{mark} a")},
        {("t", 0): some("t", 0, 5, f"{mark} b"), ("u", 1): some("u", 1, 9, f"{mark} b")},
    ]


def added(which: list[Values]) -> dict[TopicPartition, list[bytes]]:
    found: dict[TopicPartition, list[bytes]] = {}
    for values in which:
        for (topic, number), some_values in values.items():
            found.setdefault(TopicPartition(topic, number), []).extend(some_values)
    return found


def prepare(fs: FileSystem, root: str) -> dict[TopicPartition, list[bytes]]:
    """A root with two topics and a few records; what is in it."""
    with open_root(root, fs) as store:
        for topic in ("t", "u"):
            store.create_topic(topic, 2, SEGMENT)
            for partition in store.topic(topic):
                number = partition.topic_partition.partition
                values = some(topic, number, 4 + number, "old")
                partition.append([Record(value, timestamp=NOW) for value in values])
        return contents(store)


def joined(
    one: dict[TopicPartition, list[bytes]], two: dict[TopicPartition, list[bytes]]
) -> dict[TopicPartition, list[bytes]]:
    return {name: one.get(name, []) + two.get(name, []) for name in {**one, **two}}


# ---- as it should be


def test_what_tasks_staged_is_appended_in_their_order(tmp_path: Path) -> None:
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging" / "w")
    before = prepare(LOCAL, root)
    with open_root(root) as store:
        published = publish_values(store, LOCAL, staging, tasks())
        assert published.records == 47
        assert published.ranges[TopicPartition("t", 0)] == range(4, 39)
        assert contents(store) == joined(before, added(tasks()))
        assert all(partition.log.recovery_point == partition.log_end_offset for partition in store)
    assert not Path(staging).exists()
    assert Path(root, ".kafka_cleanshutdown").exists()
    assert read_journal(LOCAL, root).pending is None
    with open_root(root) as store:
        assert contents(store) == joined(before, added(tasks()))


def test_a_batch_that_comes_again_adds_nothing(tmp_path: Path) -> None:
    root, staging = str(tmp_path / "root"), str(tmp_path / "staging")
    with open_root(root) as store:
        found = [
            publish_values(store, LOCAL, staging, tasks(), query="q", batch=batch).is_replay
            for batch in (0, 1, 1, 0, 2)
        ]
        assert found == [False, False, True, True, False]
        assert publish_values(store, LOCAL, staging, tasks(), query="other", batch=0).records == 47
        assert (
            len(contents(store)[TopicPartition("u", 1)]) == 4 * 9
        )  # three batches of the one, one of the other


def test_many_small_writes_leave_no_more_segments_than_a_large_one(tmp_path: Path) -> None:
    values = some("t", 0, 600, "x")
    counts = []
    for name, size in (("many", 6), ("one", 600)):
        with open_root(str(tmp_path / name)) as store:
            store.create_topic("t", 2, SEGMENT)
            for batch, start in enumerate(range(0, 600, size)):
                part: list[Values] = [{("t", 0): values[start : start + size]}]
                publish_values(store, LOCAL, str(tmp_path / "s"), part, query="q", batch=batch)
            counts.append(len(store.partition("t").log.segments))
            assert contents(store)[TopicPartition("t", 0)] == values
    many, one = counts
    assert one > 10
    assert many <= one


def test_overwriting_raises_log_starts_and_keeps_offsets(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    only: list[Values] = [{("t", 0): some("t", 0, 2, "new")}]
    for again in (False, True):
        if not again:
            with open_root(root) as store:
                publish_values(store, LOCAL, str(tmp_path / "s"), only, overwrite=True)
        with open_root(root) as store:
            found = contents(store)
            assert found[TopicPartition("t", 0)] == some("t", 0, 2, "new")
            assert found[TopicPartition("t", 1)] == []
            assert store.partition("t", 0).log_start_offset == 4
            assert store.partition("t", 1).log_start_offset == 5
            assert found[TopicPartition("u", 0)] == before[TopicPartition("u", 0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max.message.bytes": "100"}, "topic t, partition 0.*max.message.bytes is 100"),
        (
            {"message.timestamp.after.max.ms": "0", "message.timestamp.before.max.ms": "0"},
            "topic t, partition",
        ),
    ],
)
def test_what_a_topic_would_refuse_changes_nothing(tmp_path: Path, change: Any, words: str) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    with open_root(root) as store:
        store.alter_config("t", change)
        journal = read_journal(LOCAL, root)
        with pytest.raises(InvalidInputError, match=words):
            publish_values(store, LOCAL, str(tmp_path / "s"), [{**tasks()[0], ("new", 0): [b"v"]}])
        assert contents(store) == before
        assert "new" not in store.topics
        assert read_journal(LOCAL, root) == journal


def test_a_topic_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    stage(LOCAL, str(tmp_path / "s"), "task", tasks()[0], {"t": 2})
    with open_root(root) as store:
        store.create_partitions("t", 3)
        with pytest.raises(InvalidInputError, match="'t' was taken to have 2 partitions and has 3"):
            publish(store, Write(str(tmp_path / "s"), ("task",)))
        assert contents(store) == {**before, TopicPartition("t", 2): []}


def test_full_segments_are_linked_and_the_rest_is_appended(tmp_path: Path) -> None:
    """Into an empty log, a log with little in it (where it takes several), and one segment at a time."""
    root, staging = tmp_path / "root", str(tmp_path / "staging")
    values = some("t", 0, 400, "x")
    config = LogConfig.from_properties(SEGMENT)
    two: list[Values] = [{("t", 0): values[:200]}, {("t", 0): values[200:]}]
    with open_root(str(root)) as store:
        store.create_topic("t", 2, SEGMENT)
        log = store.partition("t").log
        names = tuple(stage(LOCAL, staging, f"task-{n}", v, {"t": 2}, config) for n, v in enumerate(two))
        inodes = {path.stat().st_ino for path in Path(staging).rglob("*.log")}
        publish(store, Write(staging, names))
        linked = [path for path in (root / "t-0").glob("*.log") if path.stat().st_ino in inodes]
        assert len(linked) > 10
        assert sorted(contents(store)[TopicPartition("t", 0)]) == sorted(values)
        small = len(log.segments)
        publish_values(store, LOCAL, staging, [{("t", 0): values[:40]}], log_config=config)
        publish_values(store, LOCAL, staging, [{("t", 0): values[:400]}], log_config=config)
        assert len(log.segments) > small + 10
        found = contents(store)[TopicPartition("t", 0)]
        assert found[-400:] == values
        assert found[-440:-400] == values[:40]
        for segment in log.segments:
            assert segment.index_fault() is None
    for clean in (True, False):
        if not clean:
            (root / ".kafka_cleanshutdown").unlink()
        with open_root(str(root)) as store:
            assert contents(store)[TopicPartition("t", 0)] == found
            first = store.partition("t").offset_for_timestamp(NOW)
            assert first is not None
            assert first.offset == 0
    assert run("verify", root, "--deep").code == 0


# ---- cut from power at every step


def steps_of_a_commit(
    overwrite: bool, links: bool = False
) -> tuple[CrashFileSystem, int, dict[TopicPartition, list[bytes]]]:
    fs = CrashFileSystem()
    before = prepare(fs, ROOT)
    start = fs.steps
    with open_root(ROOT, fs) as store:
        config = LogConfig.from_properties({"internal.segment.bytes": 500}) if links else None
        publish_values(
            store, fs, "/staging/w", tasks(), query="q", batch=3, overwrite=overwrite, log_config=config
        )
    return fs, start, before


def check_state(after: CrashFileSystem, before: dict[TopicPartition, list[bytes]], overwrite: bool) -> bool:
    """All of it or nothing, known as such; written again it is there once. Whether it was there."""
    new = added(tasks())
    whole = {
        name: new.get(name, []) if overwrite else old + new.get(name, []) for name, old in before.items()
    }
    with open_root(ROOT, after) as store:
        assert not store.offline_partitions
        is_there = read_journal(after, ROOT).has("q", 3)
        expect(contents(store), whole if is_there else before)
        again = publish_values(
            store, after, "/staging/again", tasks(), query="q", batch=3, overwrite=overwrite
        )
        assert again.is_replay == is_there
        expect(contents(store), whole)
    with open_root(ROOT, after) as store:
        expect(contents(store), whole)
    return is_there


def expect(found: dict[TopicPartition, list[bytes]], wanted: dict[TopicPartition, list[bytes]]) -> None:
    """Every value once, a task's in its order; segments of one task may come before another's rest."""
    assert {name: sorted(values) for name, values in found.items()} == {
        name: sorted(values) for name, values in wanted.items()
    }
    for values in found.values():
        for mark in (b" old ", b" new a ", b" new b "):
            mine = [value for value in values if mark in value]
            assert mine == sorted(mine)


@pytest.mark.parametrize(("overwrite", "links"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("kept", ["synced", "all", "some"])
def test_a_commit_cut_from_power_at_any_step_is_whole_or_nothing(
    kept: str, overwrite: bool, links: bool
) -> None:
    fs, start, before = steps_of_a_commit(overwrite, links)
    named = [one.inode for one in map(fs.operation, range(start, fs.steps)) if isinstance(one, SetName)]
    assert links == (len(named) > len(set(named)))  # a link names a file that has a name
    steps = [*range(start, fs.steps, max(2, (fs.steps - start) // 50)), fs.steps]
    outcomes = [check_state(fs.crash(step, seed=step, kept=kept), before, overwrite) for step in steps]
    assert not outcomes[0]
    assert outcomes[-1]
    settled = next(
        step
        for step in range(start, fs.steps + 1)
        if read_journal(fs.crash(step, kept="synced"), ROOT).has("q", 3)
    )
    # What was said to be there stays there; before, lost power may take staged data with it.
    assert all(found for step, found in zip(steps, outcomes, strict=True) if step >= settled)
    first = outcomes.index(True)
    assert 0 < first < len(outcomes) - 1
    if kept == "all":
        assert all(outcomes[first:])  # a killed process leaves all that it wrote


def test_a_recovery_that_is_cut_itself_is_finished_by_the_next() -> None:
    fs, start, before = steps_of_a_commit(False, True)
    dice = random.Random(5)
    for seed in range(40):
        once = fs.crash(dice.randint(start, fs.steps), seed=seed)
        begin = once.steps
        open_root(ROOT, once).close()
        twice = once.crash(dice.randint(begin, once.steps), seed=seed)
        check_state(twice, before, False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_commits_cut_from_power_at_every_step_in_many_ways(seed: int) -> None:
    fs, start, before = steps_of_a_commit(bool(seed % 2), bool(seed % 4 > 1))
    for step in range(start, fs.steps + 1):
        check_state(fs.crash(step, seed=1000 * seed + step), before, bool(seed % 2))


# ---- disks that fail


def fail_writes_to_t(number: int, code: int) -> Rule:
    """Fail the `number`th write to a log of topic t, and all after it."""
    fail = fail_at(number, code, times=None, written=10)

    def rule(call: Call) -> Fault | None:
        is_meant = call.operation == "pwrite" and call.path.endswith(".log") and "/t-" in call.path
        return fail(call) if is_meant else None

    return rule


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


def test_a_disk_that_is_full_while_staging_is_told_with_place_and_topic(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_at(4, errno.ENOSPC, times=None))
    with pytest.raises(OSError, match=r"No space left on device.*topic t.*/staging"):
        stage(fs, str(tmp_path / "staging"), "task", tasks()[0], {"t": 2})


def test_staged_data_that_is_gone_takes_the_write_back(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = prepare(LOCAL, root)
    pend(root, before)
    with open_root(root) as store:
        store.partition("t", 0)
        assert contents(store) == before
        assert read_journal(LOCAL, root).pending is None


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


def test_staged_data_that_the_power_took_takes_the_write_back() -> None:
    """The intent is there and the staged files are, but not their bytes."""
    fs, start, before = steps_of_a_commit(False)
    pending = next(
        step
        for step in range(start, fs.steps)
        if read_journal(fs.crash(step, kept="all"), ROOT).pending is not None
    )
    after = fs.crash(pending, kept="all")
    file = after.open("/staging/w/task-0.batches", writable=True)
    file.pwrite(bytes(file.size()), 0)
    file.close()
    assert not check_state(after, before, False)


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
        assert all(partition.log.recovery_point == 400 for partition in store)
    with tidelog.open(tmp_path / "root", background=False) as store:
        assert contents(store) == added(MUCH * 2)


def test_a_disk_that_fails_one_of_several_partitions_leaves_nothing_of_much(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_writes_to_t(3, errno.ENOSPC))
    store = tidelog.open(tmp_path / "root", fs=fs, background=False)
    with pytest.raises(OSError, match=r"No space left on device.*topic t.*/root/t-[01]"):
        publish_values(store, fs, str(tmp_path / "s"), MUCH, query="q")
    store.close()
    with tidelog.open(tmp_path / "root", background=False) as store:
        assert not any(contents(store).values())
        assert not read_journal(LOCAL, str(tmp_path / "root")).has("q", 0)


def pend(root: str, before: dict[TopicPartition, list[bytes]], records: int = 2) -> None:
    """A journal of a write of which one partition has two records; nothing is staged."""
    names = [TopicPartition("t", 0), TopicPartition("u", 0)]
    partitions = tuple(PendingPartition(name, len(before[name]), records, 0, 0, 0) for name in names)
    with open_root(root) as store:
        store.partition("t", 0).append([Record(b"half", timestamp=NOW)] * 2)
    write_journal(LOCAL, root, WriteJournal(1, {}, PendingWrite("", 0, "/nowhere", ("x",), partitions)))


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


def test_a_write_is_carried_out_behind_what_others_wrote(tmp_path: Path) -> None:
    fs, start, before = steps_of_a_commit(False)
    middle = next(
        step
        for step in range(start, fs.steps)
        if read_journal(fs.crash(step, kept="all"), ROOT).pending is not None
    )
    after = fs.crash(middle, kept="all")
    journal = read_journal(after, ROOT)
    after.unlink(f"{ROOT}/{JOURNAL_FILE}")
    with open_root(ROOT, after) as store:  # one that does not know the journal
        store.partition("t", 0).append([Record(b"other", timestamp=NOW)])
    write_journal(after, ROOT, journal)
    with open_root(ROOT, after) as store:
        found = contents(store)
        name = TopicPartition("t", 0)
        assert found[name] == [*before[name], b"other", *added(tasks())[name]]
        assert read_journal(after, ROOT).has("q", 3)


# ---- the journal, the staging


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


def test_what_dead_writers_left_is_swept_and_the_living_stay(tmp_path: Path) -> None:
    stage(LOCAL, str(tmp_path / "dead"), "task", tasks()[0], {"t": 2})
    stage(LOCAL, str(tmp_path / "living"), "task", tasks()[0], {"t": 2})
    for path in [*(tmp_path / "dead").iterdir(), tmp_path / "dead"]:
        LOCAL.set_mtime(path, NOW)
    assert sweep_staging(str(tmp_path), int(time.time() * 1000)) == [str(tmp_path / "dead")]
    assert [path.name for path in tmp_path.iterdir()] == ["living"]


# ---- readers that take no lock


def test_who_reads_without_opening_sees_all_of_a_write_or_nothing(tmp_path: Path) -> None:
    """At every step of a commit that goes on no further, before anybody has opened the root."""
    for overwrite in (False, True):
        fs, start, before = steps_of_a_commit(overwrite)
        whole = added(tasks()) if overwrite else joined(before, added(tasks()))
        outcomes = []
        for step in range(start, fs.steps + 1, 5):
            target = tmp_path / f"{overwrite}-{step}"
            fs.crash(step, kept="all").copy_to(LOCAL, ROOT, target)
            found: dict[TopicPartition, list[bytes]] = {name: [] for name in before}
            for batch in tidelog.scan(target, columns=["topic", "partition", "value"]):
                for row in batch.to_pylist():
                    found[TopicPartition(row["topic"], row["partition"])].append(row["value"])
            is_whole = found == {name: whole.get(name, []) for name in before}
            assert is_whole or found == before
            outcomes.append(is_whole)
        assert not outcomes[0]
        assert outcomes[-1]
