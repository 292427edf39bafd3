"""Moments as people write them: `2026-11-15T10:00`, milliseconds since 1970, `7 days ago`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tidelog.errors import InvalidInputError

__all__ = ["parse_moment", "to_timestamp"]

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+ago)?")
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
    **dict.fromkeys(("w", "week"), 604800),
}


def to_timestamp(when: datetime | int) -> int:
    """Milliseconds since 1970; InvalidInputError for a datetime without a time zone."""
    if not isinstance(when, datetime):
        return when
    if when.tzinfo is None:
        raise InvalidInputError(f"{when} has no time zone; set tzinfo")
    return round(when.timestamp() * 1000)


def parse_moment(text: str, now_ms: int) -> int:
    """The moment that `text` means, in milliseconds since 1970; InvalidInputError if it is none.

    ISO 8601 without a zone is UTC.
    """
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
        raise InvalidInputError(
            f"{text!r} is not a time: write milliseconds since 1970, 2026-11-15T10:00, or '10 minutes ago'"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
