"""Spark's side of its benchmarks, in a process of its own: `python -m benchmarks.spark_jobs`.

Reads JSON lines from standard input: {"settings", "cpu_time", "also"}, then a line {"job", ...} for each job
to run, and answers each of those with {"seconds", "rows", "peak"}; with no more lines it ends. `peak`, for
jobs with "watch", is the largest anonymous memory (RssAnon) of the driver's Python and of all Python workers
together; looking takes time of its own, so other jobs are not watched. With `cpu_time` the time is that on
the CPU, of Spark's Java and Python processes and of the process `also` (a broker).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

import tidelog.spark
from benchmarks.spark_scale import grow

_INTERVAL_S = 0.02


def main() -> None:
    """Runs jobs as they come in."""
    request = json.loads(sys.stdin.readline())
    spark = tidelog.spark.session("local[2]", config=request["settings"])
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(NothingSource)
    clock = partial(_cpu_seconds, request["also"]) if request["cpu_time"] else time.perf_counter
    for line in sys.stdin:
        job = json.loads(line)
        if job["job"] in _AFRESH:  # removing what the last repetition wrote is not timed
            shutil.rmtree(job["target"], ignore_errors=True)
        os.sync()  # nor is what the job before has left for the disk
        with _Watch(job.get("watch", False)) as watch:
            begin = clock()
            look = _JOBS[job["job"]](spark, job)
            seconds = job.pop("seconds", clock() - begin)
            rows = look()
        print(json.dumps({"seconds": seconds, "rows": rows, "peak": watch.peak}), flush=True)
    spark.stop()


def _frame(spark: Any, job: dict[str, Any]) -> Any:
    reader = spark.read.format(job["format"]).options(**job["options"])
    return (reader.schema(job["schema"]) if "schema" in job else reader).load()


_Look = Callable[[], int]
"""How many rows a job had, where that is known: asked for when all is done, and not timed."""


def _unknown() -> int:
    return 0


def _noop(spark: Any, job: dict[str, Any]) -> _Look:
    _frame(spark, job).write.format("noop").mode("overwrite").save()
    return _unknown


def _count(spark: Any, job: dict[str, Any]) -> _Look:
    rows = int(_frame(spark, job).count())
    return lambda: rows


def _write_parquet(spark: Any, job: dict[str, Any]) -> _Look:
    frame = _frame(spark, job).withColumn("date", _date())
    frame.write.option("compression", "zstd").partitionBy("topic", "partition", "date").mode(
        "overwrite"
    ).parquet(job["target"])
    return _unknown


def _date() -> Any:
    from pyspark.sql import functions

    return functions.to_date("timestamp")


def _export(spark: Any, job: dict[str, Any]) -> _Look:
    target, kind = job["target"], job.get("format", "parquet")
    options = {}
    if kind == "iceberg":
        Path(target).mkdir()
        options = {"type": "sql", "uri": f"sqlite:///{target}/catalog.db", "warehouse": f"file://{target}"}
        target = "bench.db.events"
    report = tidelog.spark.export(
        spark, job["path"], target, format=kind, table_options=options, include_headers=False
    )
    return lambda: int(sum(row.records for row in report.collect()))


def _write(spark: Any, job: dict[str, Any]) -> _Look:
    _frame(spark, job).write.format(job["to"]).options(**job["to_options"]).mode("append").save()
    return _unknown


def _ingest(spark: Any, job: dict[str, Any]) -> _Look:
    options = dict(job["to_options"])
    root, topic = options.pop("path"), options.pop("topic")
    source = tidelog.spark.FileSource(job["format"], job["options"]["path"])
    name = uuid.uuid4().hex  # what another run took is taken again
    tidelog.spark.ingest(spark, source, root, topic=topic, name=name, options=options)
    return _unknown


def _compact(spark: Any, job: dict[str, Any]) -> _Look:
    root = Path(job["target"])
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(job["path"], root)  # its time does not count, nor that of bringing it to the disk
    os.sync()
    begin = time.perf_counter()
    most = job.get("max_bytes_per_task")
    report = tidelog.spark.compact(spark, root, now_ms=job["now_ms"], max_bytes_per_task=most)
    job["seconds"] = time.perf_counter() - begin
    return lambda: int(sum(row.records_read for row in report.collect()))


def _trigger(spark: Any, job: dict[str, Any]) -> _Look:
    """A stream that is given a record in each partition from time to time; what its triggers take."""
    root, partitions, segments = Path(job["path"]), job["partitions"], job["segments"]
    checkpoint = f"{job['checkpoint']}-{uuid.uuid4().hex}"
    stream = spark.readStream.format("tidelog").option("startingOffsets", "latest").load(str(root))
    writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="2 seconds").start()
    while query.lastProgress is None:  # from here on it knows where it began
        time.sleep(0.1)
    batches: dict[int, tuple[int, int]] = {}  # rows and milliseconds
    try:
        for turn in range(job["turns"] + 1):
            grow(root, partitions, segments)
            _follow(query, batches, partitions * (turn + 1))
    finally:
        query.stop()
    whole = [taken for rows, taken in batches.values() if rows == partitions]  # none while it was growing
    times = sorted(whole[1:])  # the first one starts workers
    job["seconds"] = times[len(times) // 2] / 1000
    return lambda: len(times)


def _follow(query: Any, batches: dict[int, tuple[int, int]], rows: int) -> None:
    """Wait until a stream has read so many rows."""
    limit = time.monotonic() + 300
    while sum(each for each, _ in batches.values()) < rows:
        if time.monotonic() > limit:
            raise TimeoutError("the stream does not get on")
        time.sleep(0.1)
        for one in query.recentProgress:
            if one["numInputRows"]:
                batches[one["batchId"]] = one["numInputRows"], one["durationMs"]["triggerExecution"]


def _topics(spark: Any, job: dict[str, Any]) -> _Look:
    rows = spark.range(0, job["topics"] * 2, 1, 2).selectExpr(
        f"concat('topic-', id % {job['topics']}) topic", "cast(id as string) value"
    )
    root = f"{job['target']}-{uuid.uuid4().hex}"
    rows.write.format("tidelog").mode("append").save(root)
    return lambda: int(spark.read.format("tidelog").load(root).count())


class NothingWriter(DataSourceArrowWriter):
    """Takes the batches that Spark has made, and does nothing with them."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class NothingSource(DataSource):
    """`format("nothing")`, to be written to."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: Any, overwrite: bool) -> NothingWriter:
        return NothingWriter()


_AFRESH = ("write-parquet", "export")

_JOBS: dict[str, Callable[[Any, dict[str, Any]], _Look]] = {
    "noop": _noop,
    "count": _count,
    "write-parquet": _write_parquet,
    "export": _export,
    "write": _write,
    "ingest": _ingest,
    "compact": _compact,
    "trigger": _trigger,
    "topics": _topics,
}


class _Watch:
    """Looks at the memory of this process and of the Python processes under it."""

    def __init__(self, wanted: bool) -> None:
        self.peak = 0
        self._wanted = wanted
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> _Watch:
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            self._done.set()
            self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(_INTERVAL_S):
            family = _family()
            pythons = [pid for pid, name in family.items() if name.startswith("python")]
            self.peak = max(self.peak, sum(_rss_anon(pid) for pid in pythons))


def _cpu_seconds(also: int | None) -> float:
    """Time on the CPU of all processes that count, their ended children's included."""
    total = 0
    for pid in [*_family(), *([also] if also else [])]:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        total += sum(int(number) for number in text[text.rindex(")") + 2 :].split()[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def _family() -> dict[int, str]:
    """This process and those that descend from it: the name of each."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text()
            except OSError:
                continue
            names[int(path.name)] = text[text.index("(") + 1 : text.rindex(")")]
            parents[int(path.name)] = int(text[text.rindex(")") + 2 :].split()[1])
    found = {os.getpid()}
    grown = True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in found} - found
        found |= new
        grown = bool(new)
    return {pid: names.get(pid, "") for pid in found}


def _rss_anon(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


if __name__ == "__main__":
    main()
