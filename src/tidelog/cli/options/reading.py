"""Options that the commands which read records share, and what they stand for.

A command takes them in groups: a parameter whose type is one of the dataclasses here stands for the options
that are its fields (`grouped`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from tidelog.cli.declare import Argument, Option
from tidelog.cli.errors import UsageError
from tidelog.cli.options.values import (
    TYPED,
    AvroSchema,
    Framing,
    KeyFormat,
    KeySubject,
    RegistryOption,
    Schemas,
    Subject,
    typed_keys,
    typed_values,
)

if TYPE_CHECKING:
    from tidelog.cli.actions.reading import Bounds, Selection
    from tidelog.cli.render.output import Output
    from tidelog.cli.render.record_lines import RecordLines

__all__ = ["Corrupt", "Form", "Limit", "Spread", "Wanted", "grouped"]

Paths = Annotated[list[str], Argument(metavar="PATH", help="Partition or root directories, globs, or URLs.")]
Topics = Annotated[list[str] | None, Option("--topic", metavar="NAME", help="Only this topic.")]
Partitions = Annotated[
    list[int] | None, Option("--partition", metavar="N", help="Only partitions of this number.")
]
StartOffset = Annotated[int | None, Option("--offset", metavar="N", min=0, help="Start at this offset.")]
StartTime = Annotated[
    str | None,
    Option(
        "--since",
        metavar="TIME",
        help="Start at this time: 2026-11-15T10:00 (UTC), milliseconds, or '10 minutes ago'.",
    ),
]
EndOffset = Annotated[int | None, Option("--to-offset", metavar="N", min=0, help="End before this offset.")]
EndTime = Annotated[
    str | None, Option("--until", metavar="TIME", help="End before the first record at or after this time.")
]
Limit = Annotated[int | None, Option("--limit", "-n", metavar="N", min=0, help="Print at most N records.")]
Committed = Annotated[bool, Option("--committed", help="Leave out aborted and open transactions.")]
Key = Annotated[str | None, Option("--key", metavar="TEXT", help="Only records with this key.")]
KeyMatch = Annotated[
    str | None, Option("--key-match", metavar="REGEX", help="Only records whose key matches.")
]
ValueContains = Annotated[
    str | None, Option("--contains", metavar="TEXT", help="Only records whose value contains this.")
]
ValueMatch = Annotated[
    str | None, Option("--match", metavar="REGEX", help="Only records whose value matches.")
]
Header = Annotated[
    str | None, Option("--header", metavar="KEY[=VALUE]", help="Only records with this header.")
]
Tombstones = Annotated[bool, Option("--tombstones", help="Only records without a value.")]
Corrupt = Annotated[
    str,
    Option("--corrupt", metavar="HOW", help="At damage: fail, stop (end the partition there) or skip it."),
]
Format = Annotated[str, Option("--format", metavar="FORM", help="plain, json or hex.")]
Show = Annotated[
    str | None,
    Option(
        "--show",
        metavar="A,B",
        help="Print these before the value, in plain and hex lines: topic, partition, offset, timestamp, "
        "key, headers.",
    ),
]
Decode = Annotated[
    str | None, Option("--decode", metavar="HOW", help="Decode keys and values; see tidelog dump --help.")
]
ValueFormat = Annotated[
    str | None,
    Option(
        "--value-format",
        metavar="FORMAT",
        help="Decode values by their schemas: avro, protobuf or jsonschema, with --schemas.",
    ),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records."""

    paths: Paths
    topic: Topics = None
    partition: Partitions = None
    key: Key = None
    key_match: KeyMatch = None
    contains: ValueContains = None
    match: ValueMatch = None
    header: Header = None
    tombstones: Tombstones = False
    committed: Committed = False

    def select(self, bounds: Bounds | None = None, corrupt: str = "fail") -> Selection:
        """The partitions, and what of them is to be read. Raises UsageError."""
        from tidelog.cli.actions.reading import select
        from tidelog.scanning.filters import RecordFilter

        return select(
            self.paths,
            topics=self.topic,
            partitions=self.partition,
            bounds=bounds,
            committed_only=self.committed,
            wanted=RecordFilter(
                self.key, self.key_match, self.contains, self.match, self.header, self.tombstones
            ),
            corrupt=corrupt,
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """From where to where."""

    offset: StartOffset = None
    since: StartTime = None
    to_offset: EndOffset = None
    until: EndTime = None

    def bounds(self) -> Bounds:
        """The bounds. Raises UsageError if they cannot be combined."""
        from tidelog.cli.actions.reading import Bounds

        return Bounds(self.offset, self.since, self.to_offset, self.until)


@dataclass(frozen=True, slots=True)
class Form:
    """How records look."""

    format: Format = "plain"
    show: Show = None
    decode: Decode = None
    avro_schema: AvroSchema = None
    value_format: ValueFormat = None
    schemas: Schemas = None
    framing: Framing = "confluent"
    subject: Subject = None
    registry_option: RegistryOption = None
    key_format: KeyFormat = None
    key_subject: KeySubject = None

    def lines(self, out: Output, selection: Selection, shown: str = "") -> RecordLines:
        """What makes the lines of what is selected; `shown` stands before values unless something else is
        asked for.
        """
        lines = self._lines(out, shown)
        where = (self.schemas, self.framing)
        keys = typed_keys(self.key_format, *where, self.key_subject, self.registry_option)
        values = typed_values(self.value_format, *where, self.subject, self.registry_option, self.key_format)
        if values is None and self.value_format is not None:
            raise UsageError(f"--value-format {self.value_format}: choose from {', '.join(TYPED)}")
        specs = {name: spec for name, spec in (("value", values), ("key", keys)) if spec is not None}
        if specs:
            from tidelog.scanning.typed import decoder_of

            if self.decode or lines.format == "hex":
                option = "--value-format" if "value" in specs else "--key-format"
                raise UsageError(f"{option} decodes records: leave out --decode and --format hex")
            tasks = selection.tasks()
            lines.typed = tuple(decoder_of(spec, name, tasks) for name, spec in specs.items())
        return lines

    def _lines(self, out: Output, shown: str) -> RecordLines:
        from tidelog.cli.render.record_lines import RecordLines
        from tidelog.decoding import make_decoder

        names = shown if self.show is None else self.show
        return RecordLines(
            "json" if out.json else self.format,
            tuple(name.strip() for name in names.split(",") if name.strip()),
            make_decoder(self.decode, avro_schema=self.avro_schema) if self.decode else None,
            out.terminal,
        )


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as `cli.declare` reads it: with the fields of its groups as parameters of its own."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            options |= inspect.signature(groups[name]).parameters
            hints |= get_type_hints(groups[name], include_extras=True)
        else:
            options[name] = parameter

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    told: Any = run
    told.__annotations__ = {name: hints[name] for name in options}
    told.__signature__ = inspect.Signature(
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[name]
            )
            for name, one in options.items()
        ]
    )
    return run
