"""The segments of a log: when they roll, how they are replaced, split and deleted."""
