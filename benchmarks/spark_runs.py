"""Jobs on Spark, timed: each Spark is a process of its own (`spark_jobs`), and jobs take turns.

The machine's speed changes from one minute to the next, so what is compared runs side by side: a repetition
of each, then the next of each, also where the two are jobs of two Sparks. The first run of a job starts
workers and is compiled by Java, and does not count. Java goes on compiling for minutes, the connector's
way more than ours: each is repeated nine times, short jobs more often.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from typing import Any

from benchmarks.harness import Bench

__all__ = ["SETTINGS", "Run", "Spark", "run_jobs", "take_turns"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
}
_LIMIT_S = 3600.0


class Spark:
    """A Spark in a process of its own, for as long as the `with` lasts; it runs one job at a time."""

    def __init__(self, bench: Bench, settings: dict[str, str], also: int | None = None) -> None:
        """`also` is a process whose time on the CPU counts too, where that is what counts."""
        self.cpu_time = bench.effort.cpu_time
        self._request = {"settings": settings, "cpu_time": self.cpu_time, "also": also}

    def __enter__(self) -> Spark:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_jobs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._limit = threading.Timer(_LIMIT_S, self._process.kill)
        self._limit.start()
        self._send(self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self._process.communicate()
        self._errors.close()

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run a job once: its "seconds", "rows" and "peak"."""
        self._send(job)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._errors.seek(0)
        raise RuntimeError(f"Spark ended with {self._process.wait()}:\n{self._errors.read()[-3000:]}")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: told where its answer is missing
            print(json.dumps(message), file=self._process.stdin, flush=True)


class Run:
    """A job on a Spark, and what its repetitions took."""

    def __init__(self, spark: Spark, job: dict[str, Any]) -> None:
        self._spark = spark
        self._job = job
        self.rows = 0
        self.peak = 0
        self.times: list[float] = []

    @property
    def seconds(self) -> float:
        """The best time; of times on the CPU the median: an orphan that ends takes its time with it, so the
        best may be too good.
        """
        found = sorted(self.times)
        return found[len(found) // 2] if self._spark.cpu_time else found[0]

    def warm(self) -> None:
        """Run the job; its time does not count."""
        self.rows = self._spark.run(self._job)["rows"]

    def repeat(self) -> None:
        """Run the job."""
        answer = self._spark.run(self._job)
        self.rows = answer["rows"]
        self.peak = max(self.peak, answer["peak"])
        self.times.append(answer["seconds"])


def take_turns(bench: Bench, runs: list[Run], *, once: bool = False) -> None:
    """Repeat jobs, one after the other and again, until each has been run often and long enough. `once` is
    for what is not timed.
    """
    repeat = 1 if once else bench.effort.scale(2, 9)
    measure_s = 0 if once else bench.effort.scale(5, 25)
    for run in runs:
        run.warm()
    while due := [run for run in runs if len(run.times) < repeat or sum(run.times) < measure_s]:
        for run in due:
            run.repeat()


def run_jobs(
    bench: Bench,
    settings: dict[str, str],
    jobs: list[dict[str, Any]],
    also: int | None = None,
    *,
    once: bool = False,
) -> list[Run]:
    """Jobs of one Spark, by turns."""
    with Spark(bench, settings, also) as spark:
        runs = [Run(spark, job) for job in jobs]
        take_turns(bench, runs, once=once)
    return runs
