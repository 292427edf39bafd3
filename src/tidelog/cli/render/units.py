"""Sizes and times in the words of people, both ways.

    2026-11-15 08:44:20.822          a timestamp, in UTC
    1.5 MB                           a size; units are powers of 1000, as disks are sold

Times that are asked for may be milliseconds since 1970, ISO 8601 (UTC where they name no zone), or so long
ago: "10 minutes ago", "2h ago", "yesterday", "now".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tidelog.cli.errors import UsageError
from tidelog.errors import InvalidInputError
from tidelog.manager.upkeep.times import parse_moment

__all__ = ["are", "counted", "parse_target", "parse_time", "size_text", "span_text", "time_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("kB", "MB", "GB", "TB", "PB")


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 segment`, `2 segments`; `plural` is for nouns that do not just get an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def are(number: int, *, dry_run: bool = False) -> str:
    """The verb after `counted`."""
    return "would be" if dry_run else "is" if number == 1 else "are"


def time_text(timestamp_ms: int) -> str | None:
    """A timestamp for people, in UTC. Out-of-range values are printed as numbers; -1 gives None."""
    if timestamp_ms < 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def size_text(size_bytes: int) -> str:
    """A size in bytes for people."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in _UNITS:
        size /= 1000
        if size < 999.95 or unit == _UNITS[-1]:
            break
    return f"{size:.1f} {unit}"


def span_text(milliseconds: int) -> str:
    """A length of time for people, by its largest two units."""
    seconds, rest = divmod(abs(milliseconds), 1000)
    if not seconds:
        return f"{rest} ms"
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def parse_target(text: str, now_ms: int) -> int:
    """What a look-up by time is for: a moment, or a negative number: -1 to -6 are Kafka's own."""
    return int(text) if re.fullmatch(r"\s*-\d+\s*", text) else parse_time(text, now_ms)


def parse_time(text: str, now_ms: int) -> int:
    """The moment that `text` means, in milliseconds since 1970. Raises UsageError."""
    try:
        return parse_moment(text, now_ms)
    except InvalidInputError as error:
        raise UsageError(str(error)) from None
