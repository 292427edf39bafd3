"""Tables that others read and write too: Delta and Iceberg.

table      what an export needs of a table; which files it adds; how far it has come
delta      a Delta table, through `deltalake`
iceberg    a table of an Iceberg catalog, through `pyiceberg` (`iceberg_catalog`, `iceberg_offsets`)
types      Arrow types as tables know them
changes    what the versions of a table have added; `delta_history` and `iceberg_history` tell it
rows       the rows of a table's files

Where each partition continues is read from the table itself and written by the commit that adds the rows, so
nothing can disagree with the table. Both libraries are extras and are imported at first use.
"""
