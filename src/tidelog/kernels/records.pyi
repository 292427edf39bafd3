# Nothing here is for callers in Python; kernels/decode.py is.
