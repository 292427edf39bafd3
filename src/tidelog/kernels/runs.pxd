# The C faces of runs.py.
from tidelog.kernels.columns cimport Columns

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
    unsigned char* scratch,
    Py_ssize_t room,
) noexcept nogil
cdef long long _decompress(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long codec, unsigned char* out, Py_ssize_t room
) noexcept nogil
