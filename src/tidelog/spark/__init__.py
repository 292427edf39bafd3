"""Spark: logs as DataFrames and streams (`format("tidelog")`), and jobs over whole directories.

    source       reading: the data source, its options, ranges and splits
    sink         writing: what tasks stage and commits publish
    runtime      sessions, and jobs over splits
    exporting    topics -> Parquet                       ingesting    anything that Spark reads -> topics
    compaction   compacted topics                        upkeep       verify, reindex, retention, trim
    coordinators groups and transactions from the disk   rewriting    erase, redact, recompress
    profiling    what is in topics, by hour              pipeline     jobs one after the other

`pyspark` is an extra; nothing here is imported before it is used. Importing this package makes Spark's
processes run this interpreter (`runtime.sessions`), and its idle workers end quietly (`runtime.workers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.spark.runtime.sessions import choose_python
from tidelog.spark.runtime.workers import end_quietly_when_idle

if TYPE_CHECKING:
    from tidelog.spark.compaction.job import compact
    from tidelog.spark.coordinators.frames import groups, transactions
    from tidelog.spark.exporting.job import export
    from tidelog.spark.exporting.merging import merge_files
    from tidelog.spark.exporting.parquet import ParquetSettings
    from tidelog.spark.ingesting.job import Columns, FileSource, ingest
    from tidelog.spark.profiling.job import profile
    from tidelog.spark.rewriting.job import rewrite
    from tidelog.spark.runtime.sessions import MissingDependencyError, quiet_session, register, session
    from tidelog.spark.source.plans import plan
    from tidelog.spark.upkeep.reindexing import reindex
    from tidelog.spark.upkeep.retention import retention, trim
    from tidelog.spark.upkeep.verification import verify

__all__ = [
    "Columns",
    "FileSource",
    "MissingDependencyError",
    "ParquetSettings",
    "compact",
    "export",
    "groups",
    "ingest",
    "merge_files",
    "plan",
    "profile",
    "quiet_session",
    "register",
    "reindex",
    "retention",
    "rewrite",
    "session",
    "transactions",
    "trim",
    "verify",
]

_LAZY = {
    "Columns": "tidelog.spark.ingesting.job",
    "FileSource": "tidelog.spark.ingesting.job",
    "compact": "tidelog.spark.compaction.job",
    "ingest": "tidelog.spark.ingesting.job",
    "MissingDependencyError": "tidelog.spark.runtime.sessions",
    "ParquetSettings": "tidelog.spark.exporting.parquet",
    "export": "tidelog.spark.exporting.job",
    "groups": "tidelog.spark.coordinators.frames",
    "transactions": "tidelog.spark.coordinators.frames",
    "merge_files": "tidelog.spark.exporting.merging",
    "plan": "tidelog.spark.source.plans",
    "profile": "tidelog.spark.profiling.job",
    "quiet_session": "tidelog.spark.runtime.sessions",
    "register": "tidelog.spark.runtime.sessions",
    "reindex": "tidelog.spark.upkeep.reindexing",
    "retention": "tidelog.spark.upkeep.retention",
    "rewrite": "tidelog.spark.rewriting.job",
    "session": "tidelog.spark.runtime.sessions",
    "trim": "tidelog.spark.upkeep.retention",
    "verify": "tidelog.spark.upkeep.verification",
}


choose_python()
end_quietly_when_idle()


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tidelog.spark' has no attribute {name!r}")
    from importlib import import_module

    from tidelog.spark.runtime.sessions import require_pyspark

    require_pyspark()
    return getattr(import_module(_LAZY[name]), name)
