"""One module per command: its arguments and options. The work is in `actions`."""
