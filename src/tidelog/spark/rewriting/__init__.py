"""Rewriting on Spark: a task per segment, swapped in by the driver under the root's lock."""
