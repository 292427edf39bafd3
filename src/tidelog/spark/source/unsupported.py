"""Options that Spark's Kafka connector refuses too: a job that sets one would not get what it asks for."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import InvalidInputError

__all__ = ["NOT_FOR_READS", "NOT_FOR_WRITES", "refuse_unsupported"]

_BYTES = "keys and values are bytes: use functions of DataFrames on them"
NOT_FOR_READS: Mapping[str, str] = {
    "kafka.auto.offset.reset": "set startingOffsets to earliest or latest",
    "kafka.key.deserializer": _BYTES,
    "kafka.value.deserializer": _BYTES,
    "kafka.enable.auto.commit": "Spark's checkpoints keep the offsets, none are committed",
    "kafka.interceptor.classes": "no consumer is there to be intercepted",
}
"""Under their lower-case names, what to do instead."""
NOT_FOR_WRITES: Mapping[str, str] = {"kafka.key.serializer": _BYTES, "kafka.value.serializer": _BYTES}


def refuse_unsupported(values: Mapping[str, str], unsupported: Mapping[str, str]) -> None:
    """InvalidInputError for the first of these options that was given."""
    for name, reason in unsupported.items():
        if name in values:
            raise InvalidInputError(f"option {name}: not supported, as in Spark's Kafka connector; {reason}")
