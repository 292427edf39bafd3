# The C face of progress.py, for the kernel that appends.
cdef class Progress:
    cdef readonly long long interval
    cdef public long long last_offset
    cdef public long long since
    cdef public long long max_timestamp
    cdef public long long max_offset
    cdef public long long last_time
    cdef public long long slots
    cdef public long long beginnings
    cdef public bint index_full

    cpdef int due(self, long long timestamp) noexcept
    cpdef void note(self, long long size, long long last, long long timestamp, int due) noexcept
