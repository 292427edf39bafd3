# The C faces of header_counts.py.
cdef long long _count_headers(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long count
) noexcept nogil
