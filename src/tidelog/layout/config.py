"""The configuration of a topic's logs: the broker's defaults, what is set for the topic, what is asked for.

What is set for a topic comes from the metadata (`MetadataImage.topic_config`), or is given by whoever makes
the topic. Each level goes over the one before.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config import LogConfig
from tidelog.errors import ConfigError

__all__ = ["known_config", "log_config", "texts"]


def log_config(
    topic: Mapping[str, str],
    defaults: LogConfig | None = None,
    asked: Mapping[str, object] | None = None,
) -> LogConfig:
    """The configuration of a topic's logs; ConfigError if something that is asked for is wrong.

    `topic` is what is set for it, as the metadata has it: what this version does not know is left out.
    """
    known, _ = known_config(topic, LogConfig() if defaults is None else defaults)
    return LogConfig.from_properties(asked, known) if asked else known


def known_config(config: Mapping[str, str], defaults: LogConfig) -> tuple[LogConfig, list[str]]:
    """The configuration that is set, over the defaults, and what of it is not understood here.

    Another version of Kafka may have set what this one does not know. That must not keep a log from being
    opened; it stays in the metadata as it is.
    """
    if not config:
        return defaults, []
    try:
        return LogConfig.from_properties(config, defaults), []
    except ConfigError:
        pass
    understood, faults = {}, []
    for key, value in config.items():
        try:
            LogConfig.from_properties({key: value}, defaults)
            understood[key] = value
        except ConfigError as error:
            faults.append(str(error))
    try:
        return LogConfig.from_properties(understood, defaults), faults
    except ConfigError as error:  # each is right, but not all together
        return defaults, [*faults, str(error)]


def texts(config: Mapping[str, object]) -> dict[str, str]:
    """Values as Kafka writes them."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()
    }
