"""`ingest`: anything that Spark reads -> topics, resumable and exactly once.

job       the entry: files, streams, DataFrames     files        files in batches, by a ledger
ledger    which batch took which files              from_tables  tables by version, by the same ledger
batches   how a batch is staged and published       parquet      Parquet files read by the tasks themselves
records   columns -> columns of records
"""
