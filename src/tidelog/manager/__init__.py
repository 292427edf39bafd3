"""Many logs over many root directories."""
