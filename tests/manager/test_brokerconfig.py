"""server.properties: precedence, defaults and refusals, and all of it as Kafka's own broker sees it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.config import LogConfig
from tidelog.errors import ConfigError
from tidelog.manager.brokerconfig import BrokerConfig

if TYPE_CHECKING:
    from tests.oracle import Oracle


def defaults(**properties: object) -> LogConfig:
    return BrokerConfig.from_properties(
        {key.replace("_", "."): value for key, value in properties.items()}
    ).topic_defaults


def test_nothing_said_is_the_default() -> None:
    config = BrokerConfig.from_properties({})
    assert config.topic_defaults == LogConfig()
    assert (config.num_recovery_threads_per_data_dir, config.log_retention_check_interval_ms) == (2, 300_000)
    assert (config.log_dirs, config.node_id, config.unknown) == ((), None, ())


def test_the_finer_key_counts() -> None:
    assert defaults(log_roll_hours=2).segment_ms == 7_200_000
    assert defaults(log_roll_hours=2, log_roll_ms=5).segment_ms == 5
    assert defaults(log_roll_jitter_hours=1).segment_jitter_ms == 3_600_000
    assert defaults(log_retention_hours=1).retention_ms == 3_600_000
    assert defaults(log_retention_hours=1, log_retention_minutes=3).retention_ms == 180_000
    assert defaults(log_retention_hours=1, log_retention_minutes=3, log_retention_ms=7).retention_ms == 7
    assert defaults(log_retention_hours=-5).retention_ms == -1
    assert defaults(log_flush_scheduler_interval_ms=900).flush_ms == 900
    assert defaults(log_flush_scheduler_interval_ms=900, log_flush_interval_ms=30).flush_ms == 30
    assert defaults(log_index_size_max_bytes=1 << 16).segment_index_bytes == 1 << 16
    assert defaults(message_max_bytes=77).max_message_bytes == 77
    assert defaults(log_cleanup_policy="compact,delete").cleanup_policy == ("compact", "delete")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a broker\nlisteners=PLAINTEXT://:9092\nnode.id=4\nlog.dirs=/a/b, /c\nlog.retention.hour=3\n"
        "num.recovery.threads.per.data.dir=8\nlog.cleaner.threads=2\nlog.segment.bytes: 2097152\n"
    )
    config = BrokerConfig.read(path)
    assert (config.node_id, config.log_dirs) == (4, ("/a/b", "/c"))
    assert (config.unknown, config.num_recovery_threads_per_data_dir) == (("log.retention.hour",), 8)
    assert config.topic_defaults.segment_bytes == 2 << 20


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.segment.bytes", "1000"),
        ("log.segment.bytes", "many"),
        ("log.roll.hours", "0"),
        ("log.roll.ms", "0"),
        ("log.retention.ms", "0"),
        ("log.retention.hours", "soon"),
        ("log.cleanup.policy", "burn"),
        ("num.recovery.threads.per.data.dir", "0"),
        ("log.index.size.max.bytes", "3"),
        ("log.dirs", "/a,,/b"),
        ("node.id", "-4"),
    ],
)
def test_a_bad_value_is_named_and_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({key: value})
    assert key in str(caught.value) or key == "log.roll.ms"


def test_kafkas_broker_agrees(oracle: Oracle) -> None:
    dice = random.Random(6)
    numbers = ("-2", "-1", "0", "1", "2", "24", "5000", "104857600")
    choices: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(
            [
                "log.segment.bytes",
                "log.roll.ms",
                "log.roll.hours",
                "log.roll.jitter.ms",
                "log.roll.jitter.hours",
                "log.retention.ms",
                "log.retention.minutes",
                "log.retention.hours",
                "log.retention.bytes",
                "log.index.size.max.bytes",
                "log.index.interval.bytes",
                "log.flush.interval.messages",
                "log.flush.interval.ms",
                "log.flush.scheduler.interval.ms",
                "log.segment.delete.delay.ms",
                "message.max.bytes",
                "log.cleaner.delete.retention.ms",
                "log.cleaner.min.compaction.lag.ms",
                "log.message.timestamp.before.max.ms",
                "log.message.timestamp.after.max.ms",
                "min.insync.replicas",
            ],
            numbers,
        ),
        "log.cleaner.min.cleanable.ratio": ("0", "0.25", "1", "1.5"),
        "log.cleanup.policy": ("compact", "delete", "compact,delete", "burn"),
        "log.preallocate": ("true", "false"),
        "log.message.timestamp.type": ("CreateTime", "LogAppendTime", "SomeTime"),
        "compression.type": ("zstd", "uncompressed", "producer", "rar"),
        "compression.gzip.level": ("-1", "4", "11"),
    }
    singles = [{key: value} for key, values in choices.items() for value in values]
    mixed = [{key: dice.choice(choices[key]) for key in dice.sample(sorted(choices), 3)} for _ in range(150)]
    configs = [{}, *singles, *mixed]
    answers = oracle.programs.ask("tidelog.oracle.BrokerConfigs", {"configs": configs})
    accepted = 0
    for config, answer in zip(configs, answers, strict=True):
        try:
            ours = BrokerConfig.from_properties(config).topic_defaults
        except ConfigError:
            assert "refused" in answer, config
            continue
        assert "refused" not in answer, (config, answer)
        known = {key: answer[key] for key in answer.keys() & LogConfig.keys().keys()}
        assert LogConfig.from_properties(known) == ours, config
        accepted += 1
    assert accepted > 60
