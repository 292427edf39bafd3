"""One output interface for all commands: they say what there is, and it looks right where it goes.

    --json          one JSON object per line, whatever standard output is
    in a pipe       plain lines, one thing each, no colour
    on a terminal   tables and colour

Progress (bytes, rate, time left) goes to standard error when that is a terminal, and only for work that takes
long enough to wonder about. Sentences about errors go to standard error, see `cli.app`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from typing_extensions import Buffer

__all__ = [
    "Cell",
    "Column",
    "JsonOutput",
    "Output",
    "PlainOutput",
    "Progress",
    "TerminalOutput",
    "make_output",
]

Cell = str | int | float | bool | None
"""What a table holds; None is nothing."""

_PAGE_ROWS = 200
_GAP = 2
_FOLDED = 16  # characters that a folded column has at least
_PATIENCE_S = 0.5  # how long work may take before it shows a bar


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `name` for machines (snake_case), `title` for people, shown in capitals.

    `right` aligns cells on the right. Where a terminal is too narrow for all columns, `folds` lets the cells
    of a column take several lines, and an `optional` column is left out.
    """

    name: str
    title: str
    right: bool = False
    optional: bool = False
    folds: bool = False


class Progress(Protocol):
    """Work in progress."""

    def advance(self, size_bytes: int) -> None:
        """So many bytes more are done."""


class Output(Protocol):
    """Where a command's answers go."""

    @property
    def json(self) -> bool:
        """Are machines reading?"""

    @property
    def terminal(self) -> bool:
        """Does a person see each line as it comes?"""

    def say(self, text: str) -> None:
        """A line for people; machines do not get it."""

    def warn(self, text: str) -> None:
        """A line on standard error, after all that was said before it; for people and for logs."""

    def write(self, lines: Buffer) -> None:
        """Whole lines, ready in the right form, as UTF-8."""

    def flush(self) -> None:
        """Let out what waits to be written: somebody is waiting for it."""

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """A table; rows are shown as they arrive, also those before an error."""

    def progress(self, total_bytes: int, what: str) -> AbstractContextManager[Progress]:
        """Show how far work on so many bytes has come, for as long as the `with` lasts."""


def make_output(*, json: bool) -> Output:
    """The output for this process's standard streams."""
    if json:
        return JsonOutput()
    return TerminalOutput() if sys.stdout.isatty() else PlainOutput()


