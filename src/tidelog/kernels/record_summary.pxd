# The C face of record_summary.py, so that other kernels look at records without Python.
cdef struct Said:
    bint sound
    bint in_order
    long long smallest
    long long largest
    long long keyless

cdef struct Summary:
    Py_ssize_t bad
    long long smallest
    long long largest
    long long keyless

cdef Said _walk(
    const unsigned char* p,
    Py_ssize_t pos,
    Py_ssize_t end,
    long long count,
    long long base_timestamp,
    long long all_at,
) noexcept nogil
cdef Summary sum_up_rows(
    const unsigned char[::1] buf, long long[:, ::1] rows, Py_ssize_t n, long long origin, long long[::1] largest
) noexcept nogil
