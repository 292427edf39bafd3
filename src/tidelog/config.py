"""A topic's configuration under Kafka's own keys, parsed once at the edge and frozen.

Each key is one row of `LogConfig`: attribute, key, type, default, bounds and doc stand together. An attribute
is its key with underscores for dots, so units stay last. The keys, defaults and bounds are Kafka 4.3's;
keys that mean nothing to a storage library (`remote.storage.enable`, `min.insync.replicas`...) are known,
checked and carried, so that a topic's config can be read here and handed back unchanged.

Values are text at the edge (`LogConfig.from_properties`, `overrides`) and typed inside:

    boolean   true or false, in any case          -> bool
    int, long a decimal number of 32 or 64 bits   -> int
    double    a decimal number                    -> float
    string    one of the listed words             -> str (message.timestamp.type: TimestampType)
    list      words separated by commas           -> tuple of str
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.errors import ConfigError
from tidelog.types import Codec, TimestampType

__all__ = ["ConfigKey", "ConfigType", "LogConfig"]

_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_DAY_MS = 24 * 60 * 60 * 1000
_MIB = 1 << 20

_DECIMAL = re.compile(r"[+-]?[0-9]+")
_COMMA = re.compile(r"\s*,\s*")
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


class ConfigType(enum.Enum):
    """The type of a value."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of the table: the name of a key, its valid values and its meaning."""

    key: str
    type: ConfigType
    default: object
    doc: str
    at_least: int | None = None
    at_most: int | None = None
    also: int | None = None
    words: Mapping[str, object] = dataclasses.field(default_factory=dict)
    replicas: bool = False
    internal: bool = False

    @property
    def attribute(self) -> str:
        """The name of the value in `LogConfig`."""
        return self.key.replace(".", "_")

    @property
    def valid_values(self) -> str:
        """What the key accepts beyond its type, in Kafka's notation; empty if every value is valid."""
        if self.replicas:
            return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        if self.words:
            return f"[{', '.join(self.words)}]"
        if self.at_least is None:
            return ""
        bounds = f"[{self.at_least},...]" if self.at_most is None else f"[{self.at_least},...,{self.at_most}]"
        return bounds if self.also is None else f"{bounds} or {self.also}"

    @property
    def default_text(self) -> str | None:
        """The default as Kafka writes it; None if there is none."""
        return None if self.default is None else _text(self.default)

    def parse(self, value: object) -> object:
        """The typed value of `value`'s text, or ConfigError naming the key and what it takes."""
        text = str(value).strip()
        parsed = self._typed(text)
        if parsed is None:
            raise ConfigError(f"{self.key}={text!r} is not of type {self.type.value}")
        self.check(parsed)
        return parsed

    def _typed(self, text: str) -> object:
        match self.type:
            case ConfigType.BOOLEAN:
                return {"true": True, "false": False}.get(text.lower())
            case ConfigType.INT | ConfigType.LONG:
                return int(text) if _DECIMAL.fullmatch(text) else None
            case ConfigType.DOUBLE:
                try:
                    return float(text) if "_" not in text else None
                except ValueError:
                    return None
            case ConfigType.LIST:
                return tuple(_COMMA.split(text)) if text else ()
            case ConfigType.STRING:
                return self.words.get(text, text)

    def check(self, value: object) -> None:
        """Raise ConfigError for a typed value that is not valid for the key."""
        match value:
            case None if self.default is None:
                return
            case bool() if self.type is ConfigType.BOOLEAN:
                return
            case int() if self.type in _INTEGERS and not isinstance(value, bool):
                limit = _INT_MAX if self.type is ConfigType.INT else _LONG_MAX
                low = -limit - 1 if self.at_least is None else self.at_least
                high = limit if self.at_most is None else self.at_most
                if low <= value <= high or value == self.also:
                    return
            case int() | float() if self.type is ConfigType.DOUBLE and not isinstance(value, bool):
                least = -math.inf if self.at_least is None else self.at_least
                if least <= value <= (math.inf if self.at_most is None else self.at_most):
                    return
            case str() | TimestampType() if self.type is ConfigType.STRING:
                if value in self.words.values():
                    return
            case tuple() if self.type is ConfigType.LIST and self._takes_list(value):
                return
        takes = f"{self.type.value} {self.valid_values}".rstrip()
        raise ConfigError(f"{self.key}={_text(value)!r} is refused; it takes a {takes}")

    def _takes_list(self, words: tuple[object, ...]) -> bool:
        if not all(isinstance(word, str) for word in words):
            return False
        texts = [str(word).strip() for word in words]
        if self.replicas:
            return all(_REPLICA.fullmatch(text) for text in texts) or "".join(texts) == "*"
        return len(set(texts)) == len(texts) and all(text in self.words for text in texts)


_INTEGERS = (ConfigType.INT, ConfigType.LONG)


