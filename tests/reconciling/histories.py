"""A small model of Kafka's replication: three replicas, each a real log, with leader changes.

A history is made from a seed. The leader appends batches; followers fetch from it after they have found where
they diverge, as OffsetForLeaderEpoch tells; the high watermark follows the in-sync replicas; a new leader is
elected from them (or from all, where elections are unclean), while the old one may go on by itself for a
while. Replicas delete old segments and are compacted on their own. `Cluster.truth` is the log that the last
leader wrote: what reconciling has to find. At the end the replicas' disks are harmed (`harm`).
"""

from __future__ import annotations

import dataclasses
import os
import random
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tidelog.cleanup.cleaner import LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.log.epochs import LeaderEpochCache
from tidelog.records import Record, encode_records
from tidelog.storage import LOCAL
from tidelog.storage.checkpoints import write_offset_checkpoint
from tidelog.storage.local import LocalFile, LocalFileSystem
from tidelog.types import Codec, TopicPartition

NAME = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=77)
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class QuickFile(LocalFile):
    """A file that is never waited for: the histories are not about crashes."""

    def sync(self) -> None:
        pass


class QuickFileSystem(LocalFileSystem):
    """Files without syncs."""

    def open(self, path: str | Path, *, writable: bool = False, create: bool = False) -> LocalFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0) if writable or create else os.O_RDONLY
        return QuickFile(str(path), os.open(path, flags, 0o644))

    def sync_directory(self, path: object) -> None:
        pass


QUICK = QuickFileSystem()


class Batch(NamedTuple):
    """A batch as its leader wrote it."""

    base: int
    last: int
    epoch: int
    data: bytes
    values: tuple[tuple[bytes, bytes | None], ...]

    def records(self) -> Iterator[tuple[int, tuple[bytes, bytes | None]]]:
        return zip(range(self.base, self.last + 1), self.values, strict=True)


