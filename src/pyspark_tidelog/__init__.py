"""Where Spark looks for data sources: a top-level module called `pyspark_...` that has a `DefaultSource`."""

from tidelog.spark.source.data_source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
