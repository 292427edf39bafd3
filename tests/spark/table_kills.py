"""A life of exports to a table that are killed at any step; run as a program.

    python -m tests.spark.table_kills <directory> <format> <rounds> <seed> [append | by-key | compact]

Each round appends to a log and exports it, in a forked process that is killed at some call of a function: of
the export's own code, of the tables' and of their libraries, before or after what it does. The tasks run in
that process too, so a round takes no Spark. After every round the table must have each offset once, as far as
it was exported; what a killed run left is removed by the next. By key, it must have the last record of each
key; with `compact`, a run also merges the files of the table.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from tests.spark.writer import LogWriter
from tidelog.spark.exporting.by_key import export_by_key
from tidelog.spark.exporting.job import export_tasks, plan_export
from tidelog.spark.exporting.merging import merge_in
from tidelog.spark.exporting.parquet import ParquetSettings
from tidelog.spark.exporting.table_target import TableTarget
from tidelog.spark.exporting.tasks import REPORT_SCHEMA, ExportWork
from tidelog.spark.exporting.value_schemas import choose_decoders
from tidelog.spark.source.offsets import select_partitions
from tidelog.spark.source.options import SourceOptions
from tidelog.tables.opening import open_table
from tidelog.tables.table import Table, TableFormat
from tidelog.values.decoding import ValueFormat

LIBRARIES = ("deltalake", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyarrow.dataset", "pyspark")
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType")
OURS = ("/tidelog/tables/", "/tidelog/spark/exporting/")
THEIRS = ("/deltalake/", "/pyiceberg/table/", "/pyiceberg/catalog/", "/pyiceberg/io/")


def open_in(base: Path, kind: str, buckets: int | None = None) -> Table:
    if kind == "delta":
        return open_table(TableFormat.DELTA, str(base / "table"), buckets=buckets)
    options = {"type": "sql", "uri": f"sqlite:///{base}/catalog.db", "warehouse": f"file://{base}/lake"}
    return open_table(TableFormat.ICEBERG, "test.db.events", options, buckets=buckets)


def location(base: Path, kind: str) -> Path:
    return base / "table" if kind == "delta" else base / "lake/db/events"


def here(work: Any, splits: Any, schema: Any) -> list[dict[str, Any]]:
    """As `run_job` does it."""
    rows = [row for number, split in enumerate(splits) for row in work(number, split)]
    return pa.Table.from_pylist(rows, schema=schema).to_pylist()


def export(base: Path, kind: str, way: str) -> None:
    """A run of `tidelog.spark.export` whose tasks run here."""
    export_new(base, kind, way == "by-key")
    table = open_in(base, kind)
    if way == "compact" and table.exists:
        held = TableTarget(table)
        try:
            merge_in(here, held, ParquetSettings(), 2)
        finally:
            held.release()


def export_new(base: Path, kind: str, by_key: bool) -> None:
    options = SourceOptions((str(base / "log"),), include_control_records=False, committed_only=by_key)
    held = TableTarget(open_in(base, kind, 3 if by_key else None), by_key=by_key)
    try:
        partitions = select_partitions(options)
        plan = plan_export(partitions, held.done(partitions), options)
        if not plan.ranges:
            return
        tasks = export_tasks(plan.ranges, options, 2)
        decoders = choose_decoders(held, plan.ranges, ValueFormat.STRING, None, True)
        layout = held.prepare(COLUMNS, decoders)
        settings = ParquetSettings(row_group_rows=20, file_bytes=1000)
        place, staging = held.place.url, held.staging
        work = ExportWork(place, staging, COLUMNS, decoders, settings, True, plan.ids, layout=layout)
        if by_key:
            _, buckets = export_by_key(here, held, work, tasks)
            held.commit(plan.done, buckets, [name for row in buckets for name in row["removed"]])
        else:
            held.commit(plan.done, here(work, tasks, REPORT_SCHEMA))
    finally:
        held.release()


def offsets(base: Path, kind: str) -> list[tuple[int, int]]:
    """The partition and offset of each row in the table, and nothing if there is none."""
    if kind == "delta":
        from deltalake import DeltaTable

        there = DeltaTable.is_deltatable(str(base / "table"))
        table = DeltaTable(str(base / "table")).to_pyarrow_table() if there else None
    else:
        opened: Any = open_in(base, kind)
        table = opened._table.scan().to_arrow() if opened.exists else None
    if table is None:
        return []
    found = table.select(["partition", "offset", "value"]).to_pylist()
    assert all(row["value"] == f"{row['partition']} {row['offset']}" for row in found)
    return sorted((row["partition"], row["offset"]) for row in found)


def commits(base: Path, kind: str) -> int:
    """How many commits the table has seen, at most."""
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(base / "table")).version()
    opened: Any = open_in(base, kind)
    return len(opened._table.snapshots())


def export_until(base: Path, kind: str, way: str, aim: int, last: int) -> list[int]:
    """Export, and kill this process at an event: the so-manieth (0) of the export's code, (1) from the
    beginning of the commit on, (2) after the commit. How many there were of each.
    """
    counts = [0, 0, 0]
    commit = ".replace" if way == "compact" else "._commit"

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_ours = any(part in code.co_filename for part in OURS)
        is_commit = is_ours and code.co_qualname.endswith(commit)
        counts[0] += is_ours
        if counts[1] or is_commit:
            counts[1] += is_ours or any(part in code.co_filename for part in THEIRS)
        if counts[2] or (is_commit and event == "return"):
            counts[2] += 1
        if last and counts[aim] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    try:
        export(base, kind, way)
    finally:
        sys.setprofile(None)
    return counts


def in_child(work: Any) -> tuple[bool, bytes]:
    """Run something in a process of its own: whether it lived, and what it answered."""
    answers, answer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.write(answer, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(answer)
    with os.fdopen(answers, "rb") as told:
        data = told.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False, b""
    assert os.WEXITSTATUS(status) == 0, "a run failed"
    return True, data


def main() -> None:
    base, kind, rounds, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    way = sys.argv[5] if len(sys.argv) > 5 else "append"
    dice = random.Random(seed)
    for name in LIBRARIES:  # once, not in each process
        import_module(name)
    writers = [LogWriter(base / "log", "events", partition) for partition in range(3)]
    steps: list[int] = []
    state: dict[tuple[int, Any], int] = {}
    killed = 0
    added = Counter[str]()
    shown: list[tuple[int, int]] = []
    for _ in range(rounds):
        for writer in writers:
            for _ in range(dice.randint(0, 3)):
                count, first = dice.randint(1, 40), writer.next_offset
                partition = writer.directory.name[-1]
                keys = [f"key-{dice.randint(0, 30)}".encode() for _ in range(count)]
                is_deleted = [way == "by-key" and dice.random() < 0.2 for _ in range(count)]
                values = [f"{partition} {first + n}".encode() for n in range(count)]
                writer.append(
                    [None if gone else v for gone, v in zip(is_deleted, values, strict=True)], keys=keys
                )
                for n, key in enumerate(keys):
                    place = (int(partition), key if way == "by-key" else first + n)
                    state.pop(place, None)
                    state |= {} if is_deleted[n] else {place: first + n}
        written = sorted((partition, offset) for (partition, _), offset in state.items())
        aim = dice.randint(0, 2)
        last = dice.randint(1, max(steps[aim], 1)) if steps and dice.random() < 0.8 else 0
        lived, told = in_child(lambda chosen=(aim, last): export_until(base, kind, way, *chosen))
        if lived:
            steps = json.loads(told)
        killed += not lived
        _, told = in_child(lambda: offsets(base, kind))
        found = [(partition, offset) for partition, offset in json.loads(told)]
        assert len(found) == len(set(found)), "a record came twice"
        assert found in (shown, written), "a run is in the table whole or not at all"
        added["lived" if lived else "before" if found == shown else "after"] += 1
        shown = found
    in_child(lambda: export(base, kind, way))
    _, told = in_child(lambda: offsets(base, kind))
    assert [tuple(each) for each in json.loads(told)] == written, "every record is there, once"
    at = location(base, kind)
    assert not list((at / "_tidelog/runs").iterdir())
    _, made = in_child(lambda: commits(base, kind))
    facts = {"files": len(list(at.rglob("data/*"))), "commits": json.loads(made)}
    print(json.dumps({"steps": steps, "killed": killed, **added, **facts}))


if __name__ == "__main__":
    main()
