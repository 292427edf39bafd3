"""Spark: logs as DataFrames and streams (`format("tidelog")`), and jobs over whole directories.

    source, batch, streaming   the data source              schemas    its columns
    options                    its options                  offsets    options -> ranges of offsets
    losses                     what failOnDataLoss decides  sessions   a session that finds this Python
    jobs                       work over splits             shipping   sending our objects to executors
    exporting                  topics -> Parquet            profiling  what is in topics, by hour
    verifying, reindexing      the local commands' checks and repairs, spread over tasks
    plans                      what a query would read
    sink, sink_options         writing: the data source     partitioner, staging    what a writing task does
    ingesting                  anything Spark reads -> topics       compacting, retaining      what goes
    values, value_schemas      values as columns            json_reading, json_types, schema_evolution
    pipeline                   jobs one after the other     pipeline_config, _inputs, _state, _checks
    java_patterns              what subscribePattern takes  session_zones  timestamps without a zone

`pyspark` is an extra; nothing here is imported before it is used. Importing this package has Spark's
processes run this interpreter (`sessions.choose_python`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.spark.sessions import choose_python

if TYPE_CHECKING:
    from tidelog.spark.compacting import compact
    from tidelog.spark.exporting import export
    from tidelog.spark.ingesting import Columns, FileSource, ingest
    from tidelog.spark.parquet import ParquetSettings
    from tidelog.spark.plans import plan
    from tidelog.spark.profiling import profile
    from tidelog.spark.reindexing import reindex
    from tidelog.spark.retaining import retention, trim
    from tidelog.spark.sessions import MissingDependencyError, quiet_session, register, session
    from tidelog.spark.verifying import verify

__all__ = [
    "Columns",
    "FileSource",
    "MissingDependencyError",
    "ParquetSettings",
    "compact",
    "export",
    "ingest",
    "plan",
    "profile",
    "quiet_session",
    "register",
    "reindex",
    "retention",
    "session",
    "trim",
    "verify",
]

_LAZY = {
    "Columns": "tidelog.spark.ingesting",
    "FileSource": "tidelog.spark.ingesting",
    "compact": "tidelog.spark.compacting",
    "ingest": "tidelog.spark.ingesting",
    "MissingDependencyError": "tidelog.spark.sessions",
    "ParquetSettings": "tidelog.spark.parquet",
    "export": "tidelog.spark.exporting",
    "plan": "tidelog.spark.plans",
    "profile": "tidelog.spark.profiling",
    "quiet_session": "tidelog.spark.sessions",
    "register": "tidelog.spark.sessions",
    "reindex": "tidelog.spark.reindexing",
    "retention": "tidelog.spark.retaining",
    "session": "tidelog.spark.sessions",
    "trim": "tidelog.spark.retaining",
    "verify": "tidelog.spark.verifying",
}


choose_python()


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tidelog.spark' has no attribute {name!r}")
    from importlib import import_module

    from tidelog.spark.sessions import require_pyspark

    require_pyspark()
    return getattr(import_module(_LAZY[name]), name)
