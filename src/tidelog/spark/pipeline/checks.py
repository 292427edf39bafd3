"""What can be found wrong with a pipeline before it runs, beyond its file (`config`).

    root        missing, and no ingest makes it; not a directory
    topics      a step names one that is neither in the root nor made by an ingest before it, or compacts one
                whose policy is another
    target      of an export: a file, or exported to with another kind of values
    schema      of an export: not DDL, or of types that JSON values cannot be
    ingest      a format that Spark does not have, a source that it cannot read, a wrong column or expression,
                columns that are no records

Root, topics and targets are checked without Spark. An ingest's source is analysed, which for some formats
reads its files once: for a dry run only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import InvalidInputError, TidelogError
from tidelog.layout.config import log_config
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.scanning.partitions import list_partitions
from tidelog.spark.exporting.directory import kept_way
from tidelog.spark.exporting.value_schemas import struct_of
from tidelog.spark.ingesting.job import Columns, FileSource, check_source
from tidelog.spark.pipeline.config import PipelineConfig, Step
from tidelog.storage import LOCAL
from tidelog.values.decoding import ValueFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_steps", "check_topics", "needs_spark"]


def check_topics(config: PipelineConfig) -> None:
    """Refuse a pipeline whose root or topics will not be there when a step needs them, or whose exports do
    not go on with what their targets have.
    """
    if config.root.exists() and not config.root.is_dir():
        raise InvalidInputError(f"{config.path}: root: {config.root} is not a directory")
    there = _policies(config) if config.root.is_dir() else {}
    is_made = config.root.is_dir()
    are_all_known = True
    for step in config.steps:
        if step.kind == "ingest":
            is_made = True
            if "topic" in step.settings:
                there.setdefault(step.settings["topic"], _policy(step.settings.get("config", {})))
            else:
                are_all_known = False  # a column says which topics it makes
            continue
        if not is_made:
            raise InvalidInputError(
                f"{_where(step, config)}: there is no {config.root}, and no step before makes it"
            )
        named = step.settings.get("topics", ())
        if are_all_known:
            _check_named(step, config, named, there)
        if step.kind == "compact":
            _check_policies(step, config, named, there)
        if step.kind == "export":
            _check_target(step, config)


def _policies(config: PipelineConfig) -> dict[str, str]:
    """The cleanup policy of each topic in the root; empty for those that its metadata does not know."""
    topics = {one.topic_partition.topic for one in list_partitions(config.root)}
    try:
        image = read_cluster_metadata(LOCAL, str(config.root)).image
    except (TidelogError, OSError):
        return dict.fromkeys(topics, "")
    return {name: _policy(image.topic_config(name)) if name in image.topics else "" for name in topics}


def _policy(config: Mapping[str, str]) -> str:
    return ",".join(log_config({key.lower(): value for key, value in config.items()}).cleanup_policy)


def _check_named(step: Step, config: PipelineConfig, named: Iterable[str], there: Mapping[str, str]) -> None:
    missing = sorted(set(named) - there.keys())
    if missing:
        raise InvalidInputError(
            f"{_where(step, config)}: there is no topic {', '.join(missing)} in {config.root}, "
            "and no step before makes it"
        )


def _check_policies(
    step: Step, config: PipelineConfig, named: Iterable[str], there: Mapping[str, str]
) -> None:
    for topic in named:
        policy = there.get(topic, "")
        if policy and "compact" not in policy:
            raise InvalidInputError(
                f"{_where(step, config)}: topic {topic} is not compacted but has cleanup.policy={policy}"
            )


def _check_target(step: Step, config: PipelineConfig) -> None:
    target, values = step.settings["to"], step.settings.get("values", ValueFormat.BYTES.value)
    if "://" in target:
        return
    where = _where(step, config)
    if Path(target).exists() and not Path(target).is_dir():
        raise InvalidInputError(f"{where}: {target} is not a directory")
    try:
        kept = kept_way(target).get("values", values)
    except (OSError, ValueError):
        return  # the step says what is wrong
    if kept != values:
        raise InvalidInputError(
            f"{where}: {target} was exported with values {kept!r}, not {values!r}: "
            "export to another directory"
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
