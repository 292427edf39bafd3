# Nothing here is for callers in Python; kernels/runs.py is.
