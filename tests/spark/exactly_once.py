"""A life of batch writes that are killed at random and tried again, as Spark tries them; run as a program.

    python -m tests.spark.exactly_once <directory> <rounds> <seed>

Each round writes one batch: so many tasks with so many rows stage them, the commit publishes them. An attempt
is a forked process that is killed at a random change to the file system; then the batch is tried again, with
other staged files, until an attempt lives. What is in the root is checked after every attempt.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

import pyarrow as pa

import tidelog
from tests.manager.publishing import Values, contents, open_root, publish_values
from tidelog.config import LogConfig
from tidelog.manager.publishing.staging import LARGE
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import JOURNAL_FILE, read_journal
from tidelog.testing.faults import CHANGES, Call, FaultyFileSystem

PARTITIONS = 2  # as `publish_values` has it


class Life:
    """The root, and what must be in it."""

    def __init__(self, base: Path, seed: int) -> None:
        self.base = base
        self.root = str(base / "root")
        self.dice = random.Random(seed)
        self.config = LogConfig.from_properties(
            {"internal.segment.bytes": self.dice.choice((500, 2000, 1 << 20))}
        )
        self.large = 0
        """From which size on segments that are not full may be linked; another in each round."""
        self.written = 0
        self.kills = 0
        self.in_window = 0
        """Rounds with a kill between the intent and the end of a commit."""
        self.steps, self.window = 60, 20

    def batch(self) -> list[Values]:
        """The rows of each task, numbered on over all tasks."""
        tasks = []
        number = self.written
        for _ in range(self.dice.randint(1, 5)):
            values: dict[tuple[str, int], list[bytes]] = {}
            for _ in range(self.dice.choice((0, 1, 7, 40))):
                pad = bytes(self.dice.choice((0, 30, 150)))
                values.setdefault(("t", number % PARTITIONS), []).append(b"%08d" % number + pad)
                number += 1
            tasks.append(values)
        return tasks

    def attempt(self, number: int, tasks: list[Values], staging: str, kill: tuple[bool, int]) -> bool:
        """Write a batch in a process that dies at a change, if it comes to that: counted from its beginning,
        or from where its intent is in the journal.
        """
        answers, answer = os.pipe()
        child = os.fork()
        if not child:
            self._write(number, tasks, staging, kill, answer)
        os.close(answer)
        with os.fdopen(answers) as told:
            steps = told.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return False
        assert os.WEXITSTATUS(status) == 0, f"round {number} failed"
        self.steps, self.window = map(int, steps.split())
        return True

    def _write(
        self, number: int, tasks: list[Values], staging: str, kill: tuple[bool, int], answer: int
    ) -> None:
        """In the child; it does not return."""
        is_aimed, last = kill
        count = inside = journals = 0

        def rule(call: Call) -> None:
            nonlocal count, inside, journals
            if call.operation not in CHANGES:
                return
            count += 1
            journals += call.operation == "rename" and JOURNAL_FILE in call.path
            inside += journals == 1
            if last and (inside if is_aimed else count) == last:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            fs = FaultyFileSystem(LOCAL, rule)
            with open_root(self.root, fs) as store:
                options = {"query": "q", "batch": number, "topics": {"t": PARTITIONS}}
                publish_values(store, fs, staging, tasks, log_config=self.config, large=self.large, **options)
            os.write(answer, b"%d %d" % (count, inside))
            status = 0
        finally:
            os._exit(status)

    def round(self, number: int) -> None:
        """One batch, until an attempt lives."""
        tasks = self.batch()
        self.large = self.dice.choice((LARGE, 300, 1200))
        rows = sum(len(values) for task in tasks for values in task.values())
        attempt, was_inside = 0, False
        while True:
            is_aimed = self.dice.random() < 0.6
            last = self.dice.randint(1, max(self.window if is_aimed else self.steps, 2))
            kill = (is_aimed, last if attempt < 2 and self.dice.random() < 0.7 else 0)
            done = self.attempt(number, tasks, str(self.base / "staging" / f"{number}-{attempt}"), kill)
            attempt += 1
            if done:
                break
            self.kills += 1
            if Path(self.root, JOURNAL_FILE).exists():
                is_pending = read_journal(LOCAL, self.root).pending is not None
                was_inside |= is_pending
                self._read_unlocked({self.written, self.written + rows}, is_pending)
        self.written += rows
        self.in_window += was_inside
        with open_root(self.root) as store:
            found = {name: values for name, values in contents(store).items() if name.topic == "t"}
        for name, values in found.items():
            numbers = [int(value[:8]) for value in values]
            assert numbers == [n for n in range(self.written) if n % PARTITIONS == name.partition], number

    def _read_unlocked(self, sizes: set[int], is_pending: bool) -> None:
        """A reader that takes no lock sees the whole batch or nothing of it."""
        if not list(Path(self.root).glob("t-*")):
            return
        rows = tidelog.scan(self.root, "t", columns=["offset"]).read_all().num_rows
        assert rows in sizes
        assert not is_pending or rows == self.written


def main() -> None:
    base, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    life = Life(base, seed)
    for number in range(rounds):
        life.round(number)
    facts = {"rounds": rounds, "rows": life.written, "kills": life.kills, "in_window": life.in_window}
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
