"""A store: its roots, topics and partitions, from opening to closing.

opener         `tidelog.open`: its arguments; `readonly`: with `mode="r"`
opening        from root directories to topics; `directories`: the verdict on each; `loading`: the logs
store          the coordinator of many logs over many roots; `environment`: what it works with
topics         topics and their configuration; `topic_mapping`, `numbered`: as mappings and sequences
partition      one partition: the log it has now
creation       new partitions, all or none; `placement`: which root they go to
moves          a log to another root while it is in use
checkpointed   the checkpoints of the logs that are open
tidying        directories of no topic to `-stray`, and back
events         what is told while it is opened and run; `metrics`: its numbers; `pictures`: for notebooks
"""
