"""Copies of a partition from several replicas, made into the one log that epochs and checksums justify.

lineage      which leader epoch wrote which offsets of a copy; where two copies diverge
copies       a replica's directory, looked through past its damage
choosing     of the batches that copies have at the same offsets, the one that is taken
outcome      what was taken from where, and why; what no winner has; what is lost
writing      the chosen batches as a new log
reconciling  one partition; `rooting`: all partitions of several disks, as a new root
"""
