"""A partition drawn in lines of text: its segments on an axis of offsets and on one of time.

    0                                              1442
    ████████▓▓▓▓▓▓▓▓▓████████▓▓▓▓▓▓▓▓  segments, one shade, then the other
    ████▇▇▇▇████████▅▅▅▅████████████   records: how full the offsets are
    ▃▃▅▃▃▃▅▃▃▃▃▅▃▃▃▃▃▅▃▃▃              index entries
    S                       L      E   log start, last stable offset, high watermark, end
          !                            damage

Pure: from facts to text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidelog.cli.render.units import size_text, span_text, time_text
from tidelog.scanning.pictures import Axis, Floats, Picture

__all__ = ["draw"]

_SHADES = "█▓"
_LEVELS = " ▁▂▃▄▅▆▇█"
_LABEL = 10


def draw(picture: Picture) -> Iterator[str]:
    """The lines."""
    yield from _heading(picture)
    yield ""
    yield from _offset_rows(picture)
    if picture.times is not None:
        yield ""
        yield from _time_rows(picture, picture.times)


def _heading(picture: Picture) -> Iterator[str]:
    facts = picture.facts
    yield f"{facts.topic_partition}  ({facts.url})"
    codecs = " ".join(sorted({codec for one in picture.segments for codec in one.codecs} or facts.codecs))
    parts = [size_text(facts.size), f"{facts.segments} segments"]
    if picture.read_logs:
        records = sum(one.records for one in picture.segments)
        parts += [f"{sum(one.batches for one in picture.segments)} batches", f"{records} records"]
    yield ", ".join([*parts, codecs or "no codec"])
    marks = [f"log start {facts.log_start_offset}"]
    stable = "unknown" if picture.stable_offset is None else str(picture.stable_offset)
    marks.append(f"last stable {stable}")
    if facts.high_watermark is not None:
        marks.append(f"high watermark {facts.high_watermark}")
    yield ", ".join([*marks, f"end {facts.log_end_offset}"])
    if picture.times is not None:
        first, last = picture.times.start, picture.times.end - 1
        yield f"{time_text(first)} to {time_text(last)} UTC ({span_text(last - first)})"
    gaps = sum(one.gaps for one in picture.segments)
    if gaps:
        missing = sum(one.missing_offsets for one in picture.segments)
        yield f"{missing} offsets are missing, in {gaps} gaps: cleaned or never written"
    for note in facts.notes:
        yield f"note: {note}"
    for damage in picture.damage:
        yield f"DAMAGE: {damage}"


def _offset_rows(picture: Picture) -> Iterator[str]:
    axis = picture.offsets
    yield _row("offsets", _ends(str(axis.start), str(axis.end), axis.columns))
    spans = [(one.base_offset, one.end_offset) for one in picture.segments]
    yield _row("segments", _bars(axis, spans))
    width = max(axis.end - axis.start, 1) / axis.columns
    if picture.read_logs:
        yield _row("records", _levels(picture.records / width, 1.0))
    yield _row("index", _levels(picture.entries, picture.entries.max(initial=0.0)))
    yield _row("marks", _marks(picture))
    broken = [one.damage_offset for one in picture.segments if one.damage and not one.is_unfinished]
    if broken:
        line = [" "] * axis.columns
        for offset in broken:
            line[axis.column(offset or 0)] = "!"
        yield _row("damage", "".join(line))


def _marks(picture: Picture) -> str:
    """S the log start, L the last stable offset, W the high watermark, E the end; the last one wins."""
    facts = picture.facts
    line = [" "] * picture.offsets.columns
    for sign, offset in (
        ("W", facts.high_watermark),
        ("L", picture.stable_offset),
        ("S", facts.log_start_offset),
        ("E", facts.log_end_offset),
    ):
        if offset is not None:
            line[picture.offsets.column(offset)] = sign
    return "".join(line)


def _time_rows(picture: Picture, axis: Axis) -> Iterator[str]:
    first, last = time_text(axis.start) or "", time_text(axis.end - 1) or ""
    yield _row("time", _ends(first, last, axis.columns))
    spans = [
        (one.first_timestamp, one.last_timestamp + 1) for one in picture.segments if one.last_timestamp >= 0
    ]
    yield _row("segments", _bars(axis, spans))
    if picture.read_logs:
        yield _row("records", _levels(picture.records_by_time, picture.records_by_time.max(initial=0.0)))


def _row(label: str, line: str) -> str:
    return f"{label:<{_LABEL}}{line}".rstrip()


def _ends(first: str, last: str, columns: int) -> str:
    return f"{first}{last:>{max(columns - len(first), len(last) + 1)}}"


def _bars(axis: Axis, spans: Sequence[tuple[int, int]]) -> str:
    """Spans side by side in shades that take turns; a dot if there is none."""
    line = ["·"] * axis.columns
    for number, (start, end) in enumerate(spans):
        if end <= start:
            continue
        for column in range(axis.column(start), axis.column(end - 1) + 1):
            line[column] = _SHADES[number % len(_SHADES)]
    return "".join(line)


def _levels(amounts: Floats, most: float) -> str:
    """Bars of eighths; anything above nothing shows."""
    if most <= 0:
        return ""
    steps = np.clip(np.ceil(amounts / most * (len(_LEVELS) - 1) - 1e-9), 0, len(_LEVELS) - 1).astype(int)
    return "".join(_LEVELS[step] for step in steps.tolist())