def _text(value: object) -> str:
    """A typed value as Kafka would write it."""
    match value:
        case bool():
            return "true" if value else "false"
        case TimestampType():
            return value.label
        case tuple():
            return ",".join(str(word) for word in value)
        case _:
            return str(value)


def _words(*words: str) -> Mapping[str, str]:
    return {word: word for word in words}


def _key(key: str, kind: ConfigType, default: object, doc: str, **bounds: Any) -> Mapping[str, ConfigKey]:
    return {"row": ConfigKey(key, kind, default, doc, **bounds)}


def _row(key: str, kind: ConfigType, default: object, doc: str, **bounds: Any) -> Any:
    return dataclasses.field(default=default, metadata=_key(key, kind, default, doc, **bounds))


_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_DOUBLE, _STRING, _LIST = ConfigType.DOUBLE, ConfigType.STRING, ConfigType.LIST


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The configuration of one log. Every value is checked when it is made, however it is made.

    Rolling and size limits read `max_segment_bytes` and `max_segment_ms`, not the rows they come from.
    """

    # Segments
    segment_bytes: int = _row(
        "segment.bytes", _INT, 1 << 30, "A segment is rolled when it would exceed this size.", at_least=_MIB
    )
    internal_segment_bytes: int | None = _row(
        "internal.segment.bytes",
        _INT,
        None,
        "Overrides segment.bytes, without its minimum; for tests.",
        internal=True,
    )
    segment_ms: int = _row(
        "segment.ms", _LONG, 7 * _DAY_MS, "A segment older than this is rolled.", at_least=1
    )
    segment_jitter_ms: int = _row(
        "segment.jitter.ms", _LONG, 0, "A random time up to this is subtracted from segment.ms.", at_least=0
    )
    segment_index_bytes: int = _row(
        "segment.index.bytes", _INT, 10 * _MIB, "The size that an index file is preallocated to.", at_least=4
    )
    index_interval_bytes: int = _row(
        "index.interval.bytes",
        _INT,
        4096,
        "About one index entry for this many bytes of records.",
        at_least=0,
    )
    preallocate: bool = _row(
        "preallocate", _BOOLEAN, False, "Preallocate the full size of a new segment file."
    )

    # Appends
    max_message_bytes: int = _row(
        "max.message.bytes", _INT, _MIB + 12, "The largest batch, after compression.", at_least=0
    )
    message_timestamp_type: TimestampType = dataclasses.field(
        default=TimestampType.CREATE_TIME,
        metadata=_key(
            "message.timestamp.type",
            _STRING,
            TimestampType.CREATE_TIME,
            "Whether records keep the producer's timestamp or get the append time.",
            words={t.label: t for t in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)},
        ),
    )
    message_timestamp_before_max_ms: int = _row(
        "message.timestamp.before.max.ms",
        _LONG,
        _LONG_MAX,
        "How far a record's timestamp may lie in the past.",
        at_least=0,
    )
    message_timestamp_after_max_ms: int = _row(
        "message.timestamp.after.max.ms",
        _LONG,
        3_600_000,
        "How far a record's timestamp may lie in the future.",
        at_least=0,
    )
    compression_type: str = _row(
        "compression.type",
        _STRING,
        "producer",
        "The codec of stored batches; producer keeps the codec that the producer used.",
        words=_words("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    )
    compression_gzip_level: int = _row(
        "compression.gzip.level", _INT, -1, "The level for gzip.", at_least=1, at_most=9, also=-1
    )
    compression_lz4_level: int = _row(
        "compression.lz4.level", _INT, 9, "The level for lz4.", at_least=1, at_most=17
    )
    compression_zstd_level: int = _row(
        "compression.zstd.level", _INT, 3, "The level for zstd.", at_least=-131072, at_most=22
    )

    # Flushing
    flush_messages: int = _row(
        "flush.messages", _LONG, _LONG_MAX, "The log is flushed after this many records.", at_least=1
    )
    flush_ms: int = _row("flush.ms", _LONG, _LONG_MAX, "The log is flushed after this time.", at_least=0)

    # Retention and compaction
    cleanup_policy: tuple[str, ...] = _row(
        "cleanup.policy",
        _LIST,
        ("delete",),
        "What happens to old segments: deleted, compacted, both, or (empty) kept forever.",
        words=_words("compact", "delete"),
    )
    retention_bytes: int = _row(
        "retention.bytes", _LONG, -1, "Size above which old segments are deleted; -1 for no limit."
    )
    retention_ms: int = _row(
        "retention.ms",
        _LONG,
        7 * _DAY_MS,
        "Age above which segments are deleted; -1 for no limit.",
        at_least=-1,
    )
    file_delete_delay_ms: int = _row(
        "file.delete.delay.ms", _LONG, 60_000, "How long a deleted file stays on disk.", at_least=0
    )
    delete_retention_ms: int = _row(
        "delete.retention.ms", _LONG, _DAY_MS, "How long compaction keeps tombstones and markers.", at_least=0
    )
    min_compaction_lag_ms: int = _row(
        "min.compaction.lag.ms", _LONG, 0, "A record stays uncompacted for at least this long.", at_least=0
    )
    max_compaction_lag_ms: int = _row(
        "max.compaction.lag.ms",
        _LONG,
        _LONG_MAX,
        "A record stays uncompacted for at most this long.",
        at_least=1,
    )
    min_cleanable_dirty_ratio: float = _row(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        0.5,
        "A log is compacted when its dirty part is larger than this share.",
        at_least=0,
        at_most=1,
    )

    # Known, checked and carried; of no effect here
    min_insync_replicas: int = _row(
        "min.insync.replicas",
        _INT,
        1,
        "The number of in-sync replicas that a write with acks=all needs.",
        at_least=1,
    )
    unclean_leader_election_enable: bool = _row(
        "unclean.leader.election.enable", _BOOLEAN, False, "Whether an out-of-sync replica may become leader."
    )
    leader_replication_throttled_replicas: tuple[str, ...] = _row(
        "leader.replication.throttled.replicas", _LIST, (), "Replicas throttled on the leader.", replicas=True
    )
    follower_replication_throttled_replicas: tuple[str, ...] = _row(
        "follower.replication.throttled.replicas",
        _LIST,
        (),
        "Replicas throttled on the follower.",
        replicas=True,
    )
    remote_storage_enable: bool = _row(
        "remote.storage.enable", _BOOLEAN, False, "Whether old segments are moved to remote storage."
    )
    local_retention_ms: int = _row(
        "local.retention.ms",
        _LONG,
        -2,
        "retention.ms of the local segments; -2 for the same as retention.ms.",
        at_least=-2,
    )
    local_retention_bytes: int = _row(
        "local.retention.bytes",
        _LONG,
        -2,
        "retention.bytes of the local segments; -2 for the same as retention.bytes.",
        at_least=-2,
    )
    remote_log_copy_disable: bool = _row(
        "remote.log.copy.disable", _BOOLEAN, False, "Whether copying to remote storage is stopped."
    )
    remote_log_delete_on_disable: bool = _row(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        False,
        "Whether turning remote storage off deletes its data.",
    )

    def __post_init__(self) -> None:
        """Refuse values out of bounds, and a smallest compaction lag above the largest."""
        for row in self.keys().values():
            row.check(getattr(self, row.attribute))
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} is larger than "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}"
            )

    @classmethod
    def keys(cls) -> Mapping[str, ConfigKey]:
        """The table: every known key and its row."""
        return _KEYS

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object], defaults: LogConfig | None = None
    ) -> LogConfig:
        """Parse text under Kafka's keys over `defaults`; an unknown key or a bad value raises ConfigError."""
        values: dict[str, Any] = {}
        for key, value in properties.items():
            row = _KEYS.get(key)
            if row is None:
                raise ConfigError(f"unknown topic config {key!r}")
            values[row.attribute] = row.parse(value)
        return dataclasses.replace(defaults, **values) if defaults is not None else cls(**values)

    def overrides(self) -> dict[str, str]:
        """What differs from the defaults, as text under Kafka's keys; `from_properties` reads it back."""
        values = ((row, getattr(self, row.attribute)) for row in _KEYS.values())
        return {row.key: _text(value) for row, value in values if value != row.default}

    @property
    def compact(self) -> bool:
        """Whether the log is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are deleted."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_bytes(self) -> int:
        """The size limit of a segment that is in force."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def max_segment_ms(self) -> int:
        """The age limit of a segment: a compacted log rolls early enough for its compaction lag."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact else self.segment_ms

    @property
    def initial_file_bytes(self) -> int:
        """The size a new segment file starts with."""
        return self.max_segment_bytes if self.preallocate else 0

    def target_codec(self, source: Codec) -> Codec:
        """The codec that a batch which came in `source` is stored in."""
        if self.compression_type == "producer":
            return source
        return Codec.NONE if self.compression_type == "uncompressed" else Codec.parse(self.compression_type)

    def compression_level(self, codec: Codec) -> int | None:
        """The level to compress with; None for the codec's own way, which Kafka's default levels stand for.

        (gzip -1 is zlib's choice; lz4 9 means the fast compressor, any other level the high-compression one.)
        """
        row = _KEYS.get(f"compression.{codec.label}.level")
        if row is None:
            return None
        level: int = getattr(self, row.attribute)
        return None if level == row.default else level


_KEYS: Mapping[str, ConfigKey] = {
    row.key: row for row in (field.metadata["row"] for field in dataclasses.fields(LogConfig))
}
