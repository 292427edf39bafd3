"""Reconciling finds what the last leader wrote, whatever has happened to the replicas' disks."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

import pytest

import tidelog
from tests.reconciling.histories import NAME, QUICK, TOPIC_ID, Cluster, Harm, harm
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.manager.reconciling.lineage import (
    EpochRun,
    EpochStart,
    Lineage,
    agreed_end,
    is_apart,
    lineage_of,
)
from tidelog.manager.reconciling.outcome import Outcome
from tidelog.manager.reconciling.reconciling import reconcile_partition
from tidelog.manager.verification import verify_partition
from tidelog.records import Record, encode_records
from tidelog.scanning.partitions import Partition, find_partitions
from tidelog.storage import LOCAL, EpochEntry

SEEDS = 200
FEW = 15


def reconciled(cluster: Cluster, target: Path) -> tuple[Outcome, dict[int, tuple[bytes, bytes | None]]]:
    """Reconcile the replicas; the outcome, and the records by offset."""
    target.mkdir()
    partitions = [find_partitions(str(one.directory))[0] for one in cluster.replicas]
    outcome = reconcile_partition(QUICK, partitions, str(target / str(NAME)))
    table = tidelog.scan(target / str(NAME), columns=["offset", "key", "value"]).read_all()
    rows = zip(*(table.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True)
    found = {offset: (key, value) for offset, key, value in rows}
    assert len(found) == table.num_rows
    return outcome, found


def check(cluster: Cluster, harms: list[Harm], target: Path) -> None:
    """The records are the truth's, as far as a sound copy of them is left, and what is lost is told."""
    sound: set[tuple[int, int]] = set()
    for done in harms:
        sound |= done.stored - done.batches
    starts = [one.log.log_start_offset for one in cluster.replicas]
    outcome, found = reconciled(cluster, target)
    assert not [
        one for one in verify_partition(LOCAL, str(target / str(NAME))).findings if one.kind.value == "damage"
    ]
    truth = {offset: pair for batch in cluster.truth for offset, pair in batch.records()}
    start = outcome.log_start_offset
    assert start >= min(starts)
    proven = any(
        any(epoch == cluster.epoch for _, epoch in done.stored - done.batches)
        or (one is cluster.leader and not done.epochs_gone)
        for one, done in zip(cluster.replicas, harms, strict=True)
    )
    expected = {
        offset: pair
        for batch in cluster.truth
        if (batch.base, batch.epoch) in sound
        for offset, pair in batch.records()
        if offset >= start
    }
    if proven and not is_outvoted(cluster, harms):
        more = {n: pair for n, pair in found.items() if n >= start and n not in expected}
        assert all(is_doubtful(cluster, harms, n, pair) for n, pair in more.items())
        assert found == {**expected, **more, **{n: found[n] for n in found if n < start}}
        told = {n for one in outcome.lost for n in range(one.first_offset, one.end_offset)}
        known_end = max(outcome.log_end_offset, *(one.high_watermark for one in cluster.replicas))
        if not cluster.unclean:
            assert known_end >= cluster.leader.high_watermark
        missing = {n for n in truth if start <= n < known_end} - expected.keys()
        assert missing - more.keys() <= told
        assert not told & found.keys()
    else:
        committed = {n: pair for n, pair in expected.items() if n < cluster.committed}
        assert committed.items() <= found.items()


def is_outvoted(cluster: Cluster, harms: list[Harm]) -> bool:
    """Whether the last leader, elected uncleanly, looks like one that was cut off from the others.

    No checkpoint of leader epochs tells of later elections. Another replica knows records to be committed
    that the last epoch does not have, and of that epoch nobody knows any.
    """
    if not cluster.unclean:
        return False
    start = min((one.base for one in cluster.truth if one.epoch == cluster.epoch), default=0)
    return any(
        done.epochs_gone and one.high_watermark > start >= cluster.leader.high_watermark
        for one, done in zip(cluster.replicas, harms, strict=True)
    )


def is_doubtful(cluster: Cluster, harms: list[Harm], offset: int, pair: tuple[bytes, bytes | None]) -> bool:
    """Whether a record is of a history that ended before the one of which something is left began.

    A follower that went on by itself, whose leader was trimmed meanwhile, cuts off only what is above its log
    start: no batch and no checkpoint tells that another epoch had begun below. The gap that this leaves where
    a batch lay across the log start has to be told.
    """
    written = {(one.base, one.epoch): one for each in cluster.replicas for one in each.batches}
    epoch = max(one.epoch for one in written.values() if (offset, pair) in one.records())
    starts = []
    for one, done in zip(cluster.replicas, harms, strict=True):
        starts += [base for base, later in done.stored - done.batches if later > epoch]
        if not done.epochs_gone:
            starts += [entry.start_offset for entry in one.cache().entries if entry.epoch > epoch]
    return min(starts) > offset


