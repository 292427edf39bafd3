"""A write from Spark without Spark's part in it: what its tasks do, and what its commit does.

The sink (`writers`) and jobs that read files by themselves (`ingesting.parquet`) write the same way: tasks
stage rows under a name of their own, the commit publishes what the tasks that count have staged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark import TaskContext

from tidelog.config import LogConfig
from tidelog.manager.publishing import mark
from tidelog.manager.publishing.committing import Published, Write, publish, sweep_staging
from tidelog.manager.publishing.existing import TopicFacts, existing_topics
from tidelog.manager.publishing.partitioner import TopicPlan
from tidelog.manager.publishing.staging import LARGE, ONLY_FULL, TaskStaging
from tidelog.manager.publishing.waiting import await_free, open_waiting
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.stager import Stager
from tidelog.spark.sink.time_zones import in_zone, session_zone
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Writing", "begin_staging", "discard_staging"]


def begin_staging(directory: str, owner: str = "") -> None:
    """Make the directory of a write, or of a batch, before anything is staged.

    `owner` is the driver's process: without it nothing will be published.
    """
    mark.begin_staging(LOCAL, directory, owner)


def discard_staging(directory: str) -> None:
    """Remove the directory of a write that is over. What cannot be removed, as an attempt that nobody waits
    for continues staging, is left to the next sweep.
    """
    with suppress(OSError):
        mark.discard_staging(LOCAL, directory)


class Writing:
    """Where rows go, and how; travels to the tasks."""

    def __init__(self, options: SinkOptions, *, overwrite: bool = False) -> None:
        """Waits for the roots to be free: what topics there are is looked up."""
        await_free(options.roots, wait_ms=options.lock_timeout_ms, recover=options.recover)
        self.options = options
        self._overwrite = overwrite
        defaults = options.broker.topic_defaults
        self._plan = TopicPlan(
            existing_topics(options.roots, defaults),
            TopicFacts(
                options.partitions or options.broker.num_partitions,
                LogConfig.from_properties(options.config, defaults),
            ),
        )
        self._topics: dict[str, int] = {}
        if options.topic is not None:
            self._topics[options.topic] = self._plan.facts(options.topic).partitions

    def stage(
        self, batches: Iterator[pa.RecordBatch], directory: str, task: int, *, is_stream: bool = False
    ) -> str:
        """In a task: stage its rows; the name of its manifest, which no other attempt has.

        The directory must be there (`begin_staging`): it is gone when the write is over.
        """
        context = TaskContext.get()
        name = f"task-{task:06}-{0 if context is None else context.taskAttemptId()}"
        staging = TaskStaging(directory, name, large=ONLY_FULL if is_stream else LARGE)
        options = self.options
        Stager(staging, self._plan, options.codec, topic=options.topic, task=task).run(
            in_zone(batches, session_zone())
        )
        return name

    def publish(self, manifests: Sequence[str], directory: str, query: str, batch: int) -> Published:
        """In the commit: publish what tasks have staged, in this order."""
        options = self.options
        write = Write(
            directory, tuple(manifests), query, batch, options.config, self._overwrite, self._topics
        )
        with open_waiting(
            options.roots, wait_ms=options.lock_timeout_ms, config=options.broker, recover=options.recover
        ) as store:
            sweep_staging(options.staging, time.time_ns() // 1_000_000, root=options.roots[0])
            return publish(store, write)
