# cython: language_level=3
"""Why a kernel stopped: codes that it answers with, since it runs without the GIL and cannot raise.

The first ones name what is wrong with the bytes (`records.faults` makes errors of them), the last three
what the caller has to do: NO_ROOM, end the chunk before this batch; UNUSUAL, decompress this batch another
way; SCRATCH_FULL, come again with more scratch.
"""

import cython

if not cython.compiled:
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
