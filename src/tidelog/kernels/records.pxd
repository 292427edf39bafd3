# The C faces of records.py, so that other kernels decode batches without Python.
from tidelog.kernels.columns cimport Columns

cdef struct Var:
    unsigned long long value
    Py_ssize_t pos
    int fault

cdef enum:
    _SHORT = 0x4000
    _AHEAD = 2048

cdef struct Head:
    Py_ssize_t limit
    Py_ssize_t pos
    unsigned long long timestamp
    unsigned long long offset
    int fault

cdef struct Times:
    long long base_offset
    long long base
    long long mask
    long long scale
    unsigned long long short_delta

cdef struct Sink:
    int* ends
    unsigned char* valid
    unsigned char* data
    Py_ssize_t used
    Py_ssize_t nulls
    Py_ssize_t pos
    int fault
    bint wanted

cdef int put_batch(
    Columns columns,
    const unsigned char* p,
    Py_ssize_t pos,
    Py_ssize_t end,
    Py_ssize_t readable,
    const long long* row,
) noexcept nogil
cdef Py_ssize_t _put_headers(
    Columns columns, const unsigned char* p, Py_ssize_t pos, Py_ssize_t limit, Py_ssize_t row
) noexcept nogil
cdef Var long_varint(const unsigned char* p, Py_ssize_t pos, Py_ssize_t limit, int max_shift) noexcept nogil
