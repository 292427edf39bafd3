# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Room to decompress a payload to, and the choice of the kernel that does it by the batch's codec.

Snappy has a kernel of its own, LZ4 one for its frames; zstd is decompressed whole by the library that the
`zstandard` package ships, whose functions are handed over by address (`tidelog.records.libraries`). What is
not in the usual form, and what no kernel knows, is answered with UNUSUAL: `records.compression` decides
about it, slowly and with words.

A `Scratch` belongs to one reader: zstd keeps its state in it.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels import lz4, snappy
    from cython.cimports.tidelog.kernels.codecs import LZ4, SNAPPY, ZSTD
    from cython.cimports.tidelog.kernels.columns import SLACK
    from cython.cimports.tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL
else:
    from tidelog.kernels import lz4, snappy
    from tidelog.kernels.codecs import LZ4, SNAPPY, ZSTD
    from tidelog.kernels.columns import SLACK
    from tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL

_ZSTD_ERRORS = cython.declare(cython.size_t, 120)  # codes are sizes from the very end: -1 to -120
_ZSTD_TOO_SMALL = cython.declare(cython.size_t, 70)


def use_zstd(create, free, decompress):
    """Take ZSTD_createDCtx, _freeDCtx and _decompressDCtx from a library, by address (compiled only)."""
    global _create, _free, _unzstd
    if cython.compiled:
        _create = cython.cast(create_fn, cython.cast(cython.size_t, create))
        _free = cython.cast(free_fn, cython.cast(cython.size_t, free))
        _unzstd = cython.cast(zstd_fn, cython.cast(cython.size_t, decompress))


@cython.final
@cython.cclass
class Scratch:
    """Memory for `room` decompressed bytes, and SLACK bytes more that may be read."""

    def __cinit__(self, memory: cython.uchar[::1]):
        """Take over `memory`."""
        if memory.shape[0] <= SLACK:
            raise ValueError("too little scratch")
        self.memory = memory
        self.room = memory.shape[0] - SLACK
        if cython.compiled:
            self.data = cython.address(memory[0])
            self.context = cython.NULL
            if _create != cython.NULL:
                self.context = _create()
        else:
            self.data = memoryview(memory)

    if cython.compiled:

        def __dealloc__(self):
            """Give zstd's state back."""
            if self.context != cython.NULL:
                _free(self.context)

    else:
        __init__ = __cinit__

    def _zstd(self, p, pos, end):
        """All frames in p[pos:end]; the size, or minus SCRATCH_FULL or UNUSUAL."""
        n: cython.size_t
        if cython.compiled:
            if self.context == cython.NULL:
                return -UNUSUAL
            n = _unzstd(self.context, self.data, self.room, p + pos, end - pos)
            if n > cython.cast(cython.size_t, self.room):
                return -SCRATCH_FULL if 0 - n == _ZSTD_TOO_SMALL else -UNUSUAL
            return n
        else:
            return -UNUSUAL

    def decompress(self, p, pos, end, codec):
        """Decompress the payload p[pos:end] of a v2 batch; its size, or minus SCRATCH_FULL or UNUSUAL."""
        if codec == SNAPPY:
            return snappy.decompress_payload(p, pos, end, self.data, self.room)
        if codec == LZ4:
            return lz4.decompress_payload(p, pos, end, self.data, self.room)
        if codec == ZSTD:
            return self._zstd(p, pos, end)
        return -UNUSUAL
