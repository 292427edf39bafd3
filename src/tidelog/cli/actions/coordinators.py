"""What `tidelog groups` and `tidelog transactions` print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace

from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import time_text
from tidelog.manager.coordinators.groups import GroupRow
from tidelog.manager.coordinators.tables import groups, transactions
from tidelog.manager.coordinators.transactions import TransactionRow

__all__ = ["show_groups", "show_transactions"]

_GROUPS = (
    Column("group", "group"),
    Column("kind", "kind"),
    Column("state", "state"),
    Column("topic", "topic"),
    Column("partition", "partition", right=True),
    Column("committed_offset", "committed", right=True),
    Column("log_end_offset", "log end", right=True),
    Column("lag", "lag", right=True),
    Column("member_id", "member", folds=True),
    Column("instance_id", "instance", optional=True),
    Column("client_id", "client", optional=True),
    Column("host", "host", optional=True),
    Column("committed_ms", "committed at", right=True, optional=True),
    Column("metadata", "metadata", optional=True),
)
_TRANSACTIONS = (
    Column("state", "state"),
    Column("transactional_id", "transactional id", folds=True),
    Column("producer_id", "producer", right=True),
    Column("producer_epoch", "epoch", right=True),
    Column("topic", "topic"),
    Column("partition", "partition", right=True),
    Column("first_offset", "first offset", right=True),
    Column("last_offset", "last offset", right=True),
    Column("updated_ms", "updated at", right=True, optional=True),
)


def show_groups(paths: Sequence[str], group: str | None, output: Output) -> None:
    """A row for each group and partition."""
    rows = groups(list(paths), group)
    if group is not None and not rows:
        raise UsageError(f"no group {group} in __consumer_offsets under {', '.join(paths)}")
    output.table(*_shown(_GROUPS, rows, output))


def show_transactions(paths: Sequence[str], output: Output, *, aborted: bool, producer: int | None) -> None:
    """A row for each transaction."""
    rows = transactions(list(paths), aborted=aborted)
    wanted = (row for row in rows if producer is None or row.producer_id == producer)
    output.table(*_shown(_TRANSACTIONS, wanted, output))


def _shown(
    columns: Sequence[Column], rows: Iterable[GroupRow | TransactionRow], output: Output
) -> tuple[Sequence[Column], Iterator[Sequence[Cell]]]:
    """The columns and the fields of rows. Times are dates, as in `ls` and `describe`, except in JSON."""
    if output.json:
        return columns, (astuple(row) for row in rows)
    times = {number for number, one in enumerate(columns) if one.name.endswith("_ms")}
    named = [replace(one, name=one.name.replace("_ms", "_at")) for one in columns]
    return named, (
        [
            time_text(cell) if number in times and cell is not None else cell
            for number, cell in enumerate(astuple(row))
        ]
        for row in rows
    )
