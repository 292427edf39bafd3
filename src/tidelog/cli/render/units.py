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

__all__ = ["parse_time", "size_text", "span_text", "time_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("kB", "MB", "GB", "TB", "PB")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+ago)?")
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
    **dict.fromkeys(("w", "week"), 604800),
}


def time_text(timestamp_ms: int) -> str | None:
    """A timestamp for people, in UTC; one that no calendar has as the number it is; none for none."""
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


def parse_time(text: str, now_ms: int) -> int:
    """The moment that `text` means, in milliseconds since 1970. Raises UsageError."""
    words = text.strip().lower()
    if re.fullmatch(r"\d+", words):
        return int(words)
    if words in ("now", "yesterday"):
        return now_ms - (86_400_000 if words == "yesterday" else 0)
    ago = _AGO.fullmatch(words)
    if ago is not None and ago[2] in _SECONDS:
        return now_ms - round(float(ago[1]) * _SECONDS[ago[2]] * 1000)
    try:
        moment = datetime.fromisoformat(text.strip().upper() if "t" in words else text.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is no time: say it in milliseconds since 1970, like 2026-11-15T10:00, "
            "or like '10 minutes ago'"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
