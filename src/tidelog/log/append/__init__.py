"""From what is given to written batches: checked, stamped, rewritten where it must be."""
