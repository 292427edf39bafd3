# The C faces of decode.py.
from tidelog.kernels.columns cimport Columns
from tidelog.kernels.scratch cimport Scratch

cdef int _take_plain(
    Columns columns, const unsigned char* p, Py_ssize_t size, long long origin, Py_ssize_t last, bint check_crc
) noexcept nogil
cdef int _take_compressed(
    Columns columns,
    const unsigned char* p,
    Py_ssize_t size,
    long long origin,
    Py_ssize_t last,
    bint check_crc,
    Scratch scratch,
) noexcept nogil
