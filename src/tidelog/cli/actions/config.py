"""Showing and changing topics' configurations; only changes take the root's lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.cli.actions.directories import existing_directory
from tidelog.cli.actions.loading import RootOptions, check_changeable, check_ready, metadata_of, opened_root
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.config import LogConfig
from tidelog.layout.config import known_config

__all__ = ["change", "show"]

_VALUES = (
    Column("topic", "TOPIC"),
    Column("key", "KEY"),
    Column("value", "VALUE", right=True),
    Column("default", "DEFAULT", right=True, optional=True),
    Column("source", "FROM", optional=True),
)
_CHANGES = (
    Column("topic", "TOPIC"),
    Column("key", "KEY"),
    Column("before", "BEFORE", right=True),
    Column("after", "AFTER", right=True),
)


def _configs(root: Path, topic: str | None, options: RootOptions) -> dict[str, dict[str, str]]:
    """What is set for each topic, or for one."""
    directory = existing_directory(root)
    image = metadata_of(directory, options)
    found = {name: dict(image.topic_config(name)) for name in sorted(image.topics)}
    if not found:
        raise UsageError(
            f"{directory} has no topic metadata: it is on another root of the broker, or missing"
        )
    if topic is not None and topic not in found:
        raise UsageError(f"there is no topic {topic!r}, but {', '.join(found)}")
    return found if topic is None else {topic: found[topic]}


def show(root: Path, topic: str | None, output: Output, *, defaults: bool, options: RootOptions) -> None:
    """What is set for topics; with `defaults`, also what is not."""
    configs = _configs(root, topic, options)

    def rows() -> Iterator[Sequence[Cell]]:
        for name, settings in configs.items():
            keys = LogConfig.keys()
            for key, value in sorted(settings.items()):
                default = keys[key].default_text if key in keys else None
                yield name, key, value, default, "topic" if key in keys else "topic, not known here"
            for key, row in keys.items() if defaults else ():
                if key not in settings and not row.internal:
                    yield name, key, row.default_text, row.default_text, "default"

    output.table(_VALUES, rows())
    quiet = [name for name, settings in configs.items() if not settings]
    if quiet and not defaults:
        output.say(f"nothing is set for {', '.join(quiet)}: they have the broker's defaults")


def change(
    root: Path,
    topic: str,
    changes: Sequence[str],
    gone: Sequence[str],
    output: Output,
    *,
    dry_run: bool,
    options: RootOptions,
) -> None:
    """Set and unset keys of a topic; a key or value that Kafka would refuse is refused before anything."""
    pairs = [setting.partition("=") for setting in changes]
    if any(not equals for _, equals, _ in pairs):
        raise UsageError(f"--set takes KEY=VALUE, not {' '.join(changes)!r}")
    wanted: dict[str, str | None] = {key.strip(): value.strip() for key, _, value in pairs}
    if set(wanted) & set(gone):
        raise UsageError(f"{', '.join(sorted(set(wanted) & set(gone)))} cannot be both set and unset")
    before = _configs(root, topic, options)[topic]
    known = before.keys() | LogConfig.keys().keys()
    strange = [key for key in gone if key not in known]
    if strange:
        raise UsageError(f"unknown topic config {strange[0]!r}: --list shows all there are")
    _check(before, wanted)
    wanted |= dict.fromkeys(gone)
    check_ready(root, options)
    check_changeable(root, options)
    if not dry_run:
        with opened_root(existing_directory(root), output, options, topics=()) as store:
            store.alter_config(topic, wanted)
    rows = [(topic, key, before.get(key), value) for key, value in wanted.items() if before.get(key) != value]
    output.table(_CHANGES, rows)
    output.say(f"{counted(len(rows), 'key')} {are(len(rows), dry_run=dry_run)} changed")


def _check(before: dict[str, str], wanted: dict[str, str | None]) -> None:
    """Refuse bad values, also those that are bad only together with what is set."""
    asked = {key: value for key, value in wanted.items() if value is not None}
    known, _ = known_config({key: value for key, value in before.items() if key not in wanted}, LogConfig())
    LogConfig.from_properties(asked, known)
