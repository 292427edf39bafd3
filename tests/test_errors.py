"""The error tree: Kafka's codes, and what callers may catch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

import tidelog
from tidelog import errors

NAMES = re.findall(
    r"^class (\w+)\((?:(?!^class)(?:.|\n))*?kafka_code(?:: int)? = (-?\d+)  # (\w+)",
    Path(errors.__file__).read_text(),
    re.MULTILINE,
)


LIBRDKAFKA = {  # where its name differs from Kafka's
    "CORRUPT_MESSAGE": "INVALID_MSG",
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
}


@pytest.mark.parametrize(("error", "code", "name"), NAMES, ids=[name for name, _, _ in NAMES])
def test_codes_are_those_that_clients_know(error: str, code: str, name: str) -> None:
    assert getattr(errors, error).kafka_code == int(code)
    if int(code) >= 0:
        assert KafkaError(int(code)).name() == LIBRDKAFKA.get(name, name)


def test_every_error_has_a_code() -> None:
    tree = [getattr(errors, name) for name in errors.__all__]
    assert all(isinstance(error.kafka_code, int) for error in tree)


def test_what_is_not_there_is_a_lookup_error(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data", background=False) as store:
        topic = store.create_topic("orders", 1)
        with pytest.raises(LookupError, match="no topic 'payments'"):
            store["payments"]
        with pytest.raises(LookupError, match="no partition 1"):
            topic[1]
        with pytest.raises(errors.TopicExistsError):
            store.create_topic("orders")
