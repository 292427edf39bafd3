# The C faces of resync.py.
cdef int _plausible(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long floor, long long limit
) noexcept nogil
cdef int _plausible_batch(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long size, long long base, long long limit
) noexcept nogil
cdef int _plausible_message(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long size
) noexcept nogil
cdef bint _is_sound(const unsigned char* p, Py_ssize_t pos, long long size) noexcept nogil
cdef int _find(
    const unsigned char* p, Py_ssize_t start, Py_ssize_t end, bint is_end,
    long long floor, long long limit, long long* answer
) noexcept nogil
cdef int _follow(
    const unsigned char* p, Py_ssize_t start, Py_ssize_t end, bint is_end,
    long long floor, long long limit, long long expected, long long* answer
) noexcept nogil
