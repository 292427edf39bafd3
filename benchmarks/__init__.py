"""tidelog and its peers, side by side on the same bytes in the same run: `python -m benchmarks --help`."""