class _Bar:
    """A progress bar on standard error that appears when the work has taken a while."""

    def __init__(self, total_bytes: int, what: str) -> None:
        self._total = total_bytes
        self._what = what
        self._done = 0
        self._begin = time.monotonic()
        self._shown: RichProgress | None = None
        self._possible = sys.stderr.isatty()

    def advance(self, size_bytes: int) -> None:
        """So many bytes more are done."""
        self._done += size_bytes
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=self._done)
        elif self._possible and time.monotonic() - self._begin > _PATIENCE_S:
            self._show()

    def _show(self) -> None:
        from rich import progress
        from rich.console import Console

        self._shown = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._shown.add_task(self._what, total=self._total, completed=self._done)
        self._shown.start()

    def close(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown.stop()


class _Streams:
    """What all outputs have in common."""

    json = False
    terminal = False

    def write(self, lines: Buffer) -> None:
        """Whole lines, ready in the right form, as UTF-8."""
        sys.stdout.buffer.write(lines)

    def say(self, text: str) -> None:
        """A line for people."""
        self.write(_utf8(f"{text}\n"))

    def warn(self, text: str) -> None:
        """A line on standard error, after what was said before it."""
        self.flush()
        print(_utf8(text).decode(), file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Let out what waits to be written."""
        sys.stdout.flush()

    @contextmanager
    def progress(self, total_bytes: int, what: str) -> Iterator[Progress]:
        """Show how far work on so many bytes has come."""
        bar = _Bar(total_bytes, what)
        try:
            yield bar
        finally:
            bar.close()


class JsonOutput(_Streams):
    """JSON lines. `first` has fields that every line begins with."""

    json = True

    def __init__(self, first: Mapping[str, Cell] | None = None) -> None:
        fields = json.dumps(first or {}, ensure_ascii=False, separators=(",", ":"))
        self._opening = _utf8(fields[:-1] + ",") if first else b""

    def write(self, lines: Buffer) -> None:
        """Whole lines, each an object; a line feed inside of one is escaped."""
        if self._opening:
            lines = self._opening + bytes(lines)[1:].replace(b"\n{", b"\n" + self._opening)
        super().write(lines)

    def say(self, text: str) -> None:
        """Nothing: machines do not read sentences."""

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """One object a row."""
        names = [column.name for column in columns]
        for row in rows:
            line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
            self.write(_utf8(f"{line}\n"))


class PlainOutput(_Streams):
    """Lines for grep, cut and awk."""

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """The names, then a line a row, separated by tabs."""
        self.say("\t".join(column.name for column in columns))
        for row in rows:
            self.say("\t".join(_text(cell).replace("\t", " ") for cell in row))


class TerminalOutput(_Streams):
    """A person's terminal."""

    terminal = True

    def __init__(self) -> None:
        from rich.console import Console

        self._console: Console = Console(highlight=False)

    def say(self, text: str) -> None:
        """A line that stands out."""
        self._console.print(_utf8(text).decode(), style="bold", markup=False, soft_wrap=True)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """A table, page by page."""
        table = _TerminalTable(self._console, columns)
        page: list[list[str]] = []
        try:
            for row in rows:
                page.append([_utf8(_text(cell)).decode() for cell in row])
                if len(page) == _PAGE_ROWS:
                    table.show(page)
                    page = []
        finally:
            table.show(page)


class _TerminalTable:
    """A table that is printed in pages; the heading stands above the first, which sets the widths.

    Where the terminal is too narrow, cells that may fold do, then optional columns are left out, the last
    ones first, and a line says so.
    """

    def __init__(self, console: Console, columns: Sequence[Column]) -> None:
        self._console = console
        self._columns = columns
        self._shown: list[int] = []
        self._widths: list[int] = []

    def show(self, page: Sequence[Sequence[str]]) -> None:
        """Print a page."""
        from rich.table import Table
        from rich.text import Text

        if not page:
            return
        heading = not self._shown
        if heading:
            self._fit(page)
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=heading)
        for i in self._shown:
            column = self._columns[i]
            table.add_column(
                column.title.upper(),
                justify="right" if column.right else "left",
                min_width=_FOLDED if column.folds else self._widths[i],
                overflow="fold",
            )
        for cells in page:
            table.add_row(*(Text(cells[i]) for i in self._shown))
        self._console.print(table)

    def _fit(self, page: Sequence[Sequence[str]]) -> None:
        """Choose the columns to show."""
        titles = [column.title for column in self._columns]
        self._widths = [max(map(len, cells)) for cells in zip(titles, *page, strict=True)]
        self._shown = list(range(len(self._columns)))
        hidden: list[str] = []
        least = [
            min(width, _FOLDED) if column.folds else width
            for width, column in zip(self._widths, self._columns, strict=True)
        ]
        while sum(least[i] + _GAP for i in self._shown) - _GAP > self._console.width:
            last = next((i for i in reversed(self._shown) if self._columns[i].optional), None)
            if last is None:
                break
            self._shown.remove(last)
            hidden.insert(0, titles[last].upper())
        if hidden:
            self._console.print(f"(a wider terminal would also show: {', '.join(hidden)})", style="dim")


def _text(cell: Cell) -> str:
    """A cell for people."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return str(cell)


def _utf8(text: str) -> bytes:
    """As UTF-8; file names that are none come out escaped."""
    return text.encode(errors="backslashreplace")
