# The C faces of columns.py, so that the decoding kernels fill columns without Python.
cdef enum:
    SLACK = 32
    NO_HEADERS = 0
    HEADERS_UNSEEN = 1
    HEADERS = 2

cdef class Bytes:
    cdef object buffers
    cdef int* ends
    cdef unsigned char* valid
    cdef unsigned char* data
    cdef Py_ssize_t capacity
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t nulls
    cdef Py_ssize_t kept_used
    cdef Py_ssize_t kept_nulls

    cdef void keep(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef void put(self, Py_ssize_t row, const unsigned char* p, Py_ssize_t pos, long long n) noexcept nogil

cdef class Columns:
    cdef object buffers
    cdef long long[:, ::1] table
    cdef Py_ssize_t capacity
    cdef bint has_offsets
    cdef long long* offsets
    cdef bint has_timestamps
    cdef long long* timestamps
    cdef bint microseconds
    cdef bint has_keys
    cdef Bytes keys
    cdef bint has_values
    cdef Bytes values
    cdef int headers_mode
    cdef int* header_ends
    cdef unsigned char* header_valid
    cdef Bytes header_keys
    cdef Bytes header_values
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t headers
    cdef readonly Py_ssize_t batches
    cdef readonly long long packed
    cdef readonly long long unpacked
    cdef Py_ssize_t pos
    cdef Py_ssize_t kept_rows
    cdef Py_ssize_t kept_headers

    cdef object _take_headers(self, tuple headers)
    cdef void keep(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef bint has_room(self, long long records, Py_ssize_t size) noexcept nogil
