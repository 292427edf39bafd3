"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs: the configuration of topics, and the broker's.

A topic's value is what is set for it, else the broker's, else Kafka's default; the response says which. The
broker's own values are those it was started with, and cannot be changed while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tidelog.broker.context import Broker, Client, Values
from tidelog.broker.errors import Code, RefusedError, code_of
from tidelog.config import ConfigKey, ConfigType, LogConfig
from tidelog.errors import ConfigError, InvalidInputError, TidelogError
from tidelog.manager.brokerconfig import BrokerConfig, broker_keys
from tidelog.storage.names import validate_topic

__all__ = [
    "alter_configs",
    "check_config",
    "describe_configs",
    "described_config",
    "incremental_alter_configs",
    "list_config_resources",
]

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = _LISTED = 2, 4, 8, 16, 32
_OF_TOPIC, _OF_BROKER, _DEFAULT = 1, 4, 5
_RETENTION, _HOUR_MS = "retention.ms", 3_600_000
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_TYPES = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}


def described_config(config: Mapping[str, str], broker: BrokerConfig | None) -> list[Values]:
    """Every key of a topic with its value, and where that comes from."""
    return [_entry(row, config, broker) for row in LogConfig.keys().values() if not row.internal]


def _entry(row: ConfigKey, config: Mapping[str, str], broker: BrokerConfig | None) -> dict[str, Any]:
    synonyms = []
    if row.key in config:
        synonyms.append((row.key, config[row.key].strip(), _OF_TOPIC))
    names = broker_keys(row.key)
    inherited = None if broker is None else _text(getattr(broker.topic_defaults, row.attribute), row)
    if inherited is not None and inherited != row.default_text:
        synonyms.append((names[0] if names else row.key, inherited, _OF_BROKER))
    default = row.default_text or ""
    _, value, source = synonyms[0] if synonyms else (row.key, default, _DEFAULT)
    synonyms += [(name, text, _DEFAULT) for name, text in _defaults(row, names)]
    return {
        "name": row.key,
        "value": value,
        "read_only": False,
        "is_default": source == _DEFAULT,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": key, "value": text, "source": of} for key, text, of in synonyms],
        "config_type": _TYPES[row.type],
        "documentation": row.doc,
    }


