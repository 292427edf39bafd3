# The C face of single_batch.py, for the kernel that appends what is taken.
from tidelog.kernels.record_summary cimport Said

cdef class SingleBatch:
    cdef long long _max_bytes
    cdef long long _before_ms
    cdef long long _after_ms
    cdef bint _keyed
    cdef long long _codec
    cdef object _new_scratch
    cdef list _scratches
    cdef readonly long long size
    cdef readonly long long last_offset
    cdef readonly long long max_timestamp
    cdef readonly long long producer_id
    cdef readonly long long producer_epoch
    cdef readonly long long base_sequence

    cpdef take(self, bytes data, long long next_offset, long long leader_epoch, long long now_ms)
    cdef Said _look(self, unsigned char* p, Py_ssize_t n, long long* row) noexcept nogil
    cdef bint _is_plain(self, long long* row) noexcept nogil
    cdef Said _walk_packed(self, unsigned char* p, Py_ssize_t n, long long* row) except *
