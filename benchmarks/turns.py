"""Ours and Kafka's work by turns: both meet the same minutes of the machine.

1. Kafka's program starts and repeats the work until the JIT has nothing more to gain.
2. We do ours once, uncounted.
3. Turns: we work for a while, then Kafka does, a fixed number of times. A turn counts its best repetition.
4. The medians of the turns are compared. The spread of the turns' ratios says how far to trust them.

Nobody works while the other side does: Kafka's program waits for its turn.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.oracle.jars import OracleError

from benchmarks.harness import JVM, Bench

__all__ = ["Peer", "Turns", "by_turns", "by_turns_on", "peer"]

_TURNS = 7
_LONGEST_TURN_S = 120.0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Turns:
    """The seconds that both sides took, turn by turn."""

    ours: tuple[float, ...]
    kafka: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Our median."""
        return statistics.median(self.ours)

    @property
    def kafka_seconds(self) -> float:
        """Kafka's median."""
        return statistics.median(self.kafka)

    @property
    def spread(self) -> float:
        """How far the middle half of the turns' ratios reaches, as a share of their median."""
        ratios = [kafka / ours for ours, kafka in zip(self.ours, self.kafka, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        return (high - low) / middle


class Peer:
    """A program of java/ that has warmed up and does its work when it is asked to."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self._name = name
        self._process = process
        self.witness = int(self._answer()["witness"])
        """What came out of the work."""

    def turn(self) -> float:
        """Seconds of the best repetition of a turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"{self._name} ended with {self._process.wait(timeout=10)}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def peer(bench: Bench, program: str, **request: Any) -> Iterator[Peer]:
    """Start a program of java/ and let it warm up; it ends with the context."""
    command = bench.programs.command(f"tidelog.bench.{program}", jvm=JVM)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            turn_s = bench.effort.measure_s / 4
            request |= bench.effort.request() | {"turn_s": turn_s}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            yield Peer(program, process)
            process.stdin.close()
            process.wait(timeout=_LONGEST_TURN_S)
        finally:
            process.kill()


def by_turns(bench: Bench, kafka: Peer, work: Callable[[], object]) -> Turns:
    """Time our work and Kafka's by turns."""
    return by_turns_on(bench, kafka, nullcontext, lambda _: work())


def by_turns_on(
    bench: Bench,
    kafka: Peer,
    prepare: Callable[[], AbstractContextManager[_T]],
    work: Callable[[_T], object],
) -> Turns:
    """Like `by_turns`, with something made anew for each repetition; making and leaving it are not timed."""
    clock = time.process_time if bench.effort.cpu_time else time.perf_counter

    def once() -> float:
        with prepare() as prepared:
            start = clock()
            work(prepared)
            return clock() - start

    def turn() -> float:
        best, left = float("inf"), bench.effort.measure_s / 4
        while left > 0:
            taken = once()
            best, left = min(best, taken), left - taken
        return best

    once()
    turns = [(turn(), kafka.turn()) for _ in range(_TURNS)]
    ours, theirs = zip(*turns, strict=True)
    return Turns(ours, theirs)