def _defaults(row: ConfigKey, names: Sequence[str]) -> list[tuple[str, str]]:
    """The broker's key that a default comes from: none where there are several, but for retention's hours."""
    if row.key == _RETENTION:
        return [(names[-1], str(int(row.default_text or 0) // _HOUR_MS))]
    return [(names[0], row.default_text or "")] if len(names) == 1 else []


def _text(value: object, row: ConfigKey) -> str | None:
    """A typed value as Kafka writes it."""
    return ConfigKey(row.key, row.type, value, row.doc).default_text


def describe_configs(request: Any, broker: Broker, client: Client) -> Values:
    """The configuration of topics and of the broker."""
    results = []
    for resource in request.resources:
        head = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        try:
            entries = _describe(broker, resource)
            wanted = resource.configuration_keys
            if wanted:
                entries = [entry for entry in entries if entry["name"] in wanted]
            shown = [_trimmed(request, entry) for entry in entries]
            results.append({**head, "error_code": Code.NONE, "configs": shown})
        except (TidelogError, RefusedError) as error:
            results.append({**head, "error_code": code_of(error), "error_message": str(error)})
    return {"results": results}


def _trimmed(request: Any, entry: Values) -> Values:
    """An entry with what was asked for."""
    shown = dict(entry)
    if not request.include_synonyms:
        shown["synonyms"] = []
    if not getattr(request, "include_documentation", False):
        shown["documentation"] = None
    return shown


def _describe(broker: Broker, resource: Any) -> list[Values]:
    match resource.resource_type:
        case 2:
            _check_name(resource.resource_name)
            topic = broker.catalog.topic(resource.resource_name)
            if topic is None:
                raise RefusedError(
                    Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.resource_name!r}"
                )
            config = broker.catalog.store.config if broker.catalog.is_writable else None
            return described_config(topic.config, config)
        case 4:
            if resource.resource_name not in ("", str(broker.catalog.node_id)):
                raise RefusedError(Code.INVALID_REQUEST, f"this is broker {broker.catalog.node_id}")
            return _broker_entries(broker) if resource.resource_name else []
        case 8:
            if resource.resource_name != str(broker.catalog.node_id):
                raise RefusedError(Code.INVALID_REQUEST, f"this is broker {broker.catalog.node_id}")
            return []
        case 16 | 32:
            return []
    raise RefusedError(Code.INVALID_REQUEST, f"there is no resource of type {resource.resource_type}")


def check_config(config: Mapping[str, str], defaults: LogConfig) -> None:
    """Refuse what no topic can have, and what none of a broker without remote storage can."""
    if LogConfig.from_properties(config, defaults).remote_storage_enable:
        raise ConfigError("Tiered Storage functionality is disabled in the broker: remote.storage.enable")


def _check_name(name: str) -> None:
    try:
        validate_topic(name)
    except InvalidInputError as error:
        raise RefusedError(Code.INVALID_TOPIC_EXCEPTION, str(error)) from None


def _broker_entries(broker: Broker) -> list[Values]:
    entries: list[Values] = [
        _own(row, getattr(broker.settings, row.attribute)) for row in broker.settings.keys().values()
    ]
    if broker.catalog.is_writable:
        config = broker.catalog.store.config
        entries += [_own(row, getattr(config, row.attribute)) for row in BrokerConfig.keys().values()]
        for row in LogConfig.keys().values():
            names = broker_keys(row.key)
            if names:
                of_broker = ConfigKey(names[0], row.type, row.default, row.doc)
                entries.append(_own(of_broker, getattr(config.topic_defaults, row.attribute)))
        roots = ",".join(root.path for root in broker.catalog.store.roots)
        entries.append(_own(ConfigKey("log.dirs", ConfigType.STRING, None, "The roots."), roots))
    listeners = ",".join(f"PLAINTEXT://{one}" for one in broker.advertised)
    entries += [
        _own(ConfigKey(key, ConfigType.STRING, None, "Where clients connect to."), listeners)
        for key in ("listeners", "advertised.listeners")
    ]
    entries.append(
        _own(ConfigKey("node.id", ConfigType.INT, None, "This broker's id."), broker.catalog.node_id)
    )
    return entries


def _own(row: ConfigKey, value: object) -> dict[str, Any]:
    source = _DEFAULT if value == row.default else _OF_BROKER
    text = None if value is None else _text(value, row)
    return {
        "name": row.key,
        "value": text,
        "read_only": True,
        "is_default": source == _DEFAULT,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": row.key, "value": text, "source": source}],
        "config_type": _TYPES[row.type],
        "documentation": row.doc,
    }


def list_config_resources(request: Any, broker: Broker, client: Client) -> Values:
    """What has a configuration: topics and this broker. Version 0 asks for clients' metrics: none."""
    wanted = getattr(request, "resource_types", ()) if request.__version__ > 0 else (_CLIENT_METRICS,)
    if any(kind not in _LISTED for kind in wanted):
        return {"error_code": Code.UNSUPPORTED_VERSION, "config_resources": []}
    node = str(broker.catalog.node_id)
    named = {_TOPIC: sorted(broker.catalog.names()), _BROKER: [node], _BROKER_LOGGER: [node]}
    return {
        "error_code": Code.NONE,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in wanted or _LISTED
            for name in named.get(kind, ())
        ],
    }


# ---- changing


async def incremental_alter_configs(request: Any, broker: Broker, client: Client) -> Values:
    """Set, remove, or add to and take from lists, of topics."""
    return await _alter(request, broker, _incremental)


async def alter_configs(request: Any, broker: Broker, client: Client) -> Values:
    """Give topics a whole new configuration: what is not named goes back to its default."""
    return await _alter(request, broker, _replacing)


_Changes = Callable[[Mapping[str, str], Iterable[Any], LogConfig], dict[str, str | None]]


async def _alter(request: Any, broker: Broker, changes: _Changes) -> Values:
    def alter() -> list[Values]:
        return [_alter_one(broker, one, changes, request.validate_only) for one in request.resources]

    responses = await broker.in_thread(alter)
    broker.refresh()
    return {"responses": responses}


def _alter_one(broker: Broker, resource: Any, changes: _Changes, validate_only: bool) -> Values:
    head = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        store = broker.catalog.store
        if resource.resource_type != _TOPIC:
            raise RefusedError(
                Code.INVALID_REQUEST,
                "only topics have a configuration that can be changed; give the broker's at its start",
            )
        if not resource.resource_name:
            raise RefusedError(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
        _check_name(resource.resource_name)
        topic = broker.catalog.topic(resource.resource_name)
        if topic is None:
            raise RefusedError(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.resource_name!r}"
            )
        wanted = changes(topic.config, resource.configs, store.config.topic_defaults)
        check_config(
            {key: value for key, value in wanted.items() if value is not None}, store.config.topic_defaults
        )
        if not validate_only:
            store.alter_config(topic.name, wanted)
        return {**head, "error_code": Code.NONE, "error_message": None}
    except (TidelogError, RefusedError, OSError) as error:
        return {**head, "error_code": code_of(error), "error_message": str(error)}


def _replacing(
    before: Mapping[str, str], configs: Iterable[Any], defaults: LogConfig
) -> dict[str, str | None]:
    wanted: dict[str, str | None] = dict.fromkeys(before)
    given: dict[str, str] = {}
    for one in configs:
        if one.name in given:
            raise RefusedError(Code.INVALID_REQUEST, f"{one.name} is named twice")
        if one.value is None:
            raise RefusedError(Code.INVALID_REQUEST, f"{one.name} has no value")
        given[one.name] = one.value
    return wanted | given


def _incremental(
    before: Mapping[str, str], configs: Iterable[Any], defaults: LogConfig
) -> dict[str, str | None]:
    """What operations make of a topic's configuration."""
    changes: dict[str, str | None] = {}
    for one in configs:
        if one.name in changes:
            raise RefusedError(Code.INVALID_REQUEST, f"{one.name} is named twice")
        row = LogConfig.keys().get(one.name)
        if row is None:
            raise ConfigError(f"unknown topic config {one.name!r}")
        if one.config_operation == _DELETE:
            changes[one.name] = None
            continue
        if one.value is None:
            raise RefusedError(Code.INVALID_REQUEST, f"{one.name} has no value")
        if one.config_operation == _SET:
            changes[one.name] = one.value
            continue
        if row.type is not ConfigType.LIST:
            raise ConfigError(f"{one.name} is not a list: set it")
        inherited = _text(getattr(defaults, row.attribute), row) or ""
        words = [word for word in before.get(one.name, inherited).split(",") if word]
        given = [word.strip() for word in one.value.split(",")]
        if one.config_operation == _APPEND:
            words += [word for word in given if word not in words]
        elif one.config_operation == _SUBTRACT:
            words = [word for word in words if word not in given]
        else:
            raise RefusedError(Code.INVALID_REQUEST, f"there is no operation {one.config_operation}")
        changes[one.name] = ",".join(words)
    return changes
