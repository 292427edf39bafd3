"""The ends of many logs that grow are those that each of them is found to have by itself."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

import tidelog
from tests.scanning.damage import make_log
from tidelog.errors import TidelogError
from tidelog.records import Record
from tidelog.scanning import tails
from tidelog.scanning.log_end import LogTail, log_tail
from tidelog.scanning.partitions import Partition, list_partitions, reading_roots_once
from tidelog.scanning.tails import log_tails
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import (
    JOURNAL_FILE,
    PendingPartition,
    PendingWrite,
    WriteJournal,
    write_journal,
)
from tidelog.types import TopicPartition


class Growing:
    """A log that comes to its directory bit by bit."""

    def __init__(self, directory: Path, dice: random.Random) -> None:
        self._directory, self._dice = directory, dice
        directory.mkdir(parents=True)
        self._left = [(one.base, one.data.tobytes()) for one in make_log(dice).segments]

    def grow(self) -> None:
        """More bytes, whole batches or not; or bytes that others put there."""
        if not self._left or self._dice.random() < 0.2:
            return
        base, data = self._left.pop(0)
        size = self._dice.choice([len(data), self._batches(data), self._dice.randint(0, len(data))])
        if size < len(data):
            self._left.insert(0, (base, data[size:]))
        new = bytearray(data[:size])
        if size and self._dice.random() < 0.1:
            new[self._dice.randrange(size)] ^= 1 << self._dice.randrange(8)
        log = self._directory / f"{base:020}.log"
        with log.open("ab") as file:
            file.write(new)
        if self._dice.random() < 0.05:
            log.write_bytes(log.read_bytes()[: self._dice.randint(0, log.stat().st_size)])

    def _batches(self, data: bytes) -> int:
        """The size of its first batches."""
        position = 0
        while position + 12 < len(data) and (not position or self._dice.random() < 0.5):
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        return min(position, len(data))


def by_themselves(
    partitions: list[Partition], known: list[LogTail | None], damage_ends_it: bool
) -> list[LogTail] | str:
    try:
        return [
            log_tail(one, since, damage_ends_it=damage_ends_it)
            for one, since in zip(partitions, known, strict=True)
        ]
    except TidelogError as error:
        return str(error)


def together(
    partitions: list[Partition], known: list[LogTail | None], damage_ends_it: bool
) -> list[LogTail] | str:
    try:
        return log_tails(partitions, known, damage_ends_it=damage_ends_it)
    except TidelogError as error:
        return str(error)


@pytest.mark.parametrize("damage_ends_it", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_as_each_by_itself(
    tmp_path: Path, seed: int, damage_ends_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    alone: list[Partition] = []

    def noted(partition: Partition, *arguments: LogTail | None, **keywords: bool) -> LogTail:
        alone.append(partition)
        return log_tail(partition, *arguments, **keywords)

    monkeypatch.setattr(tails, "log_tail", noted)
    logs = [Growing(tmp_path / f"t-{n}", dice) for n in range(8)]
    known: list[LogTail | None] = [None] * len(logs)
    looked = 0
    for turn in range(12):
        for log in logs:
            log.grow()
        if turn == 6:
            (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 3 1000\n")
        partitions = list_partitions(tmp_path)
        expected = by_themselves(partitions, known, damage_ends_it)
        assert together(partitions, known, damage_ends_it) == expected
        looked += len(partitions)
        if isinstance(expected, str):
            break
        known = list(expected)
    assert len(alone) < looked or turn < 3  # some were looked at together


def test_what_a_bulk_write_adds_is_unseen_however_many_logs_are_asked(tmp_path: Path) -> None:
    """The journal is looked at for all of them together, after all were read."""
    looks: list[str] = []
    sys.addaudithook(lambda event, given: looks.append(str(given[0])) if event == "open" else None)
    with tidelog.open(tmp_path, create=True) as store:
        for partition in store.create_topic("t", 20):
            partition.append([Record(b"a")])
    journal = tmp_path / JOURNAL_FILE
    write_journal(LOCAL, tmp_path, WriteJournal())
    there = list_partitions(tmp_path)
    known = log_tails(there, [None] * 20)
    with tidelog.open(tmp_path) as store:
        for partition in store.topic("t"):
            partition.append([Record(b"b")])
    pending = PendingPartition(TopicPartition("t", 7), 1, 1, 0, 0, 0)
    write_journal(
        LOCAL, tmp_path, WriteJournal(1, {}, PendingWrite("q", 0, "staging", ("task",), (pending,)))
    )
    again = list_partitions(tmp_path)
    looks.clear()
    ends = [tail.end_offset for tail in log_tails(again, known)]
    with reading_roots_once(again):
        write_journal(LOCAL, tmp_path, WriteJournal(2))
        assert [one.published_end(2) for one in again] == [1 if n == 7 else 2 for n in range(20)]
    assert ends == [2] * 20
    assert looks.count(str(journal)) <= 4
    fresh = list_partitions(tmp_path)[7]
    assert fresh.published_end(2) == 2
