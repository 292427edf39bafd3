"""What can be found wrong with a pipeline before it runs, beyond its file (`config`).

    topics      a step names one that is neither in the root nor made by an ingest before it
    schema      of an export: not DDL, or of types that JSON values cannot be
    ingest      a format that Spark does not have, a source that it cannot read, a wrong column or expression,
                columns that are no records

Topics are checked without Spark. An ingest's source is analysed, which for some formats reads its files once:
for a dry run only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.errors import InvalidInputError, TidelogError
from tidelog.scanning.partitions import list_partitions
from tidelog.spark.exporting.value_schemas import struct_of
from tidelog.spark.ingesting.job import Columns, FileSource, check_source
from tidelog.spark.pipeline.config import PipelineConfig, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_steps", "check_topics", "needs_spark"]


def check_topics(config: PipelineConfig) -> None:
    """Refuse a pipeline whose steps name topics that will not be there."""
    there = set()
    if config.root.is_dir():
        there = {one.topic_partition.topic for one in list_partitions(config.root)}
    for step in config.steps:
        if step.kind == "ingest":
            if "topic" not in step.settings:
                return  # a column says which topics it makes
            there.add(step.settings["topic"])
            continue
        missing = sorted(set(step.settings.get("topics", ())) - there)
        if missing:
            raise InvalidInputError(
                f"{_where(step, config)}: there is no topic {', '.join(missing)} in {config.root}, "
                "and no step before makes it"
            )


def needs_spark(config: PipelineConfig) -> bool:
    """Whether `check_steps` has anything to look at."""
    return any(True for _ in _checked_by_spark(config))


def check_steps(spark: SparkSession, config: PipelineConfig) -> None:
    """Refuse what Spark does not understand; nothing is written."""
    for step in _checked_by_spark(config):
        try:
            if step.kind == "ingest":
                _check_ingest(spark, step)
            else:
                struct_of(step.settings["schema"])
        except TidelogError as error:
            raise InvalidInputError(f"{_where(step, config)}: {error}") from None


def _checked_by_spark(config: PipelineConfig) -> Iterator[Step]:
    return (one for one in config.steps if one.kind == "ingest" or "schema" in one.settings)


def _check_ingest(spark: SparkSession, step: Step) -> None:
    settings = step.settings
    columns = Columns(
        value=settings.get("value"), key=settings.get("key"), timestamp=settings.get("timestamp")
    )
    source = FileSource(settings["format"], settings["source"], settings.get("options", {}))
    check_source(spark, source, columns, has_topic="topic" in settings)


def _where(step: Step, config: PipelineConfig) -> str:
    return f"{config.path}: step {step.number}, {step.kind}"
