"""`df.write` and `writeStream`: rows staged by tasks, published by the commit.

writers, options   the data source's side    time_zones   timestamps without a zone
writing, stager    what a task and a commit do, without Spark's part in it
"""
