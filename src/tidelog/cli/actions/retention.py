"""Runs `retention` on a root or a partition, and prints the result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidelog.cleanup.retention import Deletion
from tidelog.cli.actions.directories import check_root, existing_directory, live_partition, parse_settings
from tidelog.cli.actions.loading import (
    RootOptions,
    check_ready,
    metadata_of,
    offline_in,
    opened_root,
    refuse_offline,
    refuse_unknown,
    split_known,
)
from tidelog.cli.actions.spark_upkeep import retain_on_spark, root_for_spark
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.upkeep.retention_plan import plan_root_retention
from tidelog.manager.verification.root import partition_directories
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.storage.files import parent
from tidelog.storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES_FILE, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["retain_path"]

_RETENTION = (
    Column("partition", "PARTITION"),
    Column("base_offset", "SEGMENT", right=True),
    Column("end_offset", "UP TO", right=True, optional=True),
    Column("size_bytes", "BYTES", right=True),
    Column("reason", "BY"),
    Column("detail", "WHY", folds=True),
)


def retain_path(
    path: Path,
    output: Output,
    *,
    dry_run: bool,
    settings: Sequence[str],
    master: str | None = None,
    options: RootOptions,
) -> None:
    """Show what retention deletes from a root or partition, and delete it unless `dry_run`."""
    config = parse_settings(settings)
    offline: dict[TopicPartition, str] = {}
    if config and not dry_run:
        raise UsageError("--config is for --dry-run; what is deleted follows the topic's own config")
    if master is not None:
        check_ready(path, options)
        root = root_for_spark(path)
        going = _going_on_spark(root, master, output, options, dry_run=dry_run, settings=config)
    else:
        directory = existing_directory(path)
        going = _going(directory, output, options, offline, dry_run=dry_run, settings=config)
    freed = [0, 0]

    def rows() -> Iterator[Sequence[Cell]]:
        for partition, one in going:
            freed[0] += 1
            freed[1] += one.size
            reason = one.reason.value
            yield str(partition), one.base_offset, one.end_offset, one.size, reason, one.detail

    output.table(_RETENTION, rows())
    output.say(f"{counted(freed[0], 'segment')} {are(freed[0], dry_run=dry_run)} deleted, {freed[1]} bytes")
    refuse_offline(offline)


def _going(
    directory: str,
    output: Output,
    options: RootOptions,
    offline: dict[TopicPartition, str],
    *,
    dry_run: bool,
    settings: Mapping[str, str],
) -> Iterator[tuple[TopicPartition, Deletion]]:
    """The segments of a root or partition that go; unless it is a dry run, they do.

    Partitions that cannot be opened are left alone, and added to `offline`.
    """
    alone = is_partition(LOCAL, directory)
    if alone:
        live_partition(directory)
    root = parent(directory) if alone else directory
    if not settings:  # with them a dry run is only a question, also of files that are in no root
        check_root(root)
    if LOCAL.exists(f"{root}/{META_PROPERTIES_FILE}"):
        check_ready(root, options)
    names = [directory.rpartition("/")[2]] if alone else list(partition_directories(LOCAL, root)[0])
    partitions = [parse_partition_directory(name).topic_partition for name in names]
    image = _tell_unknown(root, partitions, output, options, alone=alone)
    now_ms = time.time_ns() // 1_000_000
    defaults = options.broker.topic_defaults
    plans = plan_root_retention(LOCAL, root, names, now_ms, settings, defaults, image=image)
    due = {planned.partition: planned.plan for planned in plans if planned.plan.deletions}
    if dry_run:
        offline |= offline_in(root, options, due)
        for partition in (one for one in due if one not in offline):
            yield from ((partition, one) for one in due[partition].deletions)
        return
    if not due:
        return
    with opened_root(root, output, options, topics=set(due)) as store:
        offline |= store.offline_partitions
        for partition in due:
            for plan in store.apply_retention(partition).values():
                yield from ((partition, one) for one in plan.deletions)


def _going_on_spark(
    root: str,
    master: str,
    output: Output,
    options: RootOptions,
    *,
    dry_run: bool,
    settings: Mapping[str, str],
) -> Iterator[tuple[TopicPartition, Deletion]]:
    """As `_going`, of a root, with Spark."""
    _tell_unknown(root, list(partition_directories(LOCAL, root)[0].values()), output, options)
    yield from retain_on_spark(root, master, dry_run=dry_run, settings=settings, config=options.broker)


def _tell_unknown(
    root: str,
    partitions: Sequence[TopicPartition],
    output: Output,
    options: RootOptions,
    *,
    alone: bool = False,
) -> MetadataImage:
    """Tell how many partitions the metadata does not know, or refuse one that is `alone`; the metadata."""
    image = metadata_of(root, options)
    unknown = split_known(root, [one for one in partitions if one.topic != CLUSTER_METADATA_TOPIC], image)[1]
    if unknown and alone:
        raise refuse_unknown(root, unknown[0])
    if unknown:
        output.say(
            f"{counted(len(unknown), 'partition')} {are(len(unknown))} left alone: "
            f"the metadata here does not know {unknown[0]}"
        )
    return image
