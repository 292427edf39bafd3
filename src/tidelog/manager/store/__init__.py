"""A store: its roots, topics and partitions, from opening to closing."""