@dataclass
class Replica:
    number: int
    root: Path
    log: Log
    batches: list[Batch] = field(default_factory=list)
    """Its history; the log may have deleted the first of them."""
    following: int = -1
    high_watermark: int = 0

    @property
    def directory(self) -> Path:
        return self.root / str(NAME)

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    def cache(self) -> LeaderEpochCache:
        return self.log._state.epochs.cache

    def take(self, batch: Batch) -> None:
        self.log.append_as_follower(batch.data)
        self.batches.append(batch)

    def cut(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.batches = [one for one in self.batches if one.base < offset]


class Cluster:
    """Three replicas and what has happened to them."""

    def __init__(self, path: Path, seed: int, *, compacted: bool = False, unclean: bool = False) -> None:
        self.random = random.Random(seed)
        self.unclean = unclean
        self.compacted = compacted
        self.epoch = 0
        self.produced = 0
        self.committed = 0
        self.lost_by_election = False
        config = dataclasses.replace(
            LogConfig(),
            internal_segment_bytes=self.random.choice([700, 1500, 1 << 20]),
            delete_retention_ms=0,
            index_interval_bytes=256,
        )
        self.replicas = []
        for number in range(3):
            root = path / f"broker-{number}"
            root.mkdir(parents=True)
            log = Log.open(root / str(NAME), config, clean=True, topic_id=TOPIC_ID, fs=QUICK)
            self.replicas.append(Replica(number, root, log))
        self.leader = self.replicas[0]
        self.in_sync = {0, 1, 2}
        self.zombie: Replica | None = None
        self._lead(self.leader)

    @property
    def truth(self) -> list[Batch]:
        """What the last leader has; below a gap, what those have whose history goes on there.

        The leader was a follower then, and only what lies above the log start was cut off (`_diverge`).
        """
        found = self.leader.batches
        for number in range(len(found) - 1, 0, -1):
            if found[number - 1].last + 1 == found[number].base:
                continue
            for one in self.replicas:
                at = next((n for n, each in enumerate(one.batches) if each == found[number]), 0)
                if at and one.batches[at - 1].last + 1 == found[number].base:
                    return one.batches[:at] + found[number:]
        return found

    def run(self, steps: int) -> None:
        """Let things happen."""
        for _ in range(steps):
            what = self.random.choices(
                [self.produce, self.fetch, self.elect, self.shrink, self.retain],
                [10, 14, 3, 1, 0 if self.compacted else 2],
            )[0]
            what()
            self._commit()

    # What happens

    def produce(self, to: Replica | None = None, epoch: int | None = None) -> None:
        leader = self.leader if to is None else to
        epoch = self.epoch if epoch is None else epoch
        values = []
        for _ in range(self.random.randint(1, 5)):
            self.produced += 1
            dies = self.compacted and self.random.random() < 0.25
            key = b"key-%d" % (self.random.randrange(8) if self.compacted else self.produced)
            values.append((key, None if dies else b"value-%d" % self.produced))
        records = [
            Record(value, key, timestamp=START_MS + self.produced * 1000 + n)
            for n, (key, value) in enumerate(values)
        ]
        codec = self.random.choice([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD])
        base = leader.end
        data = encode_records(records, codec=codec, base_offset=base, leader_epoch=epoch)
        leader.take(Batch(base, base + len(records) - 1, epoch, data, tuple(values)))

    def fetch(self) -> None:
        follower = self.random.choice([one for one in self.replicas if one is not self.leader])
        if follower is self.zombie:
            if self.random.random() < 0.6:
                return self.produce(self.zombie, self.zombie.following)
            self.zombie = None
        if follower.following != self.epoch:
            self._diverge(follower)
            follower.following = self.epoch
        start = self.leader.log.log_start_offset
        if follower.end < start:
            follower.log.truncate_fully_and_start_at(start)
            follower.batches = [one for one in self.leader.batches if one.base < start]
        todo = [one for one in self.leader.batches if one.base >= follower.end]
        for one in todo[: self.random.randint(1, 6)]:
            follower.take(one)
        follower.high_watermark = min(self.committed, follower.end)
        if follower.end >= self.committed:
            self.in_sync.add(follower.number)
        return None

    def _diverge(self, follower: Replica) -> None:
        """Cut the follower where it leaves its leader's history."""
        while (latest := follower.cache().latest_epoch) is not None:
            told = self.leader.cache().end_offset_for(latest, self.leader.end)
            if told.epoch < 0:
                follower.cut(min(follower.high_watermark, follower.end))
                return
            if told.epoch == latest:
                follower.cut(min(told.end_offset, follower.end))
                return
            own = follower.cache().end_offset_for(told.epoch, follower.end)
            follower.cut(min(told.end_offset, own.end_offset))

    def elect(self) -> None:
        able = [one for one in self.replicas if one.number in self.in_sync and one is not self.leader]
        if self.unclean and self.random.random() < 0.5:
            able = [one for one in self.replicas if one is not self.leader]
        able = [one for one in able if one is not self.zombie]
        if able:
            old, new = self.leader, self.random.choice(able)
            self.lost_by_election |= new.end < self.committed
            self.zombie = old if self.random.random() < 0.6 else None
            old.following = self.epoch
            self._lead(new)

    def _lead(self, new: Replica) -> None:
        self.epoch += self.random.randint(1, 2)
        self.leader, new.following = new, self.epoch
        self.in_sync = {new.number, *(one for one in self.in_sync if one != self.leader.number)}
        if self.zombie is not None:
            self.in_sync.discard(self.zombie.number)
        new.log.assign_epoch_start_offset(self.epoch, new.end)
        self.committed = min(self.committed, new.end)

    def shrink(self) -> None:
        self.in_sync = {
            one.number
            for one in self.replicas
            if one is self.leader or (one.following == self.epoch and one.end >= self.leader.end)
        }

    def retain(self) -> None:
        one = self.random.choice(self.replicas)
        old = [each for each in list(one.log.segments)[:-1] if self._is_below(one, each.base_offset)]
        if old:
            one.log.update_high_watermark(min(self.committed, one.end))
            one.log.delete_segments(old[: self.random.randint(1, len(old))])

    def _is_below(self, one: Replica, base: int) -> bool:
        above = one.log.segments.higher(base)
        return above is not None and above.base_offset <= min(self.committed, one.high_watermark)

    def _commit(self) -> None:
        # A follower that has not fetched from this leader yet tells nothing: it may diverge.
        ends = [
            one.end if one.following == self.epoch else self.committed
            for one in self.replicas
            if one.number in self.in_sync
        ]
        self.committed = max(self.committed, min(ends))
        self.leader.high_watermark = self.committed

    # The end

    def compact(self, one: Replica) -> None:
        """Clean a replica's log up to its active segment, twice, so that tombstones go."""
        one.log.roll()
        for late in (DAY_MS, 2 * DAY_MS):
            bound = min(self.committed, one.log.segments.last.base_offset)
            bound = max(each.base_offset for each in one.log.segments if each.base_offset <= bound)
            now_ms = START_MS + self.produced * 1000 + late
            passes = LocalPasses(OffsetMap(1 << 16))
            clean_log(one.log, passes, first_dirty_offset=0, upper_bound=bound, now_ms=now_ms)

    def close(self) -> None:
        """Close the logs and write the checkpoints of their roots."""
        for one in self.replicas:
            starts, mark = one.log.log_start_offset, min(one.high_watermark, one.end)
            one.log.close()
            write_offset_checkpoint(LOCAL, one.root / "log-start-offset-checkpoint", {NAME: starts})
            write_offset_checkpoint(LOCAL, one.root / "replication-offset-checkpoint", {NAME: mark})


@dataclass
class Harm:
    """What was done to a replica's disk."""

    stored: set[tuple[int, int]]
    """The batches that the replica had, by base offset and epoch."""
    batches: set[tuple[int, int]] = field(default_factory=set)
    """Those that are no longer sound."""
    epochs_gone: bool = False


def stored(directory: Path) -> Iterator[tuple[Path, int, int, int, int]]:
    """The batches of a directory: (file, position, size, base offset, epoch)."""
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            base, length, epoch = struct.unpack_from(">qii", data, position)
            yield path, position, 12 + length, base, epoch
            position += 12 + length


def harm(one: Replica, dice: random.Random, count: int) -> Harm:
    """Damage a replica's files."""
    listing = list(stored(one.directory))
    done = Harm({each[3:] for each in listing})
    for _ in range(count):
        found = [each for each in listing if each[3:] not in done.batches]
        if not found:
            return done
        path, position, size, base, epoch = dice.choice(found)
        match dice.choice(["flip", "flip", "flip", "zeros", "tail", "noise", "epochs", "file"]):
            case "flip":
                _overwrite(
                    path, at := position + dice.randrange(21, size), bytes([path.read_bytes()[at] ^ 16])
                )
                done.batches.add((base, epoch))
            case "zeros":
                _overwrite(path, position, bytes(size))
                done.batches.add((base, epoch))
            case "tail":
                path, position, size, base, epoch = found[-1]
                if path == max(one.directory.glob("*.log")) and position + size == path.stat().st_size:
                    with path.open("r+b") as file:
                        file.truncate(position + dice.randrange(1, size))
                    done.batches.add((base, epoch))
            case "noise":
                with max(one.directory.glob("*.log")).open("ab") as file:
                    file.write(dice.randbytes(dice.randrange(1, 200)))
            case "epochs":
                (one.directory / "leader-epoch-checkpoint").write_bytes(dice.choice([b"", b"0\n1\nxx 3\n"]))
                done.epochs_gone = True
            case "file":
                logs = sorted(one.directory.glob("*.log"))
                if path not in (logs[0], logs[-1]):
                    done.batches |= {each[3:] for each in listing if each[0] == path}
                    path.unlink()
    return done


def _overwrite(path: Path, at: int, new: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(new)