def play(tmp_path: Path, seed: int, **kinds: bool) -> Cluster:
    cluster = Cluster(tmp_path / "cluster", seed, **kinds)
    cluster.run(cluster.random.randint(15, 70))
    return cluster


@pytest.mark.parametrize("seed", range(FEW))
def test_what_the_last_leader_wrote(tmp_path: Path, seed: int) -> None:
    one_history(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FEW, SEEDS))
def test_what_the_last_leader_wrote_in_many_histories(tmp_path: Path, seed: int) -> None:
    one_history(tmp_path, seed)


def one_history(tmp_path: Path, seed: int) -> None:
    cluster = play(tmp_path, seed, unclean=seed % 5 == 4)
    cluster.close()
    dice = random.Random(seed)
    count = dice.choice([0, 0, 1, 2, 4])
    harms = [harm(one, dice, count) for one in cluster.replicas]
    check(cluster, harms, tmp_path / "out")


def folded(batches: Iterable[tuple[int, tuple[bytes, bytes | None]]]) -> dict[bytes, bytes]:
    """The values that are left when each record replaces older ones of its key."""
    last = {key: value for _, (key, value) in sorted(batches)}
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.parametrize("seed", range(FEW))
def test_no_key_that_was_deleted_comes_back(tmp_path: Path, seed: int) -> None:
    one_compacted_history(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FEW, SEEDS // 2))
def test_no_key_that_was_deleted_comes_back_in_many_histories(tmp_path: Path, seed: int) -> None:
    one_compacted_history(tmp_path, seed)


def one_compacted_history(tmp_path: Path, seed: int) -> None:
    """Some replicas are cleaned, some lag behind, some are damaged."""
    cluster = play(tmp_path, seed, compacted=True)
    dice = random.Random(seed)
    for one in dice.sample(cluster.replicas, dice.randint(1, 3)):
        cluster.compact(one)
    cluster.close()
    harmed = dice.choice([None, None, *cluster.replicas])
    done = harm(harmed, dice, 2) if harmed is not None else Harm(set())
    outcome, found = reconciled(cluster, tmp_path / "out")
    truth = {offset: pair for batch in cluster.truth for offset, pair in batch.records()}
    end = outcome.log_end_offset
    if done.epochs_gone and harmed is cluster.leader and is_election_unknown(cluster, done):
        end = min(end, cluster.committed)
        found = {n: pair for n, pair in found.items() if n < end}
    assert found.items() <= truth.items()
    whole = {n: pair for n, pair in truth.items() if n < end}
    assert outcome.log_end_offset >= cluster.committed or done.batches
    if not outcome.lost and not any("come back" in note for note in outcome.notes):
        assert folded(found.items()) == folded(whole.items())


def is_election_unknown(cluster: Cluster, done: Harm) -> bool:
    """Whether nothing tells that the leader, whose checkpoint is gone, was elected.

    It has written nothing yet that is sound, and knows nothing to be committed that a replica does not have
    that went on by itself.
    """
    if cluster.epoch in {epoch for _, epoch in done.stored - done.batches}:
        return False
    newest = max(
        one.epoch
        for each in cluster.replicas
        for one in each.batches
        if each is not cluster.leader or (one.base, one.epoch) not in done.batches
    )
    apart = [
        one.base
        for each in cluster.replicas
        if newest in {one.epoch for one in each.batches}
        for one in each.batches
        if one not in cluster.truth
    ]
    return min(apart, default=-1) >= cluster.leader.high_watermark


def test_the_oldest_epoch_of_a_trimmed_log_contradicts_nothing() -> None:
    """A partition that was copied alone, without its root's log start, after records were deleted."""
    runs = [EpochRun(0, 0, 9, 10), EpochRun(3, 10, 19, 10)]
    for entries in ([EpochEntry(0, 4), EpochEntry(3, 10)], [EpochEntry(3, 14)]):
        assert lineage_of(runs, entries, 20)[1] == []
    assert len(lineage_of(runs, [EpochEntry(0, 0), EpochEntry(3, 14)], 20)[1]) == 1
    assert len(lineage_of(runs, [EpochEntry(0, 12)], 20)[1]) == 1


def history(end: int, *epochs: tuple[int, int, int]) -> Lineage:
    return Lineage(tuple(EpochStart(*one) for one in epochs), end)


def test_an_epoch_that_the_winner_has_lost_fits_in_where_it_is_damaged() -> None:
    winner = history(16, (3, 0, 0), (10, 5, 12))  # between 5 and 12 it knows nothing
    assert agreed_end(winner, history(12, (7, 0, 8))) == 12
    assert agreed_end(winner, history(14, (7, 0, 8))) == 12
    assert agreed_end(history(16, (3, 0, 0), (10, 8, 8)), history(12, (7, 0, 8))) == 0


def test_a_copy_that_ends_before_all_known_epochs_is_apart() -> None:
    """The winner was trimmed to offset 30: how it came there, nothing tells."""
    winner = history(35, (17, 30, 30))
    assert is_apart(winner, history(16, (6, 0, 0), (14, 6, 6)))
    assert not is_apart(winner, history(32, (6, 0, 0), (14, 6, 6)))
    assert not is_apart(winner, history(34, (17, 30, 30)))


def written(root: Path, start: int, batches: list[tuple[int, int, int]]) -> Partition:
    """A copy with batches (first offset, last offset, epoch), whose records tell their epoch."""
    root.mkdir()
    log = Log.open(root / str(NAME), LogConfig(), clean=True, topic_id=TOPIC_ID, fs=QUICK)
    log.truncate_fully_and_start_at(start)
    for base, last, epoch in batches:
        records = [Record(b"epoch-%d" % epoch, b"key-%d" % n) for n in range(base, last + 1)]
        log.append_as_follower(encode_records(records, base_offset=base, leader_epoch=epoch))
    log.close()
    return find_partitions(str(root / str(NAME)))[0]


@pytest.mark.parametrize("more", [[], [(45, 49, 7)]], ids=["another wins", "it wins"])
def test_a_gap_before_an_epoch_tells_that_a_copy_had_other_records(
    tmp_path: Path, more: list[tuple[int, int, int]]
) -> None:
    """The leader of epoch 7 was trimmed: it could not tell a follower at which offset epoch 5 began."""
    cut = written(tmp_path / "cut", 14, [(14, 21, 3), (22, 26, 5), (29, 44, 7), *more])
    trimmed = written(tmp_path / "trimmed", 29, [(29, 44, 7)])
    whole = written(tmp_path / "whole", 14, [(14, 21, 3), (22, 24, 3), (25, 28, 3), (29, 44, 7)])
    for number, copies in enumerate(permutations([cut, trimmed, whole])):
        target = tmp_path / f"out-{number}" / str(NAME)
        target.parent.mkdir()
        outcome = reconcile_partition(QUICK, copies, str(target))
        values = tidelog.scan(target.parent, columns=["value"]).read_all().column("value").to_pylist()
        assert values == [b"epoch-3"] * 15 + [b"epoch-7"] * (16 + 5 * len(more))
        (truncated,) = outcome.truncated
        assert (truncated.copy, truncated.first_offset, truncated.end_offset) == (cut.url, 22, 27)
        assert outcome.is_whole
    outcome = reconcile_partition(QUICK, [cut, trimmed], None)
    assert [(one.first_offset, one.end_offset) for one in outcome.lost] == [(27, 29)]
    assert sum(one.records for one in outcome.ranges) == 13 + 16 + 5 * len(more)


@pytest.mark.parametrize("seed", [60013, 61002, 62115, 63037, 840082, 850094, 910129, 930330, 930764])
def test_found_histories(tmp_path: Path, seed: int) -> None:
    """A replica that went on by itself while the others were trimmed; an epoch that is lost to damage; a
    batch across the place where a copy leaves the history, and one across the log start of the others, with
    and without a copy that is whole there; a new leader that others lack an epoch of, lost to damage; such a
    follower that was the last leader; an election that was unclean, and of which nothing sound is left.
    """
    one_history(tmp_path, seed)


def test_committed_records_tell_of_an_election_that_no_file_does(tmp_path: Path) -> None:
    """The newest epoch that is known is of a replica that went on by itself."""
    one_compacted_history(tmp_path, 63002)


def test_a_leader_of_whose_epoch_nothing_sound_is_left(tmp_path: Path) -> None:
    one_compacted_history(tmp_path, 930073)
