# cython: language_level=3
"""The ids of the codecs in a batch's attributes, and the largest: what is above it is refused.

A test compares them with `types.Codec`.
"""

import cython

if not cython.compiled:
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
    LARGEST = 4
