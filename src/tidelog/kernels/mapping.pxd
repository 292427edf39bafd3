# The C faces of mapping.py.
from tidelog.kernels.record_keys cimport Chunk
from tidelog.kernels.keymap cimport KeyMap
from tidelog.kernels.scratch cimport Scratch

cdef class Mapper:
    cdef KeyMap keymap
    cdef Chunk chunk
    cdef long long start
    cdef Py_ssize_t limit
    cdef readonly long long latest
    cdef readonly long long read
    cdef readonly bint full
    cdef bint exact
    cdef readonly Py_ssize_t batches

    cdef int _take(
        self, const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, const long long* row
    ) noexcept nogil
    cdef void _put_all(self) noexcept nogil
    cdef void _done(self, const long long* row) noexcept nogil
    cdef int _run(
        self,
        const unsigned char* p,
        Py_ssize_t size,
        const long long[:, ::1] rows,
        const unsigned char[::1] skip,
        long long origin,
        Scratch scratch,
    ) noexcept nogil
