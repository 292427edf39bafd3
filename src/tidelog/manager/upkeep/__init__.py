"""Work on roots and partitions at rest: recover, reindex, compact, retain, trim."""
