"""A broker's configuration, as far as it is about logs: `server.properties` under Kafka's own keys.

Topics inherit a broker's defaults. Each topic key has one broker key or several; of several the first that is
set counts, others are not even looked at beyond being well formed:

    segment.ms          log.roll.ms > log.roll.hours
    segment.jitter.ms   log.roll.jitter.ms > log.roll.jitter.hours
    retention.ms        log.retention.ms > log.retention.minutes > log.retention.hours; below 0 is no limit
    flush.ms            log.flush.interval.ms > log.flush.scheduler.interval.ms
    others              log.<key>, log.cleaner.<key>, <key>, or a name of their own (the table below)

Keys that are not about logs are skipped, as they belong to the rest of a broker. Keys that begin with `log.`
and mean nothing to Kafka are kept in `BrokerConfig.unknown`: most likely they are misspelt.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.config import ConfigKey, ConfigType, LogConfig
from tidelog.errors import ConfigError
from tidelog.storage import LOCAL, FileSystem, read_file
from tidelog.storage.metadata import parse_properties

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["BrokerConfig", "broker_keys"]

_SECOND_MS = 1000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_LONG_MAX = (1 << 63) - 1
_INT, _LONG, _DOUBLE, _BOOLEAN = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE, ConfigType.BOOLEAN

_PREFIXED = (
    "segment.bytes index.interval.bytes retention.bytes cleanup.policy preallocate message.timestamp.type "
    "message.timestamp.before.max.ms message.timestamp.after.max.ms local.retention.ms local.retention.bytes"
)
_CLEANER_PREFIXED = "delete.retention.ms min.compaction.lag.ms max.compaction.lag.ms"
_SAME_NAME = (
    "unclean.leader.election.enable min.insync.replicas compression.type compression.gzip.level "
    "compression.lz4.level compression.zstd.level"
)

_BROKER_KEYS = {
    **{f"log.{key}": key for key in _PREFIXED.split()},
    **{f"log.cleaner.{key}": key for key in _CLEANER_PREFIXED.split()},
    **{key: key for key in _SAME_NAME.split()},
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.flush.interval.messages": "flush.messages",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "message.max.bytes": "max.message.bytes",
}
"""Broker keys that are a topic key under another name."""


@dataclass(frozen=True, slots=True)
class _Time:
    """One of several broker keys for a topic key, first ones first; `unit_ms` is what the number counts."""

    key: str
    type: ConfigType
    unit_ms: int = 1
    at_least: int | None = None

    def parse(self, text: str) -> int:
        row = ConfigKey(self.key, self.type, 0, "", at_least=self.at_least)
        number = row.parse(text)
        assert isinstance(number, int)
        return number * self.unit_ms


_TIMES: Mapping[str, tuple[_Time, ...]] = {
    "segment.ms": (_Time("log.roll.ms", _LONG), _Time("log.roll.hours", _INT, _HOUR_MS, 1)),
    "segment.jitter.ms": (
        _Time("log.roll.jitter.ms", _LONG),
        _Time("log.roll.jitter.hours", _INT, _HOUR_MS, 0),
    ),
    "retention.ms": (
        _Time("log.retention.ms", _LONG),
        _Time("log.retention.minutes", _INT, _MINUTE_MS),
        _Time("log.retention.hours", _INT, _HOUR_MS),
    ),
    "flush.ms": (_Time("log.flush.interval.ms", _LONG), _Time("log.flush.scheduler.interval.ms", _LONG)),
}

_OTHER_LOG_KEYS = frozenset(
    f"log.{key}"
    for key in (
        "dir",
        "dirs",
        "dir.failure.timeout.ms",
        "cleaner.threads",
        "cleaner.io.buffer.size",
    )
)
"""What else Kafka knows that begins with `log.`."""


def _row(
    key: str, kind: ConfigType, default: float, at_least: int | None, doc: str, at_most: int | None = None
) -> Any:
    row = ConfigKey(key, kind, default, doc, at_least=at_least, at_most=at_most)
    return field(default=default, metadata={"row": row})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What a broker's configuration says about its logs."""

    log_dirs: tuple[str, ...] = ()
    """`log.dirs`, else `log.dir`."""
    node_id: int | None = None
    """`node.id`, else `broker.id`."""
    topic_defaults: LogConfig = field(default_factory=LogConfig)
    """What topics inherit."""
    unknown: tuple[str, ...] = ()
    """Keys that begin with `log.` and mean nothing."""

    num_partitions: int = _row(
        "num.partitions", _INT, 1, 1, "The default number of partitions of a new topic."
    )
    num_recovery_threads_per_data_dir: int = _row(
        "num.recovery.threads.per.data.dir",
        _INT,
        2,
        1,
        "The number of logs of a root that are loaded in parallel.",
    )
    log_retention_check_interval_ms: int = _row(
        "log.retention.check.interval.ms", _LONG, 5 * _MINUTE_MS, 1, "Time between retention checks."
    )
    log_flush_scheduler_interval_ms: int = _row(
        "log.flush.scheduler.interval.ms", _LONG, _LONG_MAX, None, "Time between checks of flush.ms."
    )
    log_flush_offset_checkpoint_interval_ms: int = _row(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        _MINUTE_MS,
        0,
        "Time between writes of the recovery-point checkpoint.",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = _row(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        _MINUTE_MS,
        0,
        "Time between writes of the log-start checkpoint.",
    )
    log_initial_task_delay_ms: int = _row(
        "log.initial.task.delay.ms", _LONG, 30 * _SECOND_MS, 0, "Delay before the first background task."
    )
    replica_high_watermark_checkpoint_interval_ms: int = _row(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        5 * _SECOND_MS,
        1,
        "Time between writes of the high-watermark checkpoint.",
    )
    producer_id_expiration_ms: int = _row(
        "producer.id.expiration.ms",
        _INT,
        24 * _HOUR_MS,
        1,
        "A producer that is silent for this long is forgotten.",
    )
    producer_id_expiration_check_interval_ms: int = _row(
        "producer.id.expiration.check.interval.ms",
        _INT,
        10 * _MINUTE_MS,
        1,
        "Time between checks for expired producers.",
    )
    log_cleaner_enable: bool = _row(
        "log.cleaner.enable", _BOOLEAN, True, None, "Whether compacted topics are compacted."
    )
    log_cleaner_backoff_ms: int = _row(
        "log.cleaner.backoff.ms",
        _LONG,
        15 * _SECOND_MS,
        0,
        "Time between checks when no log needs compaction.",
    )
    log_cleaner_dedupe_buffer_size: int = _row(
        "log.cleaner.dedupe.buffer.size", _LONG, 128 << 20, 1 << 20, "Memory for the map of keys and offsets."
    )
    log_cleaner_io_buffer_load_factor: float = _row(
        "log.cleaner.io.buffer.load.factor", _DOUBLE, 0.9, 0, "How full the map of keys may become.", 1
    )
    log_cleaner_io_max_bytes_per_second: float = _row(
        "log.cleaner.io.max.bytes.per.second",
        _DOUBLE,
        sys.float_info.max,
        1,
        "The average rate at which compaction reads and writes.",
    )
    transaction_max_timeout_ms: int = _row(
        "transaction.max.timeout.ms",
        _INT,
        15 * _MINUTE_MS,
        1,
        "The longest time that a transaction may stay open.",
    )

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> BrokerConfig:
        """Parse text under Kafka's keys; a bad value raises ConfigError."""
        given = {key: str(value).strip() for key, value in properties.items()}
        values: dict[str, Any] = {
            name: row.parse(given[row.key]) for name, row in cls._rows() if row.key in given
        }
        known = {row.key for _, row in cls._rows()} | _BROKER_KEYS.keys() | _OTHER_LOG_KEYS
        known |= {time.key for times in _TIMES.values() for time in times}
        return cls(
            log_dirs=_words(given.get("log.dirs") or given.get("log.dir", "")),
            node_id=_node_id(given),
            topic_defaults=_topic_defaults(given),
            unknown=tuple(sorted(key for key in given if key.startswith("log.") and key not in known)),
            **values,
        )

    @classmethod
    def read(cls, path: StrPath, fs: FileSystem = LOCAL) -> BrokerConfig:
        """Parse a `server.properties` file."""
        return cls.from_properties(parse_properties(read_file(fs, path), str(path)))

    def disks_of(self, roots: Sequence[StrPath]) -> list[str]:
        """All `log.dirs` if one root is given and it is one of them, else the roots; as absolute paths."""
        paths = [str(Path(one).absolute()) for one in roots]
        disks = [str(Path(one).absolute()) for one in self.log_dirs]
        return disks if len(paths) == 1 and paths[0] in disks else paths

    @classmethod
    def keys(cls) -> Mapping[str, ConfigKey]:
        """The keys that are a broker's own, not defaults of topics, and their rows."""
        return {row.key: row for _, row in cls._rows()}

    @classmethod
    def _rows(cls) -> Iterator[tuple[str, ConfigKey]]:
        return ((each.name, each.metadata["row"]) for each in fields(cls) if "row" in each.metadata)


def broker_keys(topic_key: str) -> tuple[str, ...]:
    """The broker's keys that set the default of a topic's key; the first one that is given counts."""
    times = tuple(time.key for time in _TIMES.get(topic_key, ()))
    return times + tuple(key for key, name in _BROKER_KEYS.items() if name == topic_key)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(re.split(r"\s*,\s*", text)) if text else ()
    if len(set(words)) != len(words) or "" in words:
        raise ConfigError(f"log.dirs={text!r} names a directory twice, or none between two commas")
    return words


def _node_id(given: Mapping[str, str]) -> int | None:
    for key in ("node.id", "broker.id"):
        if key in given:
            number = ConfigKey(key, _INT, 0, "", at_least=0).parse(given[key])
            assert isinstance(number, int)
            return number
    return None


def _topic_defaults(given: Mapping[str, str]) -> LogConfig:
    values: dict[str, object] = {
        topic_key: _named(key, topic_key, given[key])
        for key, topic_key in _BROKER_KEYS.items()
        if key in given
    }
    for topic_key, times in _TIMES.items():
        found = [time.parse(given[time.key]) for time in times if time.key in given]
        if found:
            values[topic_key] = max(found[0], -1) if topic_key == "retention.ms" else found[0]
    if values.get("retention.ms") == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1), or 1 at least")
    return LogConfig.from_properties(values)


def _named(key: str, topic_key: str, text: str) -> str:
    """The value, checked, so that an error names the key that the user wrote."""
    try:
        LogConfig.keys()[topic_key].parse(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace(topic_key, key, 1)) from None
    return text
