"""Sizes and times in the words of people."""

from __future__ import annotations

import pytest

from tidelog.cli.errors import UsageError
from tidelog.cli.render.units import parse_time, size_text, span_text, time_text

NOW = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1790000000000", NOW),
        ("now", NOW),
        ("10 minutes ago", NOW - 600_000),
        ("10m", NOW - 600_000),
        ("1.5 hours ago", NOW - 5_400_000),
        ("2 d ago", NOW - 172_800_000),
        ("Yesterday", NOW - 86_400_000),
        ("2026-09-21T14:13:20", NOW),
        ("2026-09-21 14:13:20.000Z", NOW),
        ("2026-09-21t16:13:20+02:00", NOW),
        ("2026-09-21", NOW - (14 * 3600 + 13 * 60 + 20) * 1000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert parse_time(text, NOW) == ms


@pytest.mark.parametrize("text", ["", "Tuesday", "10 parsecs ago", "2026-13-01", "-5"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time: write milliseconds"):
        parse_time(text, NOW)


def test_sizes_and_spans() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 1_550_000, 999_960, 10**13, 5 * 10**18)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.6 MB",
        "1.0 MB",
        "10.0 TB",
        "5000.0 PB",
    ]
    assert [span_text(ms) for ms in (0, 999, 61_000, 90_061_000)] == [
        "0 ms",
        "999 ms",
        "1 min 1 s",
        "1 d 1 h",
    ]
    assert time_text(NOW) == "2026-09-21 14:13:20.000"
    assert time_text(-1) is None
    assert time_text(1 << 62) == str(1 << 62)
