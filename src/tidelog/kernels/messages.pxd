# The C faces of messages.py.
from tidelog.kernels.columns cimport Columns

cdef struct Count:
    long long messages
    long long last
    int fault

cdef Count _count(const unsigned char* p, Py_ssize_t end) noexcept nogil
cdef int _put_message(
    Columns columns,
    const unsigned char* p,
    Py_ssize_t pos,
    Py_ssize_t end,
    long long offset,
    const long long* row,
) noexcept nogil
cdef int _put_messages(
    Columns columns, const unsigned char* p, Py_ssize_t size, long long origin, Py_ssize_t last, bint check_crc
) noexcept nogil
cdef int _put_set(
    Columns columns,
    const unsigned char* p,
    Py_ssize_t end,
    long long messages,
    long long base,
    const long long* row,
) noexcept nogil
