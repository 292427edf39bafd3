"""What a store does by the clock: checkpoints, flushes, retention, compaction."""
