# Tells the processor that memory will be read soon; any address may be given. Compiled kernels only.
cdef extern from *:
    void prefetch "__builtin_prefetch" (const void* p) noexcept nogil
