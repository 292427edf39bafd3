"""KRaft metadata: what tells a stock broker which topics a root holds.

records        the records of the metadata log that concern topics
image          what a run of them adds up to
files          bootstrap.checkpoint, snapshots and the log `__cluster_metadata-0`
registration   from the topics there are to the records that make a broker know them
registry       the metadata of a store, read and changed
"""
