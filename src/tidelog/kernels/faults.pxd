# The C face of faults.py: constants for the other kernels. A test compares the two and `records.faults`.
cpdef enum:
    TORN = 1
    BAD_LENGTH = 2
    CHECKSUM = 3
    UNKNOWN_MAGIC = 4
    BAD_VARINT = 5
    RECORD_OVERRUN = 6
    COUNT_MISMATCH = 7
    BAD_TIMESTAMP = 8
    NESTED_COMPRESSION = 9
    BAD_OFFSET = 10
    NO_ROOM = 11
    UNUSUAL = 12
    SCRATCH_FULL = 13
