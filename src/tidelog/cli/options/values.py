"""Options for values that are decoded by schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.declare import Option
from tidelog.cli.errors import UsageError

if TYPE_CHECKING:
    from tidelog.values.spec import Values

__all__ = [
    "TYPED",
    "AvroSchema",
    "Framing",
    "KeyFormat",
    "KeySubject",
    "RegistryOption",
    "Schemas",
    "Subject",
    "typed_keys",
    "typed_values",
]

TYPED = ("avro", "protobuf", "jsonschema")
"""Formats that need schemas."""

AvroSchema = Annotated[
    Path | None, Option("--avro-schema", metavar="FILE", help="The schema of values, for --decode avro.")
]
Schemas = Annotated[
    str | None,
    Option(
        "--schemas",
        metavar="WHERE",
        help="The schemas of values: a directory, or the URL of a schema registry.",
    ),
]
Framing = Annotated[
    str,
    Option(
        "--framing",
        metavar="HOW",
        help="What precedes each value: confluent (a schema id) or plain (nothing).",
    ),
]
Subject = Annotated[
    str | None,
    Option("--subject", metavar="NAME", help="The subject of the schemas.", show_default="TOPIC-value"),
]
KeyFormat = Annotated[
    str | None,
    Option(
        "--key-format",
        metavar="FORMAT",
        help="Decode keys by their schemas: avro, protobuf or jsonschema, with --schemas.",
    ),
]
KeySubject = Annotated[
    str | None,
    Option(
        "--key-subject", metavar="NAME", help="The subject of the keys' schemas.", show_default="TOPIC-key"
    ),
]
RegistryOption = Annotated[
    list[str] | None,
    Option(
        "--registry-option",
        metavar="KEY=VALUE",
        help="An option of the registry's client, such as basic.auth.user.info; @FILE: read it from a file.",
    ),
]


def typed_values(
    format: str | None,
    schemas: str | None,
    framing: str = "confluent",
    subject: str | None = None,
    registry_option: list[str] | None = None,
    key_format: str | None = None,
) -> Values | None:
    """How values are decoded; None if they need no schemas. Raises UsageError."""
    if format is None or format.lower() not in TYPED:
        if subject or ((schemas or registry_option) and key_format is None):
            raise UsageError(
                f"--schemas, --subject and --registry-option are for values in {', '.join(TYPED)}"
            )
        return None
    if not schemas:
        raise UsageError(f"{format} values need schemas: add --schemas DIRECTORY or the URL of a registry")
    from tidelog.cli.actions.directories import parse_settings
    from tidelog.values.spec import Values

    options = parse_settings(registry_option or [], "--registry-option")
    options = {name: _option_text(name, text) for name, text in options.items()}
    return Values(format, schemas, framing, subject, options)


def _option_text(name: str, text: str) -> str:
    """An option's text, or that of the file that it names as `@FILE`: a password is seen in no list of
    processes then.
    """
    if not text.startswith("@"):
        return text
    from tidelog.storage import LOCAL, read_file

    try:
        return read_file(LOCAL, text[1:]).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--registry-option {name}: {text[1:]} cannot be read: {why}") from None


def typed_keys(
    format: str | None,
    schemas: str | None,
    framing: str = "confluent",
    subject: str | None = None,
    registry_option: list[str] | None = None,
) -> Values | None:
    """How keys are decoded; None if they are not. Raises UsageError."""
    if format is None:
        if subject:
            raise UsageError("--key-subject is for --key-format")
        return None
    if format.lower() not in TYPED:
        raise UsageError(f"--key-format {format}: choose from {', '.join(TYPED)}")
    return typed_values(format, schemas, framing, subject, registry_option)
