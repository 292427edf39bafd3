"""A pipeline on a million events, from end to end: `make demo`.

1. Tide gauge readings arrive as Parquet files.
2. `tidelog pipeline` takes them into topics as Kafka would store them, verifies, compacts and exports; run
   once more, it has nothing to do. Without Java or PySpark the topic is written by this process alone.
3. Read it as Arrow columns; find a moment through the time index.
4. Verify all of it; flip one bit, see that caught; lose an index, rebuild it.
5. With Spark: read the files as a DataFrame, from that moment on; ask the exported Parquet files with SQL.
6. Draw it all as a page, which stays when the rest is removed.

Everything else happens in a temporary directory. `--events 50000` makes it short.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import tidelog
from tidelog.errors import InvalidInputError
from tidelog.manager.upkeep.reindexing import reindex
from tidelog.manager.verification import Kind, verify_root
from tidelog.storage import LOCAL
from tidelog.types import Codec

GAUGES = ("brest", "cuxhaven", "halifax", "saint-malo")
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
STEP_MS = 2_000
PIECE = 50_000
MILLISECONDS = pa.timestamp("ms", tz="UTC")

console = Console(highlight=False)


@contextmanager
def step(title: str) -> Iterator[None]:
    """A part of the story, and how long it took."""
    console.rule(f"[bold]{title}", align="left")
    begin = time.perf_counter()
    yield
    console.print(f"[dim]{time.perf_counter() - begin:.1f} s")


def readings(gauge: int, first: int, count: int) -> pa.RecordBatch:
    """A run of readings of one gauge: JSON values, one every two seconds."""
    number = np.arange(first, first + count)
    level = np.round(3 + 2.5 * np.sin(2 * np.pi * number / 22_350 + gauge), 2)
    texts = [pa.array(column).cast(pa.string()) for column in (level, number)]
    values = pc.binary_join_element_wise('{"level_m":', texts[0], ',"reading":', texts[1], "}", "")
    return pa.record_batch(
        {
            "key": pa.array([GAUGES[gauge].encode()] * count, pa.binary()),
            "value": values.cast(pa.binary()),
            "timestamp": pa.array(int(BEGIN.timestamp() * 1000) + STEP_MS * number, MILLISECONDS),
        }
    )


def arrive(landing: Path, events: int) -> None:
    """The readings as files, one for each gauge."""
    landing.mkdir()
    for gauge, name in enumerate(GAUGES):
        batch = readings(gauge, 0, events // len(GAUGES))
        number = pa.array(np.full(batch.num_rows, gauge, dtype=np.int32))
        pq.write_table(
            pa.Table.from_batches([batch]).append_column("partition", number), landing / f"{name}.parquet"
        )
    size = sum(path.stat().st_size for path in landing.iterdir())
    console.print(f"{events:,} events in {len(GAUGES)} files, {size / 1e6:.1f} MB")


PIPELINE = """\
root: kafka-logs
spark: local[2]
steps:
  - ingest: {source: landing, format: parquet, topic: tides, partitions: 4, compression: lz4}
  - ingest: {source: landing, format: parquet, topic: latest, partitions: 4,
             config: {cleanup.policy: compact}}
  - verify: {deep: true}
  - compact: {topics: [latest]}
  - export: {to: lake, topics: [tides], values: json}
