"""The facts of a report, gathered in tasks: one partition's facts are a small JSON.

Tasks look at partitions, which is where the bytes are. The driver lists them before, and afterwards adds what
takes little reading: retention, groups, totals, and doctor's verdicts if they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError
from tidelog.manager.coordinators.transactions import Coordinated
from tidelog.report.facts import Progress, gather
from tidelog.report.partition import partition_facts
from tidelog.scanning.partitions import Partition, Paths, list_partitions
from tidelog.spark.runtime.jobs import Bin, pack, run_job, share_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["report_facts"]

_SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("facts", pa.string())])


@dataclass(frozen=True, slots=True)
class Place:
    """A partition's directory and how many bytes its logs have."""

    url: str
    size: int


@dataclass(frozen=True, slots=True)
class ReportWork:
    """What a task does with partitions: look at each."""

    columns: int
    known: Mapping[int, Coordinated] | None
    records: bool

    def __call__(self, number: int, places: Bin[Place]) -> list[dict[str, Any]]:
        """A row for each partition."""
        return [
            {"number": at, "facts": json.dumps(self._look(place))}
            for at, place in enumerate(places.items, places.first)
        ]

    def _look(self, place: Place) -> dict[str, Any] | None:
        found = [one for one in list_partitions(place.url, marked=True) if one.is_named]
        if not found:
            return None  # it was deleted since it was listed
        return partition_facts(found[0], self.columns, self.known, records=self.records)


def report_facts(spark: SparkSession, paths: Paths, **asked: Any) -> dict[str, Any]:
    """The facts of a report, see `report.facts.gather`, with partitions looked at by tasks.

    Driver and workers share the directories.
    """

    def look(
        partitions: Sequence[Partition],
        columns: int,
        known: Mapping[int, Coordinated] | None,
        progress: Progress,
        records: bool,
    ) -> list[dict[str, Any] | None]:
        places = [Place(one.url, sum(segment.size for segment in one.segments)) for one in partitions]
        share = share_bytes(spark, sum(place.size for place in places))
        rows = run_job(spark, ReportWork(columns, known, records), pack(places, share), _SCHEMA, progress)
        found = {row["number"]: json.loads(row["facts"]) for row in rows}
        if len(rows) != len(places) or len(found) != len(places):
            raise DataLossError(
                f"Spark answered {len(rows)} reports for {len(places)} partitions; run it again"
            )
        return [found[number] for number in range(len(places))]

    return gather(paths, look=look, **asked)
