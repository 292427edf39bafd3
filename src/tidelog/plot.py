"""The charts of the report as objects, for notebooks and programs.

    from tidelog import plot
    plot.topics("data")                        # a notebook shows it
    plot.segments(store["orders"][0]).save("segments.html")
    plot.activity(store["orders"]).figures     # what it is drawn from, a dict for each row

A chart is one figure of the page of `tidelog report`, drawn by the same script. It is of a root, several
roots, a partition's directory, or an open `Store`, `Topic` or `Partition`. Batch headers and indexes are read
when the chart is made; it does not change afterwards.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidelog.errors import InvalidInputError
from tidelog.manager.store.numbered import NumberedPartitions
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.readonly import ReadOnlyPartition, ReadOnlyStore
from tidelog.manager.store.store import Store
from tidelog.report.facts import gather
from tidelog.report.page import page
from tidelog.report.tables import rows_of
from tidelog.storage import LOCAL, atomic_write

__all__ = [
    "Chart",
    "activity",
    "batch_sizes",
    "codecs",
    "deletions",
    "index_density",
    "lag",
    "partitions",
    "record_sizes",
    "segments",
    "timeline",
    "topics",
]

Source = (
    str
    | Path
    | Iterable[str | Path]
    | Store
    | ReadOnlyStore
    | NumberedPartitions[Partition]
    | NumberedPartitions[ReadOnlyPartition]
    | Partition
    | ReadOnlyPartition
)
"""What a chart is of."""


@dataclass(frozen=True)
class Chart:
    """One figure of the report, with the facts that it is drawn from."""

    name: str
    """As the report has it."""
    facts: dict[str, Any] = field(repr=False)
    """The facts of the report, see docs/report.md."""
    figures: list[dict[str, Any]] = field(repr=False)
    """The rows that it is drawn from."""
    view: str = "#/"
    """Where in the report it is."""
    height: int = 420

    def html(self) -> str:
        """A page with this chart alone; it needs nothing else."""
        return page(self.facts, figure=self.name, view=self.view)

    def save(self, path: str | Path) -> None:
        """Write `html` to a file, replacing what is there."""
        atomic_write(LOCAL, Path(path).absolute(), self.html().encode())

    def _repr_html_(self) -> str:
        """The page in a frame of its own, which may run its script and nothing else."""
        inside, title = html.escape(self.html(), quote=True), html.escape(self.name, quote=True)
        style = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" srcdoc="{inside}"></iframe>'


def topics(source: Source) -> Chart:
    """Bytes by topic and partition, as a treemap."""
    facts, _ = _look(source)
    return Chart("Bytes by topic", facts, rows_of(facts["topics"]))


def activity(source: Source) -> Chart:
    """Bytes by hour: by topic, or by partition if `source` is a topic or partition."""
    facts, view = _look(source)
    rows = [_placed(facts, row) for row in rows_of(facts["hours"])]
    return Chart("Activity by topic" if view == "#/" else "Activity by partition", facts, rows, view)


def codecs(source: Source) -> Chart:
    """Bytes by codec."""
    return _of_batches("Codecs", source, "codecs")


def batch_sizes(source: Source) -> Chart:
    """How many batches are how large."""
    return _sizes("Batch sizes", source, "batch_sizes")


def record_sizes(source: Source) -> Chart:
    """How many records are how large on disk, each the average of its batch."""
    return _sizes("Record sizes", source, "record_sizes")


def deletions(source: Source) -> Chart:
    """What retention will delete, by day."""
    return _of_batches("Deletions by day", source, "going")


def lag(source: Source) -> Chart:
    """The lag of consumer groups; `source` is a root or store with `__consumer_offsets`."""
    facts, _ = _look(source)
    return Chart("Lag by group", facts, rows_of(facts["groups"]))


def partitions(source: Source, topic: str | None = None) -> Chart:
    """Records by partition of one topic, which `topic` names if `source` has several."""
    facts, _ = _look(source, topic=topic)
    return Chart("Records by partition", facts, rows_of(facts["partitions"]), _topic_view(facts))


def timeline(source: Source, topic: str | None = None) -> Chart:
    """Segments of one topic on a time axis, a lane for each partition."""
    facts, _ = _look(source, topic=topic)
    rows = [_placed(facts, row) for row in rows_of(facts["segments"])]
    lanes = min(len(facts["partitions"]["path"]), 27)
    return Chart("Segments by time", facts, rows, _topic_view(facts), 200 + 26 * lanes)


def segments(source: Source) -> Chart:
    """One partition on its offset axis: segments, gaps, index entries, epochs, transactions, damage."""
    return _of_partition("Segments by offset", source)


def index_density(source: Source) -> Chart:
    """Bytes of log for each index entry, by segment of one partition."""
    return _of_partition("Index density", source)


def _of_partition(name: str, source: Source) -> Chart:
    facts, _ = _look(source)
    if len(facts["partitions"]["path"]) != 1:
        raise InvalidInputError(f"{name} is drawn of one partition: name its directory, or give a Partition")
    return Chart(name, facts, rows_of(facts["segments"]), _partition_view(facts))


def _of_batches(name: str, source: Source, table: str) -> Chart:
    facts, view = _look(source)
    return Chart(name, facts, [_placed(facts, row) for row in rows_of(facts[table])], view)


def _sizes(name: str, source: Source, column: str) -> Chart:
    facts, view = _look(source)
    counted = facts["partitions"].get(column, [])
    sums = [sum(column) for column in zip(*_even(counted), strict=True)]
    rows = [
        {"from_bytes": 2**n if n else 0, "to_bytes": 2 ** (n + 1) - 1, "count": each}
        for n, each in enumerate(sums)
    ]
    return Chart(name, facts, rows, view)


def _even(lists: list[list[int]]) -> list[list[int]]:
    """Lists of the same length, with zeros at their ends."""
    most = max(map(len, lists), default=0)
    return [[*each, *([0] * (most - len(each)))] for each in lists]


def _look(source: Source, *, topic: str | None = None) -> tuple[dict[str, Any], str]:
    """The facts of a source, and the part of the report that tells of it."""
    match source:
        case Store():
            facts = gather([root.path for root in source.roots])
        case ReadOnlyStore():
            facts = gather(source.roots)
        case NumberedPartitions():
            facts = gather([one.path for one in source])
        case Partition() | ReadOnlyPartition():
            facts = gather(source.path)
        case _:
            facts = gather(source)
    if topic is not None:
        paths = [
            path
            for path, name in zip(facts["partitions"]["path"], facts["partitions"]["topic"], strict=True)
            if name == topic
        ]
        if not paths:
            raise InvalidInputError(f"there is no topic {topic} here")
        facts = gather(paths)
    if any(facts["roots"]["is_whole"]) or len(set(facts["partitions"]["topic"])) != 1:
        return facts, "#/"
    is_one = len(facts["partitions"]["path"]) == 1
    return facts, _partition_view(facts) if is_one else _topic_view(facts)


def _topic_view(facts: dict[str, Any]) -> str:
    names = set(facts["partitions"]["topic"])
    if len(names) != 1:
        raise InvalidInputError("it is drawn of one topic: name it with topic=")
    return f"#/topic/{_encoded(names.pop())}"


def _partition_view(facts: dict[str, Any]) -> str:
    return f"#/partition/{_encoded(facts['partitions']['path'][0].rpartition('/')[2])}"


def _encoded(name: str) -> str:
    return quote(name, safe="!'()*-._~")


def _placed(facts: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """A row with the topic and partition that its number stands for."""
    told = {name: facts["partitions"][name][row["at"]] for name in ("topic", "partition")}
    return told | {name: value for name, value in row.items() if name != "at"}