"""


def run_pipeline(scratch: Path) -> None:
    """The command, twice: what is done is not done again."""
    config = scratch / "pipeline.yaml"
    config.write_text(PIPELINE)
    console.print(PIPELINE, style="dim", markup=False, soft_wrap=True)
    command = [Path(sys.executable).with_name("tidelog"), "pipeline", config, "--json"]
    for title in ("tidelog pipeline pipeline.yaml", "once more"):
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        table = Table("step", "status", "seconds", "detail", title=title, title_justify="left")
        for line in done.stdout.splitlines():
            row = json.loads(line)
            table.add_row(row["step"], row["status"], str(row["seconds"]), row["detail"])
        console.print(table)
        console.print(f"[dim]{time.perf_counter() - begin:.1f} s in all")
        if done.returncode:
            raise SystemExit(done.stderr)


def write(root: Path, events: int) -> None:
    """Append the readings without Spark, a partition for each gauge."""
    with tidelog.open(root, create=True) as store:
        store.create_topic("tides", partitions=len(GAUGES))
        for gauge in range(len(GAUGES)):
            partition = store.partition("tides", gauge)
            share = events // len(GAUGES)
            for first in range(0, share, PIECE):
                partition.append(readings(gauge, first, min(PIECE, share - first)), codec=Codec.LZ4)


def show(root: Path) -> None:
    """What is there."""
    with tidelog.open(root) as store:
        logs = [partition.log for partition in store.topic("tides")]
        events = sum(log.log_end_offset for log in logs)
        segments, size = sum(len(log.segments) for log in logs), sum(log.size for log in logs)
    console.print(
        f"{events:,} events in {segments} segments, {size / 1e6:.1f} MB: a broker can open {root.name}/"
    )


def read(root: Path) -> None:
    """All records as Arrow columns, and a question to them."""
    levels: dict[str, list[Any]] = {gauge: [] for gauge in GAUGES}
    rows = 0
    for batch in tidelog.scan(root, "tides", columns=["key", "value"], threads=2):
        rows += batch.num_rows
        found = pc.extract_regex(batch["value"].cast(pa.string()), r'"level_m":(?P<metres>[0-9.]+)')
        metres = found.field("metres").cast(pa.float64())
        levels[batch["key"][0].as_py().decode()].append(pc.min_max(metres).as_py())
    console.print(f"{rows:,} rows of key and value")
    table = Table("gauge", "lowest", "highest")
    for gauge, ranges in levels.items():
        low, high = min(one["min"] for one in ranges), max(one["max"] for one in ranges)
        table.add_row(gauge, f"{low:.2f} m", f"{high:.2f} m")
    console.print(table)


def find(root: Path, moment: datetime) -> None:
    """The first record of each partition at or after a moment: two index look-ups and one batch."""
    table = Table("partition", "first offset", "its time")
    with tidelog.open(root) as store:
        for partition in store.topic("tides"):
            found = partition.offset_for_timestamp(int(moment.timestamp() * 1000))
            if found is not None:
                then = datetime.fromtimestamp(found.timestamp / 1000, UTC)
                table.add_row(
                    str(partition.topic_partition), f"{found.offset:,}", f"{then:%Y-%m-%d %H:%M:%S}"
                )
    console.print(f"at or after {moment:%Y-%m-%d %H:%M}:")
    console.print(table)


def verify(root: Path) -> None:
    """Sound, then damaged by one bit, then without an index: each is told apart."""
    console.print(f"as written: {len(damages(root))} damaged places")
    log = sorted((root / "tides-0").glob("*.log"))[0]
    sound = log.read_bytes()
    data = bytearray(sound)
    data[len(data) // 2] ^= 0x04
    log.write_bytes(data)
    for finding in damages(root)[:1]:
        console.print(f"one bit flipped: [red]{finding.cause}[/] at position {finding.position:,}")
    log.write_bytes(sound)
    index = log.with_suffix(".timeindex")
    before = index.read_bytes()
    index.unlink()
    (done,) = reindex(LOCAL, str(root))
    same = "the very bytes it had" if index.read_bytes() == before else "other bytes than it had"
    console.print(f"an index deleted: {done.cause}; rebuilt from the log, {same}")


def damages(root: Path) -> list[Any]:
    """What is damaged."""
    return [one for one in verify_root(LOCAL, str(root)) if one.kind is Kind.DAMAGE]


def with_spark(root: Path, lake: Path, moment: datetime) -> None:
    """The same files as a DataFrame, and the export asked with SQL."""
    import tidelog.spark

    with ExitStack() as stack:
        with step("Spark: start"):
            session = stack.enter_context(tidelog.spark.quiet_session("local[2]"))
        with step("Spark: read the files as a DataFrame, from that moment on"):
            source = session.read.format("tidelog").option("subscribe", "tides")
            since = source.option("startingTimestamp", int(moment.timestamp() * 1000)).load(str(root))
            counts = since.groupBy("partition").count().orderBy("partition").collect()
            console.print(", ".join(f"partition {row['partition']}: {row['count']:,}" for row in counts))
        with step("Spark: query the Parquet files"):
            session.read.parquet(str(lake)).createOrReplaceTempView("tides")
            query = """select date, count(*), round(max(value.level_m), 2) from tides
                       where partition = 0 group by date order by date"""
            table = Table("date", "readings", "highest", title=f"{GAUGES[0]}, by day")
            for date, readings_, highest in session.sql(query).collect():
                table.add_row(str(date), f"{readings_:,}", f"{highest:.2f} m")
            console.print(table)


def draw(root: Path) -> None:
    """The root's report, where it can be found afterwards."""
    from tidelog.report.facts import gather
    from tidelog.report.page import page

    target = Path(__file__).parents[1] / "build" / "demo-report.html"
    target.parent.mkdir(exist_ok=True)
    target.write_text(page(gather(root)), encoding="utf-8")
    console.print(f"Open [bold]{target}[/] in a browser.")


def why_no_spark() -> str | None:
    """What is missing, if anything is."""
    from tidelog.spark.runtime.sessions import require_java, require_pyspark

    try:
        require_pyspark()
        require_java()
    except InvalidInputError as missing:
        return str(missing)
    return None


def main() -> None:
    """The whole story."""
    parser = argparse.ArgumentParser(description="A pipeline on generated events.")
    parser.add_argument("--events", type=int, default=1_000_000)
    events = parser.parse_args().events
    moment = BEGIN + timedelta(milliseconds=STEP_MS * (events // len(GAUGES) * 3 // 4))
    missing = why_no_spark()
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
        scratch = Path(directory)
        root, lake = scratch / "kafka-logs", scratch / "lake"
        with step("Events arrive as Parquet files"):
            arrive(scratch / "landing", events)
        if missing is None:
            with step("Ingest, verify, compact, export: a pipeline"):
                run_pipeline(scratch)
                show(root)
        else:
            with step("Write a topic as Kafka would store it"):
                write(root, events)
                show(root)
        with step("Read it as Arrow columns"):
            read(root)
        with step("Find a moment"):
            find(root, moment)
        with step("Verify it"):
            verify(root)
        if missing is None:
            with_spark(root, lake, moment)
        else:
            console.print(f"[yellow]The rest needs Spark.[/] {missing}")
        with step("Draw it as a page"):
            draw(root)
        console.rule(align="left")
        console.print("Try it on files of your own: [bold].venv/bin/tidelog verify DIRECTORY")


if __name__ == "__main__":
    main()
