# The C faces of plan.py.
cdef struct Chunk:
    Py_ssize_t stop
    long long rows
    long long size
    bint compressed
    bint wrappers
    long long kind

cdef Chunk _cut(
    const long long[:, ::1] table,
    Py_ssize_t start,
    long long max_rows,
    long long max_bytes,
    long long expansion,
    long long origin,
    long long buffer_size,
) noexcept nogil
cdef int _kind(long long magic, long long codec) noexcept nogil
