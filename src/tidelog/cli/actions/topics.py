"""What `tidelog topics` does. Listing and describing read the metadata; only changes take the root's lock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.actions.directories import existing_directory, log_bytes, parse_settings
from tidelog.cli.actions.loading import (
    RootOptions,
    check_changeable,
    check_new,
    check_ready,
    metadata_of,
    opened_root,
)
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.config import LogConfig
from tidelog.errors import TopicExistsError
from tidelog.manager.metadata.image import MetadataImage, TopicImage
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id
from tidelog.storage.names import validate_topic

__all__ = ["create_topic", "delete_topic", "describe_topic", "list_topics"]

_TOPICS = (
    Column("topic", "topic"),
    Column("partitions", "partitions", right=True),
    Column("partitions_here", "here", right=True),
    Column("topic_id", "topic id", optional=True),
    Column("config", "config", folds=True),
)
_PARTITIONS = (
    Column("topic", "topic"),
    Column("partition", "partition", right=True),
    Column("leader", "leader", right=True),
    Column("leader_epoch", "epoch", right=True),
    Column("replicas", "replicas"),
    Column("size_bytes", "bytes", right=True),
    Column("directory_ids", "directory ids", optional=True),
)


def list_topics(root: Path, output: Output, options: RootOptions) -> None:
    """A row for each topic that the metadata knows."""
    directory, image = _metadata(root, options)
    rows = (
        (
            topic.name,
            len(topic.partitions),
            sum(_size(directory, topic.name, number) is not None for number in topic.partitions),
            format_id(topic.topic_id),
            " ".join(f"{key}={value}" for key, value in sorted(image.topic_config(topic.name).items()))
            or None,
        )
        for _, topic in sorted(image.topics.items())
    )
    output.table(_TOPICS, rows)


def describe_topic(root: Path, name: str, output: Output, options: RootOptions) -> None:
    """A row for each partition of a topic, and what is set for the topic."""
    directory, image = _metadata(root, options)
    topic = _known(directory, image, name)
    rows = (
        (
            name,
            number,
            one.leader,
            one.leader_epoch,
            ",".join(map(str, one.replicas)),
            _size(directory, name, number),
            ",".join(format_id(each) for each in one.directories) or None,
        )
        for number, one in sorted(topic.partitions.items())
    )
    output.table(_PARTITIONS, rows)
    output.say(f"topic id {format_id(topic.topic_id)}")
    for setting in _settings(image, name):
        output.say(setting)


def create_topic(
    root: Path,
    name: str,
    partitions: int | None,
    settings: Sequence[str],
    output: Output,
    *,
    dry_run: bool,
    options: RootOptions,
) -> None:
    """Create a topic, after checking its name and configuration."""
    directory, image = _metadata(root, options)
    config = parse_settings(settings)
    validate_topic(name)
    LogConfig.from_properties(config, options.broker.topic_defaults)
    partitions = options.broker.num_partitions if partitions is None else partitions
    if name in image.topics:
        raise TopicExistsError(f"{directory} has a topic {name!r} already")
    check_ready(directory, options)
    check_changeable(directory, options)
    check_new(directory, name, partitions, options)
    if not dry_run:
        with opened_root(directory, output, options, topics={name}) as store:
            store.create_topic(name, partitions, config)
    output.say(f"topic {name} {are(1, dry_run=dry_run)} created with {counted(partitions, 'partition')}")


def delete_topic(root: Path, name: str, output: Output, *, dry_run: bool, options: RootOptions) -> None:
    """Delete a topic with its records."""
    directory, image = _metadata(root, options)
    topic = _known(directory, image, name)
    size = sum(_size(directory, name, number) or 0 for number in topic.partitions)
    check_ready(directory, options)
    check_changeable(directory, options)
    if not dry_run:
        with opened_root(directory, output, options, topics={name}) as store:
            store.delete_topic(name)
    what = f"topic {name}, {counted(len(topic.partitions), 'partition')} and {size} bytes of records here"
    output.say(f"{what}, {'would be' if dry_run else 'is'} deleted")


def _metadata(root: Path, options: RootOptions) -> tuple[str, MetadataImage]:
    directory = existing_directory(root)
    image = metadata_of(directory, options)
    if not image.features:
        raise UsageError(
            f"{directory} has no metadata of topics: `tidelog ls` shows which partitions it holds"
        )
    return directory, image


def _settings(image: MetadataImage, topic: str) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(image.topic_config(topic).items())]


def _known(directory: str, image: MetadataImage, name: str) -> TopicImage:
    if name not in image.topics:
        raise UsageError(f"{directory} knows no topic {name!r}; `tidelog topics {directory}` lists all")
    return image.topics[name]


def _size(directory: str, topic: str, partition: int) -> int | None:
    """The bytes of a partition's logs; None if it is not in this root."""
    path = f"{directory}/{topic}-{partition}"
    return log_bytes(path) if LOCAL.exists(path) else None
