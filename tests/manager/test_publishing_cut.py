"""Commits cut from power at every step: a write is in all its partitions or in none."""

from __future__ import annotations

import random
import uuid
from bisect import bisect_left
from pathlib import Path

import pytest

from tests.manager.publishing import (
    NOW,
    ROOT,
    Values,
    added,
    check_state,
    contents,
    joined,
    open_root,
    prepare,
    some,
    stage,
    steps_of_a_commit,
    steps_with_intent,
    tasks,
)
from tidelog.config import LogConfig
from tidelog.manager.publishing.committing import Write, publish
from tidelog.manager.publishing.mark import claim, discard_staging, is_ours
from tidelog.records import Record
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    read_journal,
    write_journal,
)
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import FaultyFileSystem
from tidelog.testing.journal import SetName
from tidelog.testing.journal import Write as DiskWrite
from tidelog.types import TopicPartition


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

    def is_settled(step: int) -> bool:
        return read_journal(fs.crash(step, kept="synced"), ROOT).has("q", 3)

    settled = start + bisect_left(range(start, fs.steps + 1), True, key=is_settled)
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


def check_every_second_step(
    fs: CrashFileSystem,
    start: int,
    before: dict[TopicPartition, list[bytes]],
    whole: dict[TopicPartition, list[bytes]],
) -> None:
    """Cut a commit from power from `start` on: it is whole or not there, and both happen."""
    outcomes = []
    for step in range(start, fs.steps + 1, 2):
        with open_root(ROOT, fs.crash(step, seed=step)) as store:
            found = contents(store)
        assert found in (before, whole)
        outcomes.append(found == whole)
    assert not outcomes[0]
    assert outcomes[-1]


def test_segments_of_large_batches_cut_from_power_are_whole_or_nothing() -> None:
    """Large batches are stamped by writes, small ones in a mapping."""
    fs = CrashFileSystem()
    with open_root(ROOT, fs) as store:
        store.create_topic("t", 1)
        before = contents(store)
        staged = fs.steps
        config = LogConfig.from_properties({"internal.segment.bytes": 300_000})
        values = {("t", 0): [bytes([mark]) * 40_000 for mark in range(24)]}
        stage(fs, "/staging/w", "task", values, {"t": 1}, config, batch_bytes=100_000)
        start = fs.steps
        publish(store, Write("/staging/w", ("task",), "q"), fs)
        whole = joined(before, added([values]))
        assert contents(store) == whole
    writes = [
        (step, one) for step in range(staged, fs.steps) if isinstance(one := fs.operation(step), DiskWrite)
    ]
    segments = {one.inode for step, one in writes if step < start and len(one.data) > 100_000}
    stamped = [one for step, one in writes if step >= start and one.inode in segments]
    assert {len(one.data) for one in stamped} == {16}  # what no checksum covers
    check_every_second_step(fs, start, before, whole)


def test_large_segments_that_are_not_full_cut_from_power_are_whole_or_nothing() -> None:
    fs = CrashFileSystem()
    before = prepare(fs, ROOT)
    values: list[Values] = [{("t", 0): some("t", 0, 12 + n, f"new {n}")} for n in range(5)]
    with open_root(ROOT, fs) as store:
        names = tuple(
            stage(fs, "/staging/w", f"task-{n}", one, {"t": 2}, large=700) for n, one in enumerate(values)
        )
        start = fs.steps
        publish(store, Write("/staging/w", names, "q"), fs)
        whole = joined(before, added(values))
        assert contents(store) == whole
    named = [one.inode for one in map(fs.operation, range(start, fs.steps)) if isinstance(one, SetName)]
    assert len(named) - len(set(named)) >= len(values)  # each time index is linked twice
    check_every_second_step(fs, start, before, whole)


def test_what_a_cut_leaves_of_staged_files_has_its_mark() -> None:
    """However many segments were staged, removing them waits for the disk twice."""
    fs, staging, root = CrashFileSystem(), "/staging/w", uuid.uuid4()
    config = LogConfig.from_properties({"internal.segment.bytes": 500})
    values = {("t", 0): some("t", 0, 60, "x"), ("t", 1): some("t", 1, 2, "x")}
    stage(fs, staging, "task", values, {"t": 2}, config)
    assert sum(entry.is_directory for entry in fs.list(staging)) > 5
    claim(fs, staging, root)
    start = fs.steps
    syncs: list[str] = []
    counting = FaultyFileSystem(
        fs, lambda call: syncs.append(call.path) if "sync" in call.operation else None
    )
    discard_staging(counting, staging)
    assert len(syncs) == 2
    left = 0
    for step in range(start, fs.steps + 1):
        for seed in range(3):
            after = fs.crash(step, seed=100 * step + seed)
            if after.exists(staging) and after.list(staging):
                assert is_ours(after, staging, root)
                left += 1
    assert left


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_commits_cut_from_power_at_every_step_in_many_ways(seed: int) -> None:
    fs, start, before = steps_of_a_commit(bool(seed % 2), bool(seed % 4 > 1))
    for step in range(start, fs.steps + 1):
        check_state(fs.crash(step, seed=1000 * seed + step), before, bool(seed % 2))


def test_staged_data_that_the_power_took_takes_the_write_back() -> None:
    """The intent is there and the staged files are, but not their bytes."""
    fs, start, before = steps_of_a_commit(False)
    after = fs.crash(next(steps_with_intent(fs, start)), kept="all")
    file = after.open("/staging/w/task-0.batches", writable=True)
    file.pwrite(bytes(file.size()), 0)
    file.close()
    assert not check_state(after, before, False)


def test_a_write_is_carried_out_behind_what_others_wrote(tmp_path: Path) -> None:
    fs, start, before = steps_of_a_commit(False)
    after = fs.crash(next(steps_with_intent(fs, start)), kept="all")
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


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_that_is_carried_out_after_a_power_cut_is_where_its_intent_says(overwrite: bool) -> None:
    fs = CrashFileSystem()
    prepare(fs, ROOT)
    start = fs.steps
    store = open_root(ROOT, fs)
    for partition in store.partitions:
        partition.append([Record(b"not synced", timestamp=NOW)] * 5)
    before, new = contents(store), added(tasks())
    names = [
        stage(fs, "/staging/w", f"task-{number}", values, {topic: 2 for topic, _ in values})
        for number, values in enumerate(tasks())
    ]
    sync_tree(fs, "/staging")
    publish(store, Write("/staging/w", tuple(names), query="q", batch=3, overwrite=overwrite), fs)
    carried_out = 0
    for step in [*list(steps_with_intent(fs, start))[::5], fs.steps]:
        after = fs.crash(step, kept="synced")
        with open_root(ROOT, after) as found:
            if read_journal(after, ROOT).has("q", 3):
                carried_out += 1
                there = contents(found)
                wanted = new if overwrite else joined(before, new)
                assert all(there[one] == wanted[one] for one in new), step
    assert carried_out > 1


def sync_tree(fs: CrashFileSystem, path: str) -> None:
    """Bring everything below a directory to the disk."""
    for entry in fs.list(path):
        below = f"{path}/{entry.name}"
        if entry.is_directory:
            sync_tree(fs, below)
        else:
            fs.open(below).sync()
    fs.sync_directory(path)
    fs.sync_directory("/")
