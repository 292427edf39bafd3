"""`compact`: the compacted topics of a root, by many tasks.

job              planning and swapping in, on the driver
whole            a partition a task, many small ones in one: the local cleaner on a copy
passes           a partition whose two passes are done by many tasks: the driver's part
tasks            what those tasks do
staged_segments  files on their way: maps of keys, and segments that take the place of others
"""
