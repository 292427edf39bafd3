"""What `tidelog search` does: one filter over the tasks of a scan, on threads or by Spark, in plan order.

On threads, so many tasks as there are threads are in progress, and a few more that have been done and wait
for their turn; what waits are matches only.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.cli.actions.reading import DamageReport, Selection, read_tasks
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Column, Output
from tidelog.scanning.filters import RecordFilter
from tidelog.scanning.losses import LOSS_SCHEMA, Corrupt, Loss
from tidelog.scanning.tasks import ScanTask

if TYPE_CHECKING:
    from tidelog.spark.runtime.jobs import Bin

__all__ = ["COUNT_COLUMNS", "count_matches", "search_by_spark", "search_on_threads"]

_COUNTS = (
    Column("topic", "topic"),
    Column("partition", "partition", right=True),
    Column("matches", "matches", right=True),
)
COUNT_COLUMNS = ("topic", "partition", "key", "value")
"""The columns that counting takes."""
_REPORT = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("found", pa.binary()),
        pa.field("losses", pa.list_(pa.struct(list(LOSS_SCHEMA)))),
    ]
)


@dataclass(frozen=True, slots=True)
class _Search:
    """What is done with a task, here or on another machine. Picklable."""

    wanted: RecordFilter
    columns: tuple[str, ...]
    limit: int | None
    corrupt: Corrupt = Corrupt.FAIL

    def matches(self, tasks: Sequence[ScanTask], damage: DamageReport) -> list[pa.RecordBatch]:
        """The matches in tasks, no more than the limit."""
        found, left = [], self.limit
        for batch in read_tasks(tasks, self.columns, self.wanted, damage=damage):
            found.append(batch if left is None else batch.slice(0, left))
            if left is not None:
                left -= found[-1].num_rows
                if left <= 0:
                    break
        return found

    def __call__(self, number: int, share: Bin[ScanTask]) -> list[dict[str, Any]]:
        """The matches in a share as a row of a Spark job's report."""
        damage = DamageReport(self.corrupt)
        found = self.matches(share.items, damage)
        if not found and not damage.losses:
            return []
        sink = pa.BufferOutputStream()
        if found:
            with pa.ipc.new_stream(sink, found[0].schema) as stream:
                for batch in found:
                    stream.write_batch(batch)
        losses = [asdict(loss) for loss in damage.losses]
        return [{"number": number, "found": sink.getvalue().to_pybytes(), "losses": losses}]


def search_on_threads(
    selection: Selection,
    columns: Sequence[str],
    limit: int | None,
    threads: int,
    advance: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """Matches in the order of partitions and offsets."""
    search = _Search(selection.wanted, tuple(columns), limit, selection.damage.corrupt)
    waiting: deque[tuple[ScanTask, DamageReport, Future[list[pa.RecordBatch]]]] = deque()
    tasks = iter(selection.tasks())
    pool = ThreadPoolExecutor(threads, thread_name_prefix="tidelog-search")
    try:
        while True:
            for task in tasks:
                own = DamageReport(search.corrupt)
                waiting.append((task, own, pool.submit(search.matches, [task], own)))
                if len(waiting) >= 2 * threads:
                    break
            if not waiting:
                return
            task, own, future = waiting.popleft()
            matches = future.result()
            if not selection.damage.has_stopped(task):
                selection.damage.take(own)
                yield from matches
            advance(task.size)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def search_by_spark(
    selection: Selection,
    columns: Sequence[str],
    limit: int | None,
    master: str,
    report: Callable[[int, int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Matches in the same order, found by the workers of a Spark cluster that can reach the files."""
    from tidelog.spark import quiet_session
    from tidelog.spark.runtime.jobs import pack, run_job, share_bytes

    if selection.damage.corrupt is Corrupt.STOP:
        raise UsageError("--corrupt stop reads partitions in order: with --spark, choose fail or skip")
    search = _Search(selection.wanted, tuple(columns), limit, selection.damage.corrupt)
    tasks = selection.tasks()
    with quiet_session(master) as session:
        shares = pack(tasks, share_bytes(session, sum(task.size for task in tasks)))
        rows = run_job(session, search, shares, _REPORT, report)
    for row in sorted(rows, key=lambda row: int(row["number"])):
        for loss in row["losses"]:
            selection.damage.add(Loss(**loss))
        if not row["found"]:
            continue
        with pa.ipc.open_stream(row["found"]) as stream:
            yield from stream


def count_matches(batches: Iterable[pa.RecordBatch], out: Output) -> int:
    """Print how many there are, by partition; the exit code."""
    counts: Counter[tuple[str, int]] = Counter()
    for batch in batches:  # each is of one partition
        place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        counts[place] += batch.num_rows
    out.table(_COUNTS, ((*place, count) for place, count in sorted(counts.items())))
    out.say(f"{counts.total()} matches")
    return 0
