"""`python -m benchmarks [--only NAME] [--quick] [--cpu-time] [--json-only] [--strict]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.oracle.jars import OracleError

from benchmarks import (
    broker,
    compaction,
    doctor,
    facts,
    log,
    manager,
    records,
    setup,
    spark,
    spark_write,
    tables,
    tool,
)
from benchmarks.harness import Bench, Effort
from benchmarks.report import Row, print_json, print_table

GROUPS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "records": records.rows,
    "log": log.rows,
    "manager": manager.rows,
    "compaction": compaction.rows,
    "doctor": doctor.rows,
    "tool": tool.rows,
    "setup": setup.rows,
    "broker": broker.rows,
    "spark": spark.rows,
    "spark-write": spark_write.rows,
    "tables": tables.rows,
    "report": facts.rows,
}
"""Each group is a module; it yields its rows, those that `Bench.selected` wants."""


def main() -> int:
    """The exit code: 0, or with --strict 1 when a bar is missed; 2 when a peer cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help=f"a group ({', '.join(GROUPS)}) or some of its rows (records/scan); may be repeated",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small files, short measuring: two minutes a group"
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count time on the CPU, not time that passed: for a machine that is busy with other things",
    )
    parser.add_argument("--json-only", action="store_true", help="no table, no progress")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()

    def selected(name: str) -> bool:
        return not args.only or any(f"{name}/".startswith(f"{wanted}/") for wanted in args.only)

    groups = [
        name for name in GROUPS if not args.only or any(each.split("/")[0] == name for each in args.only)
    ]
    if not groups:
        parser.error(f"--only must begin with one of: {', '.join(GROUPS)}")
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as scratch:
            bench = Bench.create(Effort(args.quick, args.cpu_time), Path(scratch), selected)
            for name in groups:
                for row in GROUPS[name](bench):
                    rows.append(row)
                    if not args.json_only:
                        bench.say(f"{row.bench}: {row.ratio:.2f}x {row.peer} {row.verdict}")
    except OracleError as failure:
        print(f"Kafka's engine cannot be measured: {failure}", file=sys.stderr)
        return 2
    if not args.json_only:
        print_table(rows)
    print_json(rows)
    return 1 if args.strict and any(row.verdict == "MISS" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
