"""The options that say how keys and values are decoded.

valueFormat, keyFormat          bytes (the default), avro, protobuf or jsonschema
schemas                         a directory, or the URL of a schema registry
framing                         confluent (the default) or plain
valueSubject, keySubject        instead of <topic>-value and <topic>-key
registry.<name>                 options of the registry's client
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import InvalidInputError
from tidelog.values.spec import FORMATS, Values
from tidelog.values.wire import Framing

__all__ = ["NAMES", "REGISTRY", "values_of"]

NAMES = ("valueFormat", "keyFormat", "schemas", "framing", "valueSubject", "keySubject")
REGISTRY = "registry."
"""What options of the registry's client begin with."""


def values_of(options: Mapping[str, str], column: str) -> Values | None:
    """How a column is decoded, from options by lower-case name; None if it is bytes."""
    name = f"{column}Format"
    format = options.get(name.lower(), "bytes").strip().lower()
    if format == "bytes":
        return None
    if format not in FORMATS:
        raise InvalidInputError(f"option {name}: must be bytes, {' or '.join(FORMATS)}, not {format!r}")
    where = options.get("schemas", "").strip()
    if not where:
        raise InvalidInputError(f"option schemas: {name} needs a directory, or the URL of a schema registry")
    try:
        framing = Framing.parse(options.get("framing", "confluent").strip())
    except InvalidInputError as error:
        raise InvalidInputError(f"option framing: {error}") from None
    registry = {key.removeprefix(REGISTRY): one for key, one in options.items() if key.startswith(REGISTRY)}
    return Values(format, where, framing.value, options.get(f"{column}subject"), registry)
