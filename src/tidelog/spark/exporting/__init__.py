"""`export`: topics -> Parquet files or a table, incrementally and exactly once.

job           planning and committing a run; `following` repeats it
tasks         what a task does: read a split, decode values, write files; `parquet` writes them
directory     the target that is a directory, and its commits; `storage`: where its files are
table_target  the target that is a Delta or Iceberg table (`tables`)
by_key        a table with the last record of each key
merging       small files of a table into larger ones
value_schemas the schema of values; `schema_evolution` widens it
"""
