"""Partitions, topics and stores as notebooks show them: tables, drawings of segments, bars of sizes, in HTML.

Only listings and the ends of files are read, as by `tidelog ls`. There is no script in it, names are escaped,
and colours are those of the page around it. What cannot be read is a sentence: showing an object never fails.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from tidelog.errors import TidelogError
from tidelog.scanning.overview import Overview, overview
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.roots import RootView
from tidelog.types import TopicPartition

__all__ = ["Drawable", "draw_partition", "draw_partitions", "draw_topics"]

_MOST_ROWS = 50
_MOST_SEGMENTS = 300
_WIDTH, _HEIGHT = 640, 48
_BAR_WIDTH = 240
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Drawable(Protocol):
    """A partition of a store."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition it is."""

    @property
    def path(self) -> str:
        """Its directory."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""

    @property
    def log_end_offset(self) -> int:
        """The offset after the last."""


def draw_partition(one: Drawable) -> str:
    """A partition: its figures, and its segments on an axis of offsets, as high as they are large."""
    name = str(one.topic_partition)
    try:
        found = _files(one)
        start, end = one.log_start_offset, one.log_end_offset
        told = look_steadily(found, overview)
        bars = _segments(found, end)
    except (TidelogError, OSError) as error:
        return f"<p><b>{_text(name)}</b>: {_text(str(error))}</p>"
    rows = [
        ("offsets", f"{start} to {end}"),
        ("size", f"{told.size:,} bytes in {told.segments} segments"),
        ("times", _times(told)),
        ("codecs", " ".join(told.codecs) or "–"),
        ("health", "; ".join((*told.damage, *told.notes)) or "ok"),
        ("path", one.path),
    ]
    cells = "".join(f"<tr><th>{title}</th><td>{_text(value)}</td></tr>" for title, value in rows)
    return f"<p><b>{_text(name)}</b></p>{_svg(bars)}<table>{cells}</table>"


def draw_partitions(title: str, partitions: Iterable[Drawable]) -> str:
    """The partitions of a topic, a row for each, with a bar as long as it is large."""
    rows = [([str(one.topic_partition.partition)], _figures([one])) for one in partitions]
    return _table(title, ("partition",), rows)


def draw_topics(title: str, topics: Iterable[tuple[str, Sequence[Drawable]]]) -> str:
    """The topics of a store, a row for each, with a bar as long as it is large."""
    rows = [([topic, str(len(found))], _figures(found)) for topic, found in topics]
    return _table(title, ("topic", "partitions"), rows)


def _files(one: Drawable) -> Partition:
    return Partition(one.path, one.topic_partition, RootView(one.path.rpartition("/")[0]))


class _Figures(NamedTuple):
    offsets: int
    size: int
    wrong: str
    """What cannot be read."""


def _figures(partitions: Sequence[Drawable]) -> _Figures:
    offsets, size, wrong = 0, 0, ""
    for one in partitions:
        try:
            offsets += one.log_end_offset - one.log_start_offset
            size += sum(segment.size for segment in _files(one).segments)
        except (TidelogError, OSError) as error:
            wrong = str(error)
    return _Figures(offsets, size, wrong)


def _table(title: str, heads: Sequence[str], rows: Sequence[tuple[Sequence[str], _Figures]]) -> str:
    head = "".join(f"<th>{one}</th>" for one in (*heads, "offsets", "size", "", ""))
    largest = max((figures.size for _, figures in rows), default=0)
    body = "".join(_row(names, figures, largest) for names, figures in rows[:_MOST_ROWS])
    more = f"<p>and {len(rows) - _MOST_ROWS} more</p>" if len(rows) > _MOST_ROWS else ""
    return f"<p><b>{_text(title)}</b></p><table><tr>{head}</tr>{body}</table>{more}"


def _row(names: Sequence[str], figures: _Figures, largest: int) -> str:
    cells = [_text(one) for one in (*names, f"{figures.offsets:,}", f"{figures.size:,}")]
    cells += [_bar(figures.size, largest), _text(figures.wrong)]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _bar(size: int, largest: int) -> str:
    """A bar as long as a size, compared with the largest."""
    width = size / max(largest, 1) * _BAR_WIDTH
    return (
        f'<svg role="img" aria-label="{size:,} bytes" width="{_BAR_WIDTH}" height="12">'
        f'<rect x="0" y="0" width="{width:.1f}" height="12" fill="#2f6fb7"></rect></svg>'
    )


def _segments(partition: Partition, end: int) -> list[tuple[int, int, int]]:
    """Segments as (base offset, end, bytes); many are put together."""
    segments = partition.segments
    step = -(-len(segments) // _MOST_SEGMENTS) or 1
    groups = [segments[i : i + step] for i in range(0, len(segments), step)]
    bases = [group[0].base_offset for group in groups]
    sizes = [sum(one.size for one in group) for group in groups]
    return list(zip(bases, [*bases[1:], max([end, *bases[-1:]])], sizes, strict=True))


def _svg(bars: Sequence[tuple[int, int, int]]) -> str:
    if not bars:
        return ""
    first, last = bars[0][0], max(bars[-1][1], bars[0][0] + 1)
    largest = max(size for _, _, size in bars) or 1
    drawn = []
    for start, end, size in bars:
        x = (start - first) / (last - first) * _WIDTH
        width = max((end - start) / (last - first) * _WIDTH - 1, 1)
        height = max(size / largest * _HEIGHT, 1)
        drawn.append(
            f'<rect x="{x:.1f}" y="{_HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="#2f6fb7"><title>offsets {start} to {end}: {size:,} bytes</title></rect>'
        )
    label = f"{len(bars)} bars: segments by offset, from {first} to {last}, as high as they are large"
    return (
        f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="max-width:100%">{"".join(drawn)}</svg>'
    )


def _times(told: Overview) -> str:
    if told.first_timestamp < 0 and told.last_timestamp < 0:
        return "–"
    return f"{_moment(told.first_timestamp)} to {_moment(told.last_timestamp)}"


def _moment(timestamp: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp)).isoformat(sep=" ", timespec="seconds")
    except OverflowError:
        return str(timestamp)


def _text(value: str) -> str:
    """Text for HTML; what cannot be seen, or turns text around, is written out."""
    plain = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in value)
    return html.escape(plain)
