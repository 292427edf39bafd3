"""The same steps on Kafka's own segment: the same answers, and the same bytes in all files at the end."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.segment.crafting import (
    CODECS,
    LEGACY_CODECS,
    NOW_MS,
    Nothing,
    batch,
    clock,
    config,
    created,
    opened,
    table_of,
)
from tidelog.segment import ActiveSegment
from tidelog.storage import Directory

if TYPE_CHECKING:
    from tests.oracle import Oracle

Step = list[Any]

SETTINGS = [(100, 4096), (1, 200), (0, 67), (5000, 4096)]


class Case:
    """A segment and the steps taken on it."""

    def __init__(self, rng: random.Random, path: Path, magic: int) -> None:
        self.rng = rng
        self.magic = magic
        self.base = rng.choice([0, 0, 7, 2**33])
        self.interval, self.index_bytes = rng.choice(SETTINGS)
        self.paths = [path / "ours", path / "theirs"]
        for each in self.paths:
            each.mkdir(parents=True)
        self.directory = Directory(self.paths[0])
        self.values = {"index_interval_bytes": self.interval, "segment_index_bytes": self.index_bytes}
        self.segment = created(self.directory, self.base, **self.values)
        self.now = NOW_MS
        self.steps: list[Step] = []
        self.answers: list[Any] = []

    def request(self) -> dict[str, Any]:
        return {
            "dir": str(self.paths[1]),
            "base": self.base,
            "exists": False,
            "config": {
                "index.interval.bytes": str(self.interval),
                "segment.index.bytes": str(self.index_bytes),
            },
            "steps": self.steps,
        }

    def take(self, step: Step) -> None:
        self.steps.append(step)
        self.answers.append(self.answer(step))

    def state(self) -> list[int]:
        segment = self.segment
        largest = segment.max_timestamp_so_far
        return [
            segment.size,
            segment.offset_index.entries,
            segment.time_index.entries,
            largest.timestamp,
            largest.offset,
            int(segment.progress.index_full),
        ]

    def answer(self, step: Step) -> list[int]:
        segment = self.segment
        match step:
            case ["append", _, data]:
                plain = base64.b64decode(data)
                segment.append(plain, table_of(plain))
                return self.state()
            case ["truncate", offset]:
                return [segment.truncate_to(offset), *self.state()]
            case ["roll_and_truncate", offset]:
                settings = config(**self.values)
                self.segment = ActiveSegment.reopen(segment.seal(), settings, clock=clock)
                return [self.segment.truncate_to(offset), *self.state()]
            case ["recover"]:
                return [segment.recover(Nothing()), *self.state()]
            case ["reopen"]:
                segment.close()
                self.segment = opened(self.directory, self.base, **self.values)
                return self.state()
            case ["damage", position, byte]:
                with Path(segment.path).open("r+b") as file:
                    file.seek(position)
                    file.write(bytes([byte]))
                return []
            case ["read", offset, size, limit, at_least_one]:
                found = segment.read(offset, size, limit, bool(at_least_one))
                if found is None:
                    return []
                place = [found.start.offset, found.start.position]
                return [*place, len(found.data), int(found.first_entry_incomplete)]
            case ["translate", offset]:
                return list(segment.translate_offset(offset) or [])
            case ["time", timestamp, offset]:
                first = segment.find_offset_by_timestamp(timestamp, offset)
                return [] if first is None else [first.timestamp, first.offset]
            case ["upper", position, size]:
                bound = segment.fetch_upper_bound_offset(position, size)
                return [] if bound is None else [bound]
            case ["facts"]:
                return [
                    segment.next_offset(),
                    segment.first_batch_timestamp,
                    segment.max_timestamp_so_far.timestamp,
                    int(segment.has_overflow),
                ]
        raise AssertionError(step)

    def append(self) -> None:
        rng, segment = self.rng, self.segment
        if segment.progress.index_full:  # the log would roll
            return
        room = segment.offset_index.max_entries - segment.offset_index.entries
        room = min(room, segment.time_index.max_entries - 1 - segment.time_index.entries)
        data, offset = b"", segment.next_offset() + rng.choice([0, 0, 0, 4])
        for _ in range(rng.choice([1, 1, 1, 3])):
            records = rng.choice([1, 2, 9])
            times = []
            for _ in range(records):
                self.now = max(0, self.now + rng.choice([-(10**6), 0, 1, 1, 9, 4000]))
                times.append(self.now if rng.random() < 0.95 else 0)
            codec = rng.choice(CODECS if self.magic == 2 else LEGACY_CODECS)
            data += batch(offset, times, size=rng.choice([1, 30, 200]), codec=codec, magic=self.magic)
            offset += records
        if len(table_of(data)) <= room:
            self.take(["append", offset - 1, base64.b64encode(data).decode()])

    def look(self) -> None:
        rng, segment = self.rng, self.segment
        end, size = segment.next_offset(), segment.size
        offset = rng.randint(self.base, end + 1)
        limit = rng.choice([None, None, rng.randint(0, size)])
        start = segment.translate_offset(offset)
        if limit is not None and start is not None:
            limit = max(limit, start.position)  # Kafka's log never asks for less, and its segment would throw
        self.take(
            rng.choice(
                [
                    ["read", offset, rng.choice([0, 1, 100, 10_000]), limit, rng.randint(0, 1)],
                    ["translate", offset],
                    ["translate", offset],
                    ["time", self.now + rng.choice([-(10**6), -5000, -10, -1, 0, 1, 10]), offset],
                    ["time", rng.choice([-1, 0, NOW_MS, 2**62]), self.base],
                    ["upper", rng.randint(0, size), rng.choice([0, 1, 300])],
                    ["facts"],
                ]
            )
        )

    def change(self) -> None:
        rng = self.rng
        target = rng.randint(self.base, self.segment.next_offset() + 1)
        self.take(
            rng.choice(
                [["truncate", target], ["truncate", target], ["roll_and_truncate", target], ["reopen"]]
            )
        )

    def damage(self) -> None:
        """Flip a byte of what a checksum covers, or of a length, and recover; or recover what is whole."""
        rng, segment = self.rng, self.segment
        if self.index_bytes < 1000:  # Kafka's recovery throws where it fills an index
            return
        if segment.size and rng.random() < 0.7:
            table = table_of(segment.buffer())
            row = rng.randrange(len(table))
            start, size = int(table.position[row]), int(table.size[row])
            at = start + rng.choice([8, 9, 10, 11, rng.randrange(21 if self.magic == 2 else 18, size)])
            byte = segment.buffer()[at] ^ (1 << rng.randrange(8))
            self.take(["damage", at, byte])
        self.take(["recover"])


@pytest.mark.parametrize("magic", [2, 1, 0])
def test_segments(oracle: Oracle, tmp_path: Path, magic: int) -> None:
    cases = []
    for seed in range(25):
        case = Case(random.Random(f"{magic}, {seed}"), tmp_path / f"{seed}", magic)
        for _ in range(60):
            pick = case.rng.random()
            if pick < 0.5:
                case.append()
            elif pick < 0.9:
                case.look()
            elif pick < 0.97:
                case.change()
            else:
                case.damage()
        case.segment.close()
        cases.append(case)
    answers = oracle.programs.ask("tidelog.oracle.Segments", {"cases": [case.request() for case in cases]})
    for seed, (case, theirs) in enumerate(zip(cases, answers, strict=True)):
        for at, (step, ours, kafkas) in enumerate(zip(case.steps, case.answers, theirs, strict=True)):
            assert ours == kafkas, f"case {seed}, step {at}: {step}"
        ours_files, their_files = ({p.name: p.read_bytes() for p in path.iterdir()} for path in case.paths)
        their_files.pop("leader-epoch-checkpoint", None)
        assert ours_files.keys() == their_files.keys()
        for name, data in ours_files.items():
            assert data == their_files[name], f"case {seed}: {name}"
