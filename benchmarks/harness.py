"""What every group of benchmarks needs: effort, clocks, a place for data, and Kafka's engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.cache import KAFKA_VERSION
from tests.oracle.jars import Kafka, Programs

__all__ = ["JVM", "KAFKA", "Bench", "DifferentAnswersError", "Effort", "Timing", "agree", "best_seconds_on"]

KAFKA = f"kafka {KAFKA_VERSION}"

JVM = ("-Xms1g", "-Xmx3g")
_MIN_REPETITIONS = 3

_T = TypeVar("_T")


class DifferentAnswersError(Exception):
    """Kafka and tidelog do not agree, so their times mean nothing."""


def agree(row: str, kafka: int, ours: int) -> None:
    """Refuse a row whose answers differ."""
    if kafka != ours:
        raise DifferentAnswersError(f"{row}: Kafka's answers sum up to {kafka}, tidelog's to {ours}")


@dataclass(frozen=True, slots=True)
class Timing:
    """What a program of java/ measured: its best repetition, and what came out of the work."""

    seconds: float
    witness: int


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work to spend on a row. Both sides get the same files and the same measuring time."""

    quick: bool
    cpu_time: bool = False
    """Count time on the CPU instead of the time that passed: of all our threads, of Kafka's working one."""

    @property
    def warmup_s(self) -> float:
        """Time for Java's JIT before Kafka is measured."""
        return 1.5 if self.quick else 4.0

    @property
    def measure_s(self) -> float:
        """Time in which the best repetition counts."""
        return 0.5 if self.quick else 2.0

    def request(self) -> dict[str, Any]:
        """The effort as a program of java/ reads it."""
        return {"warmup_s": self.warmup_s, "measure_s": self.measure_s, "cpu_time": self.cpu_time}

    def scale(self, quick: int, full: int) -> int:
        """A size that depends on the effort."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Bench:
    """The surroundings of one run."""

    effort: Effort
    scratch: Path
    """An empty directory that goes away after the run."""

    selected: Callable[[str], bool]
    """Whether the user asked for the row of that name."""

    programs: Programs

    @classmethod
    def create(cls, effort: Effort, scratch: Path, selected: Callable[[str], bool]) -> Bench:
        """Raises `OracleUnavailableError` where Kafka's jars cannot be had."""
        programs = Kafka.obtain().compile(Path(__file__).with_name("java"))
        return cls(effort, scratch, selected, programs)

    def kafka(self, program: str, **request: Any) -> list[Any]:
        """Runs a program of java/ with the run's effort; its JSON lines."""
        effort = self.effort.request()
        return self.programs.ask(f"tidelog.bench.{program}", effort | request, limit_s=600, jvm=JVM)

    def kafka_timing(self, program: str, **request: Any) -> Timing:
        """What a program that prints its timing has measured."""
        (answer,) = self.kafka(program, **request)
        return Timing(float(answer["seconds"]), int(answer["witness"]))

    def kafka_seconds(self, program: str, **request: Any) -> float:
        """The best time of a program that prints its timing."""
        return self.kafka_timing(program, **request).seconds

    def best(self, work: Callable[[], object]) -> float:
        """Seconds of the best repetition of our own (or a Python peer's) work."""
        return self.best_on(nullcontext, lambda _: work())

    def best_elapsed(self, work: Callable[[], object]) -> float:
        """Like `best`, by the clock on the wall in any case: for work of several threads or processes."""
        return best_seconds_on(nullcontext, lambda _: work(), self.effort.measure_s, time.perf_counter)

    def best_on(
        self, prepare: Callable[[], AbstractContextManager[_T]], work: Callable[[_T], object]
    ) -> float:
        """Like `best`, with something made anew for each repetition; making and leaving it are not timed."""
        clock = time.process_time if self.effort.cpu_time else time.perf_counter
        return best_seconds_on(prepare, work, self.effort.measure_s, clock)

    def say(self, text: str) -> None:
        """Progress, on standard error."""
        print(f"  {text}", file=sys.stderr, flush=True)


def best_seconds_on(
    prepare: Callable[[], AbstractContextManager[_T]],
    work: Callable[[_T], object],
    measure_s: float,
    clock: Callable[[], float],
) -> float:
    """The best of as many repetitions as fit `measure_s`, after one that is not counted.

    Each works on what is prepared for it; only the work is timed.
    """
    with prepare() as prepared:
        work(prepared)
    best = float("inf")
    repetitions = 0
    left = measure_s
    while repetitions < _MIN_REPETITIONS or left > 0:
        with prepare() as prepared:
            start = clock()
            work(prepared)
            taken = clock() - start
        best = min(best, taken)
        left -= taken
        repetitions += 1
    return best
