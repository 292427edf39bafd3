"""What a benchmark says: one row per comparison, as a table for people and as JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, JustifyMethod
from rich.table import Table

_TABLE_WIDTH = 140

__all__ = ["Row", "print_json", "print_table"]


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `ratio` says how many times better than the peer we are, whatever the unit."""

    bench: str
    unit: str
    tidelog: float
    peer: str
    peer_value: float
    bar: float | None = None
    """The ratio that is wanted; None where the comparison is for information."""

    lower_is_better: bool = False
    """True for times and memory."""

    limit: float | None = None
    """A ratio that nothing of our kind can exceed, if one was measured."""

    spread: float | None = None
    """How far the middle half of the repetitions' ratios reaches, as a share of their median."""

    @classmethod
    def against_a_bar(cls, bench: str, unit: str, value: float, bar: float, *, lower_is_better: bool) -> Row:
        """A value that is wanted whatever the peers do."""
        return cls(bench, unit, value, "what is wanted", bar, 1.0, lower_is_better)

    @property
    def ratio(self) -> float:
        """Better-than-peer factor: above 1 we win."""
        ours, theirs = (
            (self.peer_value, self.tidelog) if self.lower_is_better else (self.tidelog, self.peer_value)
        )
        return ours / theirs if theirs else float("inf")

    @property
    def verdict(self) -> str:
        """PASS or MISS against the bar, or LIMIT if it was measured to be out of reach; empty without one."""
        if self.bar is None:
            return ""
        if self.ratio >= self.bar:
            return "PASS"
        return "MISS" if self.limit is None or self.limit >= self.bar else "LIMIT"

    def to_json(self) -> str:
        """The row as one line."""
        return json.dumps(
            {
                "bench": self.bench,
                "unit": self.unit,
                "tidelog": round(self.tidelog, 4),
                "peer": self.peer,
                "peer_value": round(self.peer_value, 4),
                "ratio": round(self.ratio, 3),
                "bar": self.bar,
                "limit": None if self.limit is None else round(self.limit, 3),
                "verdict": self.verdict,
                "spread": None if self.spread is None else round(self.spread, 3),
            }
        )


def print_table(rows: Sequence[Row]) -> None:
    """A readable table on standard output."""
    table = Table(title="tidelog and its peers, one thread each")
    columns: tuple[tuple[str, JustifyMethod], ...] = (
        ("bench", "left"),
        ("unit", "left"),
        ("tidelog", "right"),
        ("peer", "left"),
        ("peer's", "right"),
        ("ratio", "right"),
        ("spread", "right"),
        ("bar", "right"),
        ("", "left"),
    )
    for heading, justify in columns:
        table.add_column(heading, justify=justify, no_wrap=True)
    for row in rows:
        colour = {"PASS": "green", "MISS": "red", "LIMIT": "yellow", "": "default"}[row.verdict]
        table.add_row(
            row.bench,
            row.unit,
            f"{row.tidelog:,.2f}",
            row.peer,
            f"{row.peer_value:,.2f}",
            f"{row.ratio:.2f}x",
            "" if row.spread is None else f"{row.spread:.0%}",
            "" if row.bar is None else f"{row.bar:g}x",
            f"[{colour}]{row.verdict}[/]",
        )
    console = Console()
    if console.width < _TABLE_WIDTH and not console.is_terminal:
        console = Console(width=_TABLE_WIDTH)
    console.print(table)


def print_json(rows: Sequence[Row]) -> None:
    """One JSON line per row on standard output."""
    for row in rows:
        print(row.to_json())
