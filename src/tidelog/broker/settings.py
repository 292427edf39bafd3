"""A broker's configuration at its start, under Kafka's keys.

Keys of logs and topics go to the store (`manager.brokerconfig`); these are a server's own. A key that neither
knows is refused if it looks like a slip, and ignored if it belongs to a part of Kafka that is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidelog.broker.groups import GroupConfig
from tidelog.broker.transactions import TransactionConfig
from tidelog.broker.wire.lengths import MOST_ITEMS
from tidelog.config import ConfigKey, ConfigType
from tidelog.errors import ConfigError
from tidelog.manager.brokerconfig import BrokerConfig

__all__ = [
    "Endpoint",
    "Settings",
    "broker_config",
    "group_config",
    "parse_endpoint",
    "transaction_config",
]

_INT, _LONG, _BOOLEAN = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN
_INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """As people write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_endpoint(text: str, default_port: int = 9092) -> Endpoint:
    """A host and port from `host`, `host:port`, `[::1]:port` or `:port`."""
    plain = text.partition("://")[2] or text
    if plain.startswith("["):
        host, closed, rest = plain[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else rest
        if not closed or (rest and not rest.startswith(":")):
            raise ConfigError(f"{text!r} is not an address: write host:port or [address]:port")
    else:
        host, _, port = plain.rpartition(":") if ":" in plain else (plain, "", "")
    if port and not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"{text!r} has no port between 0 and 65535")
    return Endpoint(host, int(port) if port else default_port)


def _row(key: str, kind: ConfigType, default: Any, at_least: int | None, doc: str) -> Any:
    return field(default=default, metadata={"row": ConfigKey(key, kind, default, doc, at_least=at_least)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A server's own settings."""

    auto_create_topics_enable: bool = _row(
        "auto.create.topics.enable", _BOOLEAN, True, None, "Create topics that clients ask for."
    )
    delete_topic_enable: bool = _row(
        "delete.topic.enable", _BOOLEAN, True, None, "Whether topics can be deleted."
    )
    default_replication_factor: int = _row(
        "default.replication.factor", _INT, 1, 1, "Replicas of a new topic. There is one broker: 1."
    )
    socket_request_max_bytes: int = _row(
        "socket.request.max.bytes", _INT, 100 << 20, 1, "The largest request that is read."
    )
    queued_max_request_bytes: int = _row(
        "queued.max.request.bytes", _LONG, 512 << 20, None, "Bytes of large requests in memory; -1: no limit."
    )
    max_connections: int = _row("max.connections", _INT, 10_000, 0, "Connections in all.")
    max_connections_per_ip: int = _row(
        "max.connections.per.ip", _INT, _INT_MAX, 0, "Connections of one address."
    )
    connections_max_idle_ms: int = _row(
        "connections.max.idle.ms", _LONG, 600_000, None, "A connection that is silent for so long is closed."
    )
    tidelog_request_read_ms: int = _row(
        "tidelog.request.read.ms", _INT, 30_000, 0, "Time for a request to come in once it has begun."
    )
    tidelog_request_max_items: int = _row(
        "tidelog.request.max.items", _INT, MOST_ITEMS, 1, "Topics, partitions, keys in one request, in all."
    )
    fetch_max_bytes: int = _row(
        "fetch.max.bytes", _INT, 55 << 20, 1024, "The most one fetch is answered with."
    )
    max_incremental_fetch_session_cache_slots: int = _row(
        "max.incremental.fetch.session.cache.slots", _INT, 1000, 0, "Fetch sessions that are kept."
    )
    max_request_partition_size_limit: int = _row(
        "max.request.partition.size.limit", _INT, 2000, 1, "Partitions in one DescribeTopicPartitions answer."
    )
    offsets_topic_num_partitions: int = _row(
        "offsets.topic.num.partitions", _INT, 50, 1, "Partitions of __consumer_offsets."
    )
    transaction_state_log_num_partitions: int = _row(
        "transaction.state.log.num.partitions", _INT, 50, 1, "Partitions of __transaction_state."
    )
    group_initial_rebalance_delay_ms: int = _row(
        "group.initial.rebalance.delay.ms", _INT, 3000, 0, "How long a new group waits for more members."
    )
    group_min_session_timeout_ms: int = _row(
        "group.min.session.timeout.ms", _INT, 6000, 0, "The shortest session timeout of a member."
    )
    group_max_session_timeout_ms: int = _row(
        "group.max.session.timeout.ms", _INT, 1_800_000, 0, "The longest session timeout of a member."
    )
    group_max_size: int = _row("group.max.size", _INT, _INT_MAX, 1, "Members of a group.")
    offset_metadata_max_bytes: int = _row(
        "offset.metadata.max.bytes", _INT, 4096, 0, "The longest text that comes with an offset."
    )
    offsets_retention_minutes: int = _row(
        "offsets.retention.minutes", _INT, 7 * 24 * 60, 1, "How long an empty group keeps its offsets."
    )
    offsets_retention_check_interval_ms: int = _row(
        "offsets.retention.check.interval.ms", _LONG, 600_000, 1, "Time between two looks at that."
    )
    group_consumer_session_timeout_ms: int = _row(
        "group.consumer.session.timeout.ms", _INT, 45_000, 1, "The session timeout of the new protocol."
    )
    group_consumer_heartbeat_interval_ms: int = _row(
        "group.consumer.heartbeat.interval.ms", _INT, 5000, 1, "How often members of it are to be heard."
    )
    transactional_id_expiration_ms: int = _row(
        "transactional.id.expiration.ms", _INT, 604_800_000, 1, "How long a silent transactional id is kept."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _row(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        3_600_000,
        1,
        "Time between two looks for such ids.",
    )
    transaction_max_timeout_ms: int = _row(
        "transaction.max.timeout.ms", _INT, 900_000, 1, "The longest timeout of a transaction."
    )
    properties: Mapping[str, str] = field(default_factory=dict)
    """All that was given, for who looks for more."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Settings:
        """Parse text under Kafka's keys; a bad value raises ConfigError."""
        given = {key: str(value).strip() for key, value in properties.items()}
        rows = cls.keys()
        values = {row.attribute: row.parse(given[key]) for key, row in rows.items() if key in given}
        if values.get("default_replication_factor", 1) != 1:
            raise ConfigError("default.replication.factor must be 1: there is one broker")
        typed: dict[str, Any] = dict(values)
        return cls(properties=given, **typed)

    @classmethod
    def keys(cls) -> dict[str, ConfigKey]:
        """The table: every key and its row."""
        rows = (each.metadata["row"] for each in fields(cls) if "row" in each.metadata)
        return {row.key: row for row in rows}


def group_config(settings: Settings) -> GroupConfig:
    """The part of the settings that is about groups."""
    return GroupConfig(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_check_interval_ms=settings.offsets_retention_check_interval_ms,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
    )


def transaction_config(settings: Settings) -> TransactionConfig:
    """The part of the settings that is about transactions."""
    return TransactionConfig(
        max_timeout_ms=settings.transaction_max_timeout_ms,
        id_expiration_ms=settings.transactional_id_expiration_ms,
        cleanup_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
    )


def broker_config(properties: Mapping[str, object]) -> BrokerConfig:
    """The part of the settings that is about logs."""
    config = BrokerConfig.from_properties(properties)
    if config.unknown:
        raise ConfigError(f"unknown broker config {config.unknown[0]!r}")
    return config
