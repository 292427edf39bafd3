# The C face of codecs.py: constants for the other kernels. A test compares the two and `types.Codec`.
cpdef enum:
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
    LARGEST = 4
