"""`groups` and `transactions`: what the coordinators' topics and the logs say, as frames that tasks compute.

A task reads one partition: of a coordinator's topic (all records of a group or of a transactional id are in
one), or the end and the transactions of any other log. Spark joins them; nothing is collected on the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.manager.coordinators.groups import (
    GROUP_SCHEMA,
    GROUPS_TOPIC,
    group_rows,
    log_ends,
    read_groups,
)
from tidelog.manager.coordinators.tables import group_partitions, topic_names
from tidelog.manager.coordinators.transactions import (
    TRANSACTION_SCHEMA,
    TRANSACTIONS_TOPIC,
    coordinated_rows,
    partition_rows,
    read_coordinated,
)
from tidelog.scanning.partitions import Partition, Paths, find_partitions, list_partitions
from tidelog.spark.runtime.jobs import job_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["groups", "transactions"]

_ENDS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("log_end_offset", pa.int64(), nullable=False),
    ]
)
_RUNNING = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class _Place:
    """A partition's directory, for one task."""

    url: str
    size: int

    @property
    def partition(self) -> Partition:
        (found,) = find_partitions(self.url)
        return found


def _place(partition: Partition) -> _Place:
    return _Place(partition.url, sum(segment.size for segment in partition.segments))


@dataclass(frozen=True, slots=True)
class _GroupWork:
    names: Mapping[uuid.UUID, str]

    def __call__(self, number: int, place: _Place) -> list[dict[str, Any]]:
        found = read_groups(place.partition, self.names)
        return [asdict(row) for group in found for row in group_rows(group, {})]


def _end_work(number: int, place: _Place) -> list[dict[str, Any]]:
    return [
        {"topic": name.topic, "partition": name.partition, "log_end_offset": end}
        for name, end in log_ends([place.partition]).items()
    ]


def _coordinated_work(number: int, place: _Place) -> list[dict[str, Any]]:
    return [asdict(row) for row in coordinated_rows(read_coordinated(place.partition))]


@dataclass(frozen=True, slots=True)
class _LogWork:
    aborted: bool

    def __call__(self, number: int, place: _Place) -> list[dict[str, Any]]:
        return [asdict(row) for row in partition_rows(place.partition, None, aborted=self.aborted)]


def groups(spark: SparkSession, path: Paths) -> DataFrame:
    """The consumer groups on the disks of a broker: the rows of `tidelog groups`, see there."""
    from pyspark.sql import functions as sf

    partitions = group_partitions(path)
    coordinators = [_place(one) for one in partitions if one.topic_partition.topic == GROUPS_TOPIC]
    others = [_place(one) for one in partitions if not one.is_metadata_log]
    found = job_frame(spark, _GroupWork(topic_names(partitions)), coordinators, GROUP_SCHEMA)
    ends = job_frame(spark, _end_work, others, _ENDS)
    joined = found.drop("log_end_offset", "lag").join(ends, ["topic", "partition"], "left")
    behind = sf.greatest(joined.log_end_offset - joined.committed_offset, sf.lit(0))
    lag = sf.when(joined.log_end_offset.isNotNull() & joined.committed_offset.isNotNull(), behind)
    return joined.withColumn("lag", lag).select(*GROUP_SCHEMA.names)


def transactions(spark: SparkSession, path: Paths, *, aborted: bool = True) -> DataFrame:
    """The transactions on the disks of a broker: the rows of `tidelog transactions`, see there."""
    from pyspark.sql import functions as sf

    partitions = [one for one in list_partitions(path) if not one.is_metadata_log]
    coordinators = [_place(one) for one in partitions if one.topic_partition.topic == TRANSACTIONS_TOPIC]
    others = [_place(one) for one in partitions if one.topic_partition.topic != TRANSACTIONS_TOPIC]
    logs = job_frame(spark, _LogWork(aborted), others, TRANSACTION_SCHEMA)
    if not coordinators:
        return logs
    known = job_frame(spark, _coordinated_work, coordinators, TRANSACTION_SCHEMA)
    owners = known.select("producer_id", "transactional_id").distinct()
    running = known.where(known.state.isin(*_RUNNING)).select("producer_id", "topic", "partition")
    running = running.withColumn("runs", sf.lit(True))
    told = logs.drop("transactional_id").join(owners, "producer_id", "left")
    told = told.join(running, ["producer_id", "topic", "partition"], "left")
    hangs = (told.state == "open") & told.runs.isNull()
    told = told.withColumn("state", sf.when(hangs, "hanging").otherwise(told.state))
    return known.unionByName(told.select(*TRANSACTION_SCHEMA.names))
