"""`verify`, `reindex`, `retention` and `trim`: the local commands, spread over tasks."""
