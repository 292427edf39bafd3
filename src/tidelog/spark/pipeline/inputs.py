"""What a step of a pipeline works on, as a digest, and whether the clock alone gives it something to do.

    ingest                  names, sizes and times of all files under the source
    all others              topic ids and published ends of the logs, of the topics that the step names

    retention, trim         due when a look at the segments finds something to delete now
    compact                 due when something is cleanable now, or a tombstone's delete horizon has passed

An input that cannot be told is empty, and the step runs: every job takes only what it has not taken yet.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tidelog.errors import TidelogError
from tidelog.layout.config import log_config
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.scanning.log_end import log_end_offset, read_segment
from tidelog.scanning.partitions import Partition, list_partitions
from tidelog.spark.compaction.job import cleanable
from tidelog.spark.exporting.directory import METADATA, target_place
from tidelog.spark.pipeline.config import PipelineConfig, Step, trim_bounds
from tidelog.spark.upkeep.retention import retention_is_due, trim_is_due
from tidelog.storage import LOCAL
from tidelog.storage.metadata import read_meta_properties, read_partition_metadata
from tidelog.storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES_FILE, PARTITION_METADATA_FILE

__all__ = ["expired_topics", "horizon_of", "input_of", "is_due", "output_of", "settings_of"]

_GLOB = "*?[{"
_TIMELESS = frozenset({"ingest", "verify", "export"})
"""The kinds of steps that time alone gives nothing to do."""


def settings_of(step: Step, config: PipelineConfig) -> str:
    """A step's settings, as a digest."""
    return _digest([str(config.root), dict(step.settings)])


def input_of(step: Step, config: PipelineConfig) -> str:
    """What a step works on, as a digest; empty where that cannot be told."""
    try:
        if step.kind == "ingest":
            return _source_files(step.settings["source"])
        there = _partitions(config.root, step.settings.get("topics"))
        return _digest({str(one.topic_partition): [_topic_id(one), _end(one)] for one in there})
    except (TidelogError, OSError):
        return ""


def output_of(step: Step, config: PipelineConfig) -> str:
    """What a step has made, as far as its loss would have to be made good; empty if there is none."""
    try:
        if step.kind == "ingest":
            found = read_meta_properties(LOCAL, config.root / META_PROPERTIES_FILE)
            return str(found.directory_id)
        if step.kind == "export":
            return str(target_place(step.settings["to"]).exists(f"{METADATA}/export.json"))
    except (TidelogError, OSError):
        return "gone"
    return ""


def is_due(step: Step, config: PipelineConfig, left: Sequence[Any] | None, now_ms: int) -> bool:
    """Whether time has given a step something to do, though its input is what it was.

    `left` is what the last compaction left (`horizon_of`).
    """
    topics = step.settings.get("topics")
    try:
        if step.kind == "retention":
            return retention_is_due(config.root, topics, now_ms)
        if step.kind == "trim":
            return trim_is_due(config.root, topics, **trim_bounds(step, now_ms))
        if step.kind == "compact":
            if cleanable([str(config.root)], topics, now_ms, from_start=False):
                return True
            files, horizon = left or (None, None)
            if files != _log_files(config.root, topics):  # compacted by others since then
                _, horizon = horizon_of(config.root, topics, after_ms=-1)
            return horizon is not None and horizon <= now_ms
    except (TidelogError, OSError):
        return True  # the step says what is wrong
    if step.kind not in _TIMELESS:
        raise NotImplementedError(f"nothing says when a step {step.kind} is due")
    return False


def horizon_of(root: Path, topics: Iterable[str] | None, *, after_ms: int) -> tuple[str, int | None]:
    """The files of the compacted topics' logs, as a digest, and the earliest delete horizon in them that is
    above `after_ms`. A horizon that had passed when the log was compacted tells of nothing that can go.
    """
    files = _log_files(root, topics)
    horizons = (horizon for one in _compacted(root, topics) for horizon in _horizons(one))
    return files, min((horizon for horizon in horizons if horizon > after_ms), default=None)


def _log_files(root: Path, topics: Iterable[str] | None) -> str:
    there = _compacted(root, topics)
    return _digest({one.url: [[each.base_offset, each.size] for each in one.segments] for one in there})


def expired_topics(root: Path, topics: Iterable[str] | None, now_ms: int) -> list[str]:
    """The compacted topics that hold batches whose delete horizon has passed."""
    return sorted(
        {
            one.topic_partition.topic
            for one in _compacted(root, topics)
            if any(horizon <= now_ms for horizon in _horizons(one))
        }
    )


def _compacted(root: Path, topics: Iterable[str] | None) -> list[Partition]:
    image = read_cluster_metadata(LOCAL, str(root)).image
    return [
        one
        for one in _partitions(root, topics)
        if log_config(image.topic_config(one.topic_partition.topic)).compact
    ]


def _horizons(partition: Partition) -> Iterator[int]:
    """The delete horizons of a log's batches."""
    for segment in partition.segments:
        for _, _, table in read_segment(partition, segment, 0):
            marked = table.has_delete_horizon
            if marked.any():
                yield from set(table.base_timestamp[marked].tolist())


def _partitions(root: Path, topics: Iterable[str] | None) -> list[Partition]:
    named = None if topics is None else set(topics)
    return [
        one
        for one in list_partitions(root)
        if one.topic_partition.topic != CLUSTER_METADATA_TOPIC
        and (named is None or one.topic_partition.topic in named)
    ]


def _topic_id(partition: Partition) -> str:
    """A topic that was deleted and rebuilt has another one."""
    try:
        return str(read_partition_metadata(LOCAL, f"{partition.url}/{PARTITION_METADATA_FILE}").topic_id)
    except FileNotFoundError:
        return ""


def _end(partition: Partition) -> int:
    """What a bulk write in progress has added does not count: readers do not see it yet."""
    return partition.published_end(log_end_offset(partition, damage_ends_it=True))


def _source_files(source: str) -> str:
    """All files under a source, through links too; of a glob all under the directory that it begins with."""
    if "://" in source:
        return ""
    path = Path(source)
    while any(sign in str(path) for sign in _GLOB) and not path.exists():
        path = path.parent
    found: list[list[Any]] = [[str(path), *_facts(path)]] if path.is_file() else []
    seen = set()
    for directory, below, names in os.walk(path, followlinks=True):
        real = os.path.realpath(directory)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        found += [[file, *_facts(Path(file))] for file in (f"{directory}/{name}" for name in names)]
    return _digest(sorted(found))


def _facts(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
