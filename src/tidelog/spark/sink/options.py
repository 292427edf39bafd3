"""Options of a write: those of Spark's Kafka connector that mean something here, and our own.

    path                    the root directory, or a JSON list of a store's roots; made where it is missing
    topic                   the topic of all records, whatever the column says
    kafka.compression.type  the codec of topics that keep their producers': none, gzip, snappy, lz4, zstd
    partitions              how many partitions a topic is made with; else the broker's num.partitions
    <a topic config>        of topics that are made, under Kafka's keys: retention.ms, cleanup.policy, ...
    writeId                 a name for this write: written again under the same name, it adds nothing
    writeBatch              a number, for several writes under one name: one that is not above the last that
                            was written adds nothing; else 0
    staging                 where data is staged; else beside the root, in .tidelog-staging-<its name>
    lockTimeout             how long to wait for a root that another one has; else 30s
    recover                 true: recover a root that was not closed cleanly; else such a root is refused
    serverProperties        the broker's configuration, whose defaults topics inherit

Names are case-insensitive; one that is nearly one of these is taken for a slip and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.config import LogConfig
from tidelog.errors import ConfigError, InvalidInputError
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.publishing.checks import check_topic
from tidelog.scanning.volumes import local_path
from tidelog.spark.source.options import SINK_NAMES, OptionReader, bad_option, refuse_slips
from tidelog.spark.source.unsupported import NOT_FOR_WRITES, refuse_unsupported
from tidelog.types import Codec

__all__ = ["SinkOptions"]

_LOCK_TIMEOUT = "30s"
_STAGING = ".tidelog-staging"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write, parsed and checked as far as they can be without looking at the root."""

    roots: tuple[str, ...]
    staging: str
    topic: str | None = None
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    codec: Codec = Codec.NONE
    write_id: str = ""
    write_batch: int = 0
    lock_timeout_ms: int = 30_000
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    recover: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options; `InvalidInputError` names the one at fault."""
        values = {key.lower(): value for key, value in options.items()}
        keys = LogConfig.keys()
        config = {key: value for key, value in values.items() if key in keys}
        refuse_slips(values, (*SINK_NAMES, *keys))
        refuse_unsupported(values, NOT_FOR_WRITES)
        given = OptionReader(values)
        roots = tuple(_root(path) for path in given.paths())
        staging = given.text("staging")
        properties = given.text("serverProperties")
        broker = BrokerConfig() if properties is None else BrokerConfig.read(properties)
        topic = given.text("topic")
        if topic is not None:
            try:
                check_topic(topic)
            except InvalidInputError as error:
                raise bad_option("topic", str(error)) from None
        try:
            LogConfig.from_properties(config, broker.topic_defaults)
        except ConfigError as error:
            raise InvalidInputError(f"a topic cannot be made with these options: {error}") from None
        return cls(
            roots=roots,
            staging=_root(staging) if staging else _beside(roots[0]),
            topic=topic,
            partitions=given.count("partitions"),
            config=config,
            codec=Codec.parse(
                given.choice("kafka.compression.type", tuple(codec.label for codec in Codec), "none")
            ),
            write_id=given.text("writeId") or "",
            write_batch=given.number("writeBatch") or 0,
            lock_timeout_ms=given.delay("lockTimeout", _LOCK_TIMEOUT),
            broker=broker,
            recover=given.flag("recover", False),
        )


def _beside(root: str) -> str:
    """Another root's writers sweep another directory."""
    return str(Path(root).parent / f"{_STAGING}-{Path(root).name}")


def _root(path: str) -> str:
    text = local_path(path)
    if "://" in text:
        raise bad_option("path", f"{path} is not a directory: logs are written to file systems")
    whole = Path(text).absolute()
    if whole.exists() and not whole.is_dir():
        raise bad_option("path", f"{whole} is not a directory")
    return str(whole)
